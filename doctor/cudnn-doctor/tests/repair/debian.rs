//! Repairs Debian packages in an overlay of the machine's root. apt-get and dpkg change only its upper layer.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use cudnn_probe::Library;
use cudnn_probe::release_facts::has_library;
use support::{TempDir, Version, not_run};

use crate::Shared;
use crate::page::run;
use crate::situation::{Ground, Situation};
use crate::wheels::wheels;
use crate::world::Cudnn;

const LIB: &str =
    if cfg!(target_arch = "aarch64") { "/usr/lib/aarch64-linux-gnu" } else { "/usr/lib/x86_64-linux-gnu" };

/// Mounts the overlay below `$1`, with the repository `$2` and the doctor `$3`, until the end of the input. Processes
/// below it run without a network.
const KEEPER: &str = r#"
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount --rbind /proc proc
mount --rbind /dev dev
mkdir -p repository/home tmp
cp -r "$2"/. repository
cp "$3" usr/local/bin/cudnn-doctor
rm -rf etc/apt/sources.list.d etc/apt/preferences.d var/lib/apt/lists
mkdir -p etc/apt/sources.list.d etc/apt/preferences.d var/lib/apt/lists/partial
echo 'deb [trusted=yes] file:/repository ./' >etc/apt/sources.list
chroot . apt-get -o APT::Sandbox::User= update >/dev/null
echo ready
cat >/dev/null
"#;

struct Debian {
    keeper: Child,
    dir: TempDir,
}

impl Debian {
    /// Returns `None` on other distributions, or if this user cannot mount file systems.
    fn new() -> Option<Debian> {
        let dir = TempDir::new();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "sh", "-c", KEEPER, "sh"]).arg(dir.path()).arg(repository()?.path());
        command.arg(env!("CARGO_BIN_EXE_cudnn-doctor")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = command.spawn().ok()?;
        let mut line = String::new();
        BufReader::new(keeper.stdout.as_mut()?).read_line(&mut line).ok()?;
        let debian = Debian { keeper, dir };
        (line == "ready\n").then_some(debian)
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

const START: &str = "
OLD=/repository/old
install() { apt-get install -y -qq --allow-downgrades \"$@\" >/dev/null; }
complete() { install \"$@\" libcublas-12-0 cuda-nvrtc-12-0; }
";

impl Ground for Debian {
    fn bash(&self, script: &str) -> Output {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.keeper.id().to_string(), "--mount", "chroot"])
            .arg(self.dir.path().join("root"));
        // Scripts must not run in the machine's own root.
        let script = format!("cd /repository/home || exit 99\nLIB={LIB}\n{START}\n{script}");
        command.args(["bash", "-c", &script]).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", "/repository/home").env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8");
        command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", "/repository");
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn names(&self) -> Vec<(String, &'static str)> {
        vec![(LIB.into(), "/usr/lib/TRIPLE"), ("/repository/home".into(), "~")]
    }
}

fn package(repository: &Path, name: &str, version: &str, fields: &str, fill: impl FnOnce(&Path)) {
    let staging = TempDir::new();
    let control = staging.path().join("DEBIAN");
    let lib = staging.path().join(LIB.trim_start_matches('/'));
    std::fs::create_dir_all(&control).unwrap();
    std::fs::create_dir_all(&lib).unwrap();
    fill(&lib);
    let text = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@example.org>\n{fields}Description: x\n"
    );
    std::fs::write(control.join("control"), &text).unwrap();
    std::fs::write(control.join("triggers"), "activate-noawait ldconfig\n").unwrap();
    let file = format!("{name}_{version}_all.deb");
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Znone", "--build"]).arg(staging.path()).arg(repository.join(&file));
    let output = build.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let sum = Command::new("sha256sum").arg(repository.join(&file)).output().unwrap().stdout;
    let sum = String::from_utf8(sum).unwrap().split(' ').next().unwrap().to_owned();
    let size = std::fs::metadata(repository.join(&file)).unwrap().len();
    let index = repository.join("Packages");
    let others = std::fs::read_to_string(&index).unwrap_or_default();
    std::fs::write(index, format!("{others}{text}Filename: ./{file}\nSize: {size}\nSHA256: {sum}\n\n")).unwrap();
}

/// Returns `None` if dpkg-deb or apt-get is missing.
fn repository() -> Option<&'static TempDir> {
    static REPOSITORY: Shared = Shared::new();
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("apt-get") || !has("dpkg-deb") {
        return None;
    }
    Some(REPOSITORY.get_or_init(|| {
        let dir = TempDir::new();
        Cudnn { version: Version::new(9, 18, 0), cuda_major: 12 }.copy_to(&dir.path().join("old"));
        for name in ["nvidia_cudnn_cu12-9.19.0.56", "nvidia_cublas_cu12-12.9.1.4"] {
            let wheel = format!("{name}-py3-none-any.whl");
            std::fs::copy(wheels().path().join(&wheel), dir.path().join(&wheel)).unwrap();
        }
        for (minor, cuda_major) in [(18, 12), (19, 12), (19, 13)] {
            let version = Version::new(9, minor, 0);
            let name = format!("libcudnn9-cuda-{cuda_major}");
            let other = format!("Conflicts: libcudnn9-cuda-{}\n", 25 - cuda_major);
            package(dir.path(), &name, &format!("9.{minor}.0.56-1"), &other, |lib| {
                let libraries = Cudnn { version, cuda_major }.libraries();
                for library in Library::ALL.iter().filter(|library| has_library(version, **library)) {
                    let file = format!("{}.{minor}.0", library.file_name());
                    std::fs::copy(libraries.file(*library), lib.join(&file)).unwrap();
                    std::os::unix::fs::symlink(file, lib.join(library.file_name())).unwrap();
                }
            });
        }
        for (name, version, files) in [
            ("libcublas-12-0", "12.0.2.224-1", &["libcublasLt.so.12", "libcublas.so.12"][..]),
            ("cuda-nvrtc-12-0", "12.0.140-1", &["libnvrtc.so.12", "libnvrtc-builtins.so.12.0"]),
            ("libcublas-13-0", "13.0.2.14-1", &["libcublasLt.so.13", "libcublas.so.13"]),
            ("cuda-nvrtc-13-0", "13.0.88-1", &["libnvrtc.so.13", "libnvrtc-builtins.so.13.0"]),
        ] {
            package(dir.path(), name, version, "", |lib| {
                for file in files {
                    let soname = format!("-Wl,-soname,{file}");
                    support::compile("", &["-shared", "-nostdlib", &soname], &lib.join(file));
                }
            });
        }
        dir
    }))
}

/// Starts a system without cuDNN, or prints why the test does not run.
fn start() -> Option<Debian> {
    let debian = Debian::new();
    let has_none = |debian: &Debian| !debian.bash("cudnn-doctor list | grep -q libcudnn").status.success();
    if !debian.as_ref().is_some_and(has_none) {
        not_run(
            "the repairs of Debian's packages",
            "only root may mount, not in every container, and not over a cuDNN",
        );
        return None;
    }
    debian
}

#[test]
fn a_step_of_apt_is_done_only_with_its_effect_and_keeps_holds() {
    let old = "complete libcudnn9-cuda-12=9.18.0.56-1";
    let unavailable =
        "rm /repository/*9.18.0*; sed -i '/^Version: 9.18.0/,/^$/d' /repository/Packages; apt-get update -qq";
    let pinned =
        "printf 'Package: libcudnn9*\\nPin: version 9.18*\\nPin-Priority: 1001\\n' >/etc/apt/preferences.d/pin";
    let excluded = "echo 'path-exclude=*/libcudnn_ops.so.9*' >/etc/dpkg/dpkg.cfg.d/slim";
    let damage = "rm $LIB/libcudnn_ops.so.9*";
    let hold = "apt-mark hold -qq libcudnn9-cuda-12";
    let stops = "stopped at step 1 ";
    for (lines, options, expected) in [
        (format!("{old}; {damage}; {hold}"), "", &["done: ", "held: libcudnn9-cuda-12"][..]),
        (
            format!(
                "{old}; {damage}; {hold}; printf '#!/bin/sh\\nexit 1\\n' \
                  >/var/lib/dpkg/info/libcudnn9-cuda-12.prerm; chmod +x /var/lib/dpkg/info/libcudnn9-cuda-12.prerm"
            ),
            "",
            &[stops, "held: libcudnn9-cuda-12"],
        ),
        (
            format!("{old}; {hold}"),
            "--minimum 9.19",
            &["held: libcudnn9-cuda-12", "until you run `apt-mark unhold libcudnn9-cuda-12`"],
        ),
        (
            format!("{old}; {pinned}"),
            "--minimum 9.19",
            &[stops, "is version 9.18.0.56-1 instead of libcudnn9-cuda-12>=9.19"],
        ),
        (format!("{old}; {damage}; {unavailable}"), "", &[stops, "libcudnn9-cuda-12 was not installed again"]),
        (format!("{old}; {damage}; {excluded}"), "", &[stops, "C012 is still there: "]),
    ] {
        let Some(debian) = start() else { return };
        let fix = format!("cudnn-doctor fix --yes --no-load {options} --only C012,C018");
        let check = format!("cudnn-doctor check --no-load {options} --only C012,C018");
        let output = debian.bash(&format!("{lines}\n{fix}\n{check}\necho held: $(apt-mark showhold)"));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(expected.iter().all(|expected| text.contains(expected)), "{lines}: {text}");
        assert!(!expected.contains(&stops) || !text.contains("done: "), "{lines}: {text}");
    }
}

#[test]
fn packages_of_debian_are_repaired() {
    if start().is_none() {
        return;
    }
    let cudnn = "libcudnn9-cuda-12=9.19.0.56-1";
    let with = |damage: &str| format!("complete {cudnn}; {damage}");
    let older = |damage: &str| format!("complete libcudnn9-cuda-12=9.18.0.56-1; {damage}");
    let situations = [
        Situation::new("nothing is damaged", with("true"), &[]),
        Situation::new("a library is deleted", with("rm $LIB/libcudnn_ops.so.9*"), &["C012"]),
        Situation::new("a library is truncated", with("truncate --size=1000 $LIB/libcudnn_cnn.so.9.19.0"), &["C013"]),
        Situation::new("all libraries are deleted", with("rm $LIB/libcudnn*"), &["C010"]),
        Situation::new(
            "a library is deleted, and the package is held",
            with("apt-mark hold -qq libcudnn9-cuda-12; rm $LIB/libcudnn_ops.so.9*"),
            &["C012"],
        ),
        Situation::new("a link is lost", with("rm $LIB/libcudnn_ops.so.9"), &["C012"]),
        Situation::new(
            "a link leads to the copy of another release",
            with(
                "cp $OLD/libcudnn_adv.so.9 $LIB/libcudnn_adv.so.9.18.0; ln -sf libcudnn_adv.so.9.18.0 $LIB/libcudnn_adv.so.9",
            ),
            &["C014"],
        ),
        Situation::new(
            "a copy in /usr/local/lib, too old for the program, comes before the package",
            with("cp $OLD/*.so.9 /usr/local/lib; ldconfig"),
            &["C018"],
        )
        .options("--no-load --minimum 9.19"),
        Situation::new("too old for the program", older("true"), &["C018"]).options("--no-load --minimum 9.19"),
        Situation::new("too old for the program, and held", older("apt-mark hold -qq libcudnn9-cuda-12"), &["C018"])
            .options("--no-load --minimum 9.19")
            .leaves(&["C018"]),
        Situation::new("for another CUDA than the program", with("true"), &["C018"]).options("--no-load --cuda 13"),
        Situation::new("cuBLAS is missing", format!("install {cudnn} cuda-nvrtc-12-0"), &["C030"]),
        Situation::new("cuBLAS is truncated", with("truncate --size=1000 $LIB/libcublasLt.so.12"), &["C030"]),
        Situation::new("cuBLAS is deleted", with("rm $LIB/libcublasLt.so.12"), &["C030"]),
        Situation::new("the builtins of NVRTC are deleted", with("rm $LIB/libnvrtc-builtins.so.*"), &["C032"]),
        Situation::new("NVRTC is not installed", format!("install {cudnn} libcublas-12-0"), &["C031"]),
        Situation::new(
            "the package was unpacked, not configured, and lost a library",
            with("dpkg --unpack /repository/libcudnn9-cuda-12_9.19*.deb >/dev/null; rm $LIB/libcudnn_ops.so.9*"),
            &["C012"],
        )
        .known_bug(&["C012"]),
        Situation::new(
            "the repository lacks the release of the damaged package",
            older(
                "rm $LIB/libcudnn_ops.so.9*; cd /repository; rm *9.18.0*; sed -i '/^Version: 9.18.0/,/^$/d' Packages; \
                   apt-get update -qq",
            ),
            &["C012"],
        )
        .leaves(&["C012"]),
        Situation::new("cuDNN is not installed", "install libcublas-12-0 cuda-nvrtc-12-0", &["C010"]),
    ];
    run("Debian", &situations, || Box::new(Debian::new().unwrap()));
}
