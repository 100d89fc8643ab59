//! Repairs damaged wheels in an active virtual environment with pip.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use support::{TempDir, Version};

use crate::Shared;
use crate::page::run;
use crate::situation::{Ground, Situation};
use crate::wheels::wheels;
use crate::world::{Cudnn, World};

pub(crate) struct Venv {
    world: World,
    start: String,
}

impl Venv {
    pub(crate) fn new(has_pip: bool) -> Venv {
        Venv::of(World::new("env", has_pip))
    }

    pub(crate) fn of(world: World) -> Venv {
        let wheels = wheels().path();
        let world = world.variable("PIP_FIND_LINKS", wheels).variable("UV_FIND_LINKS", wheels);
        let start = format!(
            "{TOOLS}PATH=\"$VIRTUAL_ENV/bin:$PATH\"\nSITE=$(echo \"$VIRTUAL_ENV\"/lib/python3*/site-packages)\n"
        );
        Venv { world, start }.with(DIRECTORIES)
    }

    fn with(mut self, lines: &str) -> Venv {
        self.start += lines;
        self
    }

    /// Adds the wheels' directories to ld.so's search path, as C020, C030 and C031 advise.
    pub(crate) fn searched(self) -> Venv {
        self.with("export LD_LIBRARY_PATH=$LIB:$SITE/nvidia/cublas/lib:$SITE/nvidia/cuda_nvrtc/lib\n")
    }

    /// Like `searched`, for the JIT-only cuDNN.
    pub(crate) fn searched_for_jit(self) -> Venv {
        self.with("export LD_LIBRARY_PATH=$JIT:$SITE/nvidia/cublas/lib:$SITE/nvidia/cuda_nvrtc/lib\n")
    }

    pub(crate) fn with_wheels(mut self, dir: &Path) -> Venv {
        let both = format!("{} {}", wheels().path().display(), dir.display());
        self.world = self.world.variable("PIP_FIND_LINKS", both);
        self
    }

    /// Creates a world without an active environment, so that pip installs into `~/.local`.
    pub(crate) fn with_user_packages() -> Venv {
        let doctor = Path::new(env!("CARGO_BIN_EXE_cudnn-doctor")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths([doctor].into_iter().chain(std::env::split_paths(&path))).unwrap();
        let world = Venv::new(false).world.variable("PATH", path);
        let start = "unset VIRTUAL_ENV; export PIP_BREAK_SYSTEM_PACKAGES=1\n\
                     pip() { python3 -m pip \"$@\"; }\n\
                     install() { pip --quiet install --user --no-deps --no-warn-script-location \"$@\"; }\n\
                     SITE=$(python3 -m site --user-site)\n";
        Venv { world, start: format!("{TOOLS}{start}") }.with(DIRECTORIES).searched()
    }
}

/// Shell functions for scripts. `complete` installs cuDNN and its dependencies with pip once, and then copies them.
const TOOLS: &str = r#"
install() { pip --quiet install --no-deps "$@"; }
complete() {
    local made="$INSTALLED/complete $*" copy
    if [ -d "$made" ]; then
        mkdir -p "$SITE" && cp -a "$made/." "$SITE"
    else
        install "$@" nvidia-cudnn-cu12 nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12
        copy=$(mktemp -d -p "$INSTALLED")
        cp -a "$SITE"/nvidia* $(find "$SITE" -maxdepth 1 -name 'torch*') "$copy"
        mv -T "$copy" "$made" 2>/dev/null || rm -r "$copy"
    fi
}
replace() { rm "$LIB/$2" && cp "$1/$2" "$LIB/$2"; }
truncate_file() { head --bytes=1000 "$1" >"$1.part" && mv "$1.part" "$1"; }
"#;

const DIRECTORIES: &str = "LIB=\"$SITE/nvidia/cudnn/lib\"\nJIT=\"$SITE/nvidia/cudnn_jit/lib\"\n";

impl Ground for Venv {
    fn bash(&self, script: &str) -> Output {
        let release = |minor: u32, cuda_major: u32| {
            let version = Version::new(9, minor, 0);
            Cudnn { version, cuda_major }.libraries().path().display().to_string()
        };
        static INSTALLED: Shared = Shared::new();
        let installed = INSTALLED.get_or_init(TempDir::new).path().display();
        let releases =
            format!("INSTALLED={installed} OLD={} NEW={} CU13={}", release(18, 12), release(19, 12), release(19, 13));
        let script = format!("{releases}\n{}\n{script}", self.start);
        self.world.command("bash").args(["-c", &script]).output().unwrap()
    }

    fn names(&self) -> Vec<(String, &'static str)> {
        let (prefix, version) = base_python();
        let bin = format!("{prefix}/bin/");
        vec![
            (self.world.home().display().to_string(), "~"),
            (bin, ""),
            (prefix.clone(), "PYTHON"),
            (version.clone(), "3.N"),
        ]
    }
}

fn base_python() -> &'static (String, String) {
    static PYTHON: OnceLock<(String, String)> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let script = "import sys; print(sys.base_prefix); print('3.%d' % sys.version_info[1])";
        let output = Command::new("python3").args(["-I", "-c", script]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (prefix, version) = text.trim_end().split_once('\n').unwrap();
        (prefix.to_owned(), version.to_owned())
    })
}

#[test]
fn wheels_of_pip_are_repaired() {
    let two_records = "install nvidia-cudnn-cu12==9.18.0.56; cp -r $SITE/nvidia_cudnn_cu12-9.18.0.56.dist-info kept; \
                       complete --upgrade; mv kept $SITE/nvidia_cudnn_cu12-9.18.0.56.dist-info";
    let minimum = "--no-load --minimum 9.19";
    let situations = [
        Situation::new("nothing is damaged", "complete", &[]),
        Situation::new("a library is deleted", "complete; rm $LIB/libcudnn_ops.so.9", &["C012"]),
        Situation::new("NVIDIA's shim is deleted", "complete; rm $LIB/libcudnn.so.9", &["C012"]),
        Situation::new("a library is truncated", "complete; truncate_file $LIB/libcudnn_cnn.so.9", &["C013"]),
        Situation::new("a library is a dangling link", "complete; ln -sf /gone $LIB/libcudnn_cnn.so.9", &["C013"]),
        Situation::new(
            "a directory replaces a library",
            "complete; rm $LIB/libcudnn_cnn.so.9; mkdir $LIB/libcudnn_cnn.so.9",
            &["C013"],
        ),
        Situation::new("the main library is truncated", "complete; truncate_file $LIB/libcudnn_graph.so.9", &["C010"]),
        Situation::new("the library directory is deleted", "complete; rm -r $LIB", &["C010"]),
        Situation::new(
            "the nvidia directory is a link to itself",
            "complete; rm -r $SITE/nvidia; ln -s nvidia $SITE/nvidia",
            &["C010"],
        ),
        Situation::new("a library comes from another release", "complete; replace $OLD libcudnn_adv.so.9", &["C014"]),
        Situation::new("a library is for another CUDA", "complete; replace $CU13 libcudnn_cnn.so.9", &["C015"]),
        Situation::new(
            "a stray file with a longer name is loaded first",
            "complete; cp $OLD/libcudnn_ops.so.9 $LIB/libcudnn_ops.so.9.19.0",
            &["C014"],
        ),
        Situation::new(
            "the wheels for CUDA 12 and 13 overwrite each other",
            "complete; install nvidia-cudnn-cu13",
            &["C023"],
        ),
        Situation::new("an interrupted upgrade left two records", two_records, &["C023"]),
        Situation::new(
            "the RECORD is missing, and a library",
            "complete; rm $SITE/nvidia_cudnn_cu12-*.dist-info/RECORD $LIB/libcudnn_ops.so.9",
            &["C012"],
        ),
        Situation::new(
            "the metadata is missing, and a library",
            "complete; rm -r $SITE/nvidia_cudnn_cu12-*.dist-info $LIB/libcudnn_ops.so.9",
            &["C012"],
        ),
        Situation::new(
            "the metadata is not UTF-8, and a library is missing",
            "complete; printf 'Author: Ren\\351\\n' >>$SITE/nvidia_cudnn_cu12-9.19.0.56.dist-info/METADATA; \
             rm $LIB/libcudnn_ops.so.9",
            &["C012"],
        ),
        Situation::new("too old for the program", "complete; install nvidia-cudnn-cu12==9.18.0.56", &["C018"])
            .options(minimum),
        Situation::new("for another CUDA than the program", "complete", &["C018"]).options("--no-load --cuda 13"),
        Situation::new(
            "too old, for another CUDA, and without a function",
            "complete; install nvidia-cudnn-cu12==9.18.0.56; rm $LIB/libcudnn_cnn.so.9",
            &["C012", "C018", "C019"],
        )
        .options("--no-load --minimum 9.19 --cuda 13 --function cudnnConvolutionForward"),
        Situation::new("cuDNN is not installed", "install nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12", &["C010"]),
        Situation::new("only cuDNN 8 is installed", "complete; install nvidia-cudnn-cu12==8.9.7.29", &["C010"]),
        Situation::new("cuBLAS is not installed", "install nvidia-cudnn-cu12 nvidia-cuda-nvrtc-cu12", &["C030"]),
        Situation::new(
            "cuBLAS is truncated",
            "complete; truncate_file $SITE/nvidia/cublas/lib/libcublasLt.so.12",
            &["C030"],
        ),
        Situation::new("NVRTC is not installed", "install nvidia-cudnn-cu12 nvidia-cublas-cu12", &["C031"]),
        Situation::new("cuBLAS and NVRTC are not installed", "install nvidia-cudnn-cu12", &["C030", "C031"]),
        Situation::new(
            "the builtins of NVRTC are deleted",
            "complete; rm $SITE/nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.*",
            &["C032"],
        ),
        Situation::new(
            "four faults at once",
            "complete; rm $LIB/libcudnn_ops.so.9; truncate_file $LIB/libcudnn_cnn.so.9; replace $OLD libcudnn_adv.so.9; \
             rm -r $SITE/nvidia/cublas/lib",
            &["C012", "C013", "C014", "C030"],
        ),
        Situation::new("a variable has pip install elsewhere", "complete; rm $LIB/libcudnn_ops.so.9", &["C012"])
            .shell("export PIP_TARGET=$HOME/elsewhere PIP_USER=1"),
    ];
    run("pip", &situations, || Box::new(Venv::new(true).searched()));
    let name = "my env's $(touch RUN)";
    let situations = [Situation::new("a library is deleted", "complete; rm \"$LIB\"/libcudnn_ops.so.9", &["C012"])];
    run("A name that a shell would interpret", &situations, || Box::new(Venv::of(World::new(name, true)).searched()));
}
