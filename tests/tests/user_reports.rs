//! What goes wrong for people, fifteen times, from public reports: each situation is built from real releases where they
//! can show it; the doctor names cause and cure, and the loader behaves. What each says, and NVIDIA's shim beside them,
//! is docs/what-goes-wrong.md; `CUDNN_TESTS_WRITE=1` writes it anew.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test says so by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cudnn_probe::Library;
use serde_json::Value;
use support::{Child, ChildOutput, FakeLibrary, TempDir, Version, lib_dir, not_run};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");
const OLDER: Version = Version::new(9, 19, 0);

/// The folder of a wheel's libraries below an environment's root.
const WHEEL: &str = "lib/python3.12/site-packages/nvidia/cudnn/lib";

/// A situation's files, and the variables that everything in it runs with.
struct World {
    root: TempDir,
    variables: Vec<(&'static str, PathBuf)>,
}

/// What was said in a situation.
#[derive(Default)]
struct Said {
    situation: &'static str,
    shim: Option<String>,
    doctor: String,
    loader: String,
}

impl World {
    fn new() -> World {
        World { root: TempDir::new(), variables: Vec::new() }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// A folder of it, made.
    fn folder(&self, below: &str) -> PathBuf {
        let folder = self.path(below);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Puts a real release, or some of its files, into a folder of it.
    fn install(&self, below: &str, from: &Path, names: Option<&[Library]>) -> PathBuf {
        let folder = self.folder(below);
        for library in Library::ALL.iter().filter(|library| names.is_none_or(|names| names.contains(library))) {
            let file = std::fs::canonicalize(from.join(library.file_name()));
            let Ok(file) = file else { continue };
            let to = folder.join(library.file_name());
            std::fs::hard_link(&file, &to).or_else(|_| std::fs::copy(&file, &to).map(drop)).unwrap();
        }
        folder
    }

    /// A whole set of stand-ins.
    fn stand_ins(&self, below: &str, version: Version, ptx: u16) -> PathBuf {
        let folder = self.folder(below);
        for library in Library::ALL.iter().filter(|library| cudnn_probe::release_facts::has_library(version, **library))
        {
            FakeLibrary::new(*library, version).with_ptx(ptx).build(&folder.join(library.file_name()));
        }
        folder
    }

    fn with(mut self, name: &'static str, value: impl Into<PathBuf>) -> World {
        self.variables.push((name, value.into()));
        self
    }

    fn doctor(&self, words: &[&str]) -> Doctor {
        let output = Command::new(support::doctor())
            .args(words)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        Doctor { said: String::from_utf8_lossy(&output.stdout).into_owned(), code: output.status.code() }
    }

    fn findings(&self, words: &[&str]) -> Vec<Value> {
        let said = self.doctor(&[&["check", "--json"], words].concat()).said;
        let document: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        document["findings"].as_array().unwrap().clone()
    }

    /// The finding with this code, in words; each of the words must be in it, and a cure.
    fn finding(&self, options: &[&str], code: &str, words: &[&str]) -> String {
        let findings = self.findings(options);
        let found = findings.iter().find(|finding| finding["code"] == code);
        let found = found.unwrap_or_else(|| panic!("{code} is not found: {findings:#?}"));
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        let why: Vec<&str> = found["why"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let all = format!("{code}: {}\n{}\nTo do: {}", text("what"), why.join("\n"), text("cure"));
        assert!(!text("cure").is_empty(), "{all}");
        for word in words {
            assert!(all.contains(word), "{word:?} is missing: {all}");
        }
        all
    }

    fn run(&self, child: Child, words: &[&str]) -> ChildOutput {
        self.variables.iter().fold(child, |child, (name, value)| child.env(name, value)).run(words)
    }

    /// What the loader makes of it.
    fn loader(&self, words: &[&str]) -> ChildOutput {
        let ended = self.run(Child::bare(DRIVER), words);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended
    }

    fn shim(&self, shim: &Path, words: &[&str]) -> ChildOutput {
        let shim = shim.to_str().unwrap();
        self.run(Child::bare(DRIVER), &[&["--shim", shim], words].concat())
    }
}

struct Doctor {
    said: String,
    code: Option<i32>,
}

impl Doctor {
    fn has(self, code: i32, words: &[&str]) -> String {
        assert_eq!(self.code, Some(code), "{}", self.said);
        for word in words {
            assert!(self.said.contains(word), "{word:?} is missing: {}", self.said);
        }
        self.said
    }
}

/// How a process ended, in a few words: the signal, what calls returned, what was said.
fn told(ended: &ChildOutput) -> String {
    let mut lines: Vec<String> = ended.stdout.lines().map(|line| line.trim_start_matches("  | ").to_owned()).collect();
    lines.extend(ended.stderr.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
    if let Some(signal) = ended.signal {
        lines.push(format!("(the process is ended by signal {signal})"));
    }
    lines.join("\n")
}

fn words<'a>(text: &'a str, words: &[&str]) -> &'a str {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing: {text}");
    }
    text
}

fn jit() -> Option<(PathBuf, PathBuf)> {
    Some((lib_dir("jit-cu12-9.19.0")?, lib_dir("jit-cu13-9.27.0")?))
}

/// A framework that brings NVIDIA's shim alone; the rest is in a wheel.
fn row_1() -> Option<(World, Said)> {
    let (older, _) = jit()?;
    let world = World::new();
    let wheel = world.install(&format!("venv/{WHEEL}"), &older, None);
    let bundled = world.install("framework", &older, Some(&[Library::Shim]));
    let venv = world.path("venv");
    let world = world.with("VIRTUAL_ENV", venv);
    let shim = world.shim(&bundled.join("libcudnn.so.9"), &["cudnnDestroy"]);
    let doctor = world.finding(
        &[],
        "C020",
        &[
            wheel.to_str().unwrap(),
            "on no search path",
            "export LD_LIBRARY_PATH=",
            "this project's loader does find it",
        ],
    );
    let list = world.doctor(&["list"]).has(0, &["9.19.0", "the active virtual environment"]);
    assert!(list.contains("->"), "{list}");
    let loader = world.loader(&["load:", "cudnnGetVersion"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("91900"));
    let said = Said {
        situation: "The wheel's folder is on no search path, and a framework brings NVIDIA's shim alone.",
        shim: Some(told(&shim)),
        doctor,
        loader: told(&loader),
    };
    Some((world, said))
}

/// One framework has loaded its cuDNN; another's shim is used then.
fn row_2() -> Option<(World, Said)> {
    let (older, newer) = jit()?;
    let world = World::new();
    let first = world.install("first", &older, None).join("libcudnn_graph.so.9");
    let second = world.install("second", &newer, None);
    let open = format!("open:{}", first.display());
    let shim = world.shim(&second.join("libcudnn.so.9"), &[&open, "cudnnGetVersion"]);
    let preload = std::env::join_paths([&first, &second.join("libcudnn.so.9")]).unwrap();
    let mut sleeper =
        Command::new("sleep").arg("60").env_clear().env("LD_PRELOAD", preload).stdin(Stdio::null()).spawn().unwrap();
    let maps = format!("/proc/{}/maps", sleeper.id());
    while !std::fs::read_to_string(&maps).unwrap_or_default().contains("second/libcudnn.so.9") {
        std::thread::yield_now();
    }
    let doctor = world.doctor(&["pid", &sleeper.id().to_string()]);
    let _ = (sleeper.kill(), sleeper.wait());
    let doctor = doctor.has(2, &["cuDNN from 2 folders in one process: 9.19.0, ", "; then 9.27.0, ", "opened by code"]);
    let at = |text: &str| doctor.find(text).unwrap_or_else(|| panic!("{text:?}: {doctor}"));
    assert!(at("first/libcudnn_graph.so.9") < at("second/libcudnn.so.9"), "{doctor}");
    // The loader takes the one that is there, and refuses to put another beside it.
    let adopted = world.loader(&[&open, "load:", "cudnnGetVersion"]);
    assert_eq!(adopted.returned("cudnnGetVersion"), Some("91900"));
    words(&adopted.stdout, &["already loaded in this process"]);
    let refused = world.loader(&[&open, &format!("load:path={}", second.display())]);
    words(&refused.stdout, &[second.to_str().unwrap(), "which the process has loaded already", "9.19.0"]);
    let said = Said {
        situation: "Two cuDNNs in one process: one framework has loaded 9.19, another brings the shim of 9.27.",
        shim: Some(told(&shim)),
        doctor,
        loader: told(&refused),
    };
    Some((world, said))
}

/// A program for cuDNN 8, on a machine with 9; and the reverse.
fn row_3() -> Option<(World, Said)> {
    let (older, _) = jit()?;
    let world = World::new();
    let here = world.install("here", &older, None);
    let stub = world.folder("app").join("libcudnn_ops_infer.so.8");
    support::compile("", &["-shared", "-nostdlib", "-Wl,-soname,libcudnn_ops_infer.so.8"], &stub);
    let program = world.path("app/program");
    support::compile("int main(void) { return 0; }", &["-w", "-Wl,--no-as-needed", stub.to_str().unwrap()], &program);
    std::fs::remove_file(stub).unwrap();
    let world = world.with("LD_LIBRARY_PATH", here);
    let doctor = world.doctor(&["explain", program.to_str().unwrap()]).has(
        2,
        &[
            "libcudnn_ops_infer.so.8",
            "it wants cuDNN 8",
            "here is cuDNN 9.19.0 in ",
            "pip install 'nvidia-cudnn-cu12==8.*'",
        ],
    );
    let reverse = World::new();
    let only_8 = reverse.folder("here");
    std::fs::write(only_8.join("libcudnn.so.8"), "").unwrap();
    let reverse = reverse.with("LD_LIBRARY_PATH", only_8);
    reverse.finding(&[], "C010", &["holds cuDNN 8, and cuDNN 9 is needed"]);
    let loader = reverse.loader(&["cudnnDestroy"]);
    words(&loader.stdout, &["holds cuDNN 8, and cuDNN 9 is needed", "What to do"]);
    let loader =
        told(&loader).replace(&reverse.root.path().display().to_string(), &world.root.path().display().to_string());
    let said = Said {
        situation: "A program wants cuDNN 8 where 9 is; for the loader: only 8 is there.",
        shim: None,
        doctor,
        loader,
    };
    Some((world, said))
}

/// A bundled cuDNN beside a program with an RPATH, another on LD_LIBRARY_PATH.
fn row_4() -> Option<(World, Said)> {
    let (older, newer) = jit()?;
    let world = World::new();
    let bundled = world.install("app", &older, None);
    let system = world.install("system", &newer, None);
    let program = world.path("app/program");
    support::compile(
        "#include <stdio.h>\nunsigned long cudnnGetVersion(void);\n\
         int main(void) { printf(\"cudnnGetVersion = %lu\\n\", cudnnGetVersion()); return 0; }",
        &[
            "-Wl,--no-as-needed,--disable-new-dtags,-rpath,$ORIGIN",
            "-Wl,--unresolved-symbols=ignore-in-shared-libs",
            bundled.join("libcudnn.so.9").to_str().unwrap(),
        ],
        &program,
    );
    let world = world.with("LD_LIBRARY_PATH", system.clone());
    let shim = world.run(Child::bare(&program), &[]);
    // The program's RPATH finds the shim; the shim's own RUNPATH comes after LD_LIBRARY_PATH.
    assert_eq!(shim.returned("cudnnGetVersion"), Some("92700"), "{shim:#?}");
    let doctor = world.doctor(&["explain", program.to_str().unwrap()]).has(
        2,
        &[
            "app/libcudnn.so.9 (9.19.0): RPATH of ",
            "system/libcudnn_graph.so.9 (9.27.0): LD_LIBRARY_PATH",
            "two releases would be mixed: 9.27.0 of ",
        ],
    );
    let loader = world.loader(&["load:", "cudnnGetVersion", "maps"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("92700"));
    assert!(!loader.stdout.contains("app/libcudnn"), "{loader:#?}");
    let said = Said {
        situation: "9.19 is bundled beside a program with an RPATH, 9.27 is on LD_LIBRARY_PATH.",
        shim: Some(told(&shim)),
        doctor,
        loader: told(&loader),
    };
    Some((world, said))
}

/// No unversioned link.
fn row_5() -> Option<(World, Said)> {
    let (older, _) = jit()?;
    let world = World::new();
    let here = world.install("here", &older, None);
    assert!(!here.join("libcudnn.so").exists());
    let world = world.with("LD_LIBRARY_PATH", here);
    let doctor = world.doctor(&["list"]).has(0, &["->", "9.19.0", "LD_LIBRARY_PATH"]);
    let loader = world.loader(&["cudnnGetVersion"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("91900"));
    let said = Said {
        situation: "Only `libcudnn.so.9` is there, without a link `libcudnn.so`.",
        shim: None,
        doctor,
        loader: told(&loader),
    };
    Some((world, said))
}

/// No driver.
fn row_6() -> Option<(World, Said)> {
    if Path::new("/proc/driver/nvidia/version").exists() {
        not_run("row 6", "this machine has a driver");
        return None;
    }
    let (_, newer) = jit()?;
    let world = World::new();
    let here = world.install("here", &newer, None);
    let world = world.with("LD_LIBRARY_PATH", here.clone());
    let shim = world.shim(&here.join("libcudnn.so.9"), &["create"]);
    let doctor =
        world.finding(&[], "C001", &["libcuda.so.1, the driver's library, is not found", "docker run --gpus all"]);
    let loader = world.loader(&["cudnnGetVersion", "create"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("92700"));
    let said = Said {
        situation: "The driver's library is not visible, as in a container without the GPU runtime.",
        shim: Some(told(&shim)),
        doctor,
        loader: told(&loader),
    };
    Some((world, said))
}

/// A GTX 1080 Ti, as NVML tells of it.
fn row_7() -> Option<(World, Said)> {
    let (older, _) = jit()?;
    let world = World::new();
    let here = world.install("here", &older, None);
    let code = "int nvmlInit_v2(void) { return 0; }\nint nvmlShutdown(void) { return 0; }\n\
         static void put(char *to, const char *from) { while ((*to++ = *from++)); }\n\
         int nvmlSystemGetDriverVersion(char *to, unsigned size) { put(to, \"580.65.06\"); return 0; }\n\
         int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }\n\
         int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = device; return 0; }\n\
         int nvmlDeviceGetName(void *device, char *to, unsigned size) { put(to, \"NVIDIA GeForce GTX 1080 Ti\"); return 0; }\n\
         int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) { *major = 6; *minor = 1; return 0; }\n";
    support::compile(code, &["-shared", "-fPIC", "-w"], &here.join("libnvidia-ml.so.1"));
    let world = world.with("LD_LIBRARY_PATH", here);
    let doctor = world.finding(
        &[],
        "C040",
        &["GTX 1080 Ti has compute capability 6.1", "kernels from 7.5 on", "nvidia-cudnn-cu12==9.10.2.21"],
    );
    let loader = world.loader(&["cudnnGetVersion"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("91900"));
    let said = Said {
        situation: "A GPU of compute capability 6.1, and a release from 9.11 on. (The GPU is a stand-in for NVML.)",
        shim: None,
        doctor,
        loader: told(&loader),
    };
    Some((world, said))
}

/// cuDNN for CUDA 12 among libraries of CUDA 13.
fn row_8() -> Option<(World, Said)> {
    let world = World::new();
    let here = world.stand_ins("here", OLDER, 8);
    support::compile("", &["-shared", "-nostdlib"], &world.folder("cuda").join("libcublasLt.so.13"));
    let path = std::env::join_paths([&here, &world.path("cuda")]).unwrap();
    let world = world.with("LD_LIBRARY_PATH", path);
    let doctor = world.finding(
        &[],
        "C030",
        &[
            "libcublasLt.so.12 is not found",
            "built for CUDA 12",
            "found, for another CUDA: ",
            "cuda/libcublasLt.so.13",
            "pip install nvidia-cublas-cu12",
        ],
    );
    let loader = world.loader(&["load:cuda=13", "load:cuda=12"]);
    words(&loader.stdout, &["is built for CUDA 12, and CUDA 13 is asked for"]);
    let said = Said {
        situation: "cuDNN for CUDA 12 on a host with CUDA 13's libraries.",
        shim: None,
        doctor,
        loader: told(&loader),
    };
    Some((world, said))
}

/// Three libraries of all.
fn row_9() -> Option<(World, Said)> {
    let world = World::new();
    let all = world.stand_ins("all", OLDER, 8);
    let three = [Library::Shim, Library::Graph, Library::Ops];
    let here = world.install("bundle", &all, Some(&three));
    let world = world.with("LD_LIBRARY_PATH", here);
    let doctor = world.finding(&[], "C012", &["5 of 8 libraries are missing", "libcudnn_cnn.so.9, libcudnn_adv.so.9"]);
    let loader = world.loader(&["cudnnDestroyTensorDescriptor", "cudnnDestroyConvolutionDescriptor"]);
    words(&loader.stdout, &["cudnnDestroyTensorDescriptor = CUDNN_STATUS_SUCCESS", "libcudnn_cnn.so.9", "What to do"]);
    let said = Said { situation: "A bundle holds three of the libraries.", shim: None, doctor, loader: told(&loader) };
    Some((world, said))
}

/// CUDA_HOME beside a wheel.
fn row_10() -> Option<(World, Said)> {
    let (older, newer) = jit()?;
    let world = World::new();
    let toolkit = world.install("cuda/lib64", &older, None);
    world.install(&format!("venv/{WHEEL}"), &newer, None);
    let (cuda, venv) = (world.path("cuda"), world.path("venv"));
    let world = world.with("CUDA_HOME", cuda).with("VIRTUAL_ENV", venv);
    // As TransformerEngine: CUDA_HOME's own, by its path.
    let shim = world.shim(&toolkit.join("libcudnn.so.9"), &["cudnnGetVersion"]);
    assert_eq!(shim.returned("cudnnGetVersion"), Some("91900"));
    let doctor = world.doctor(&["list"]).has(0, &["found: below CUDA_HOME", "found: the active virtual environment"]);
    let marked = doctor.lines().find(|line| line.starts_with("->") || line.trim_start().starts_with("->")).unwrap();
    assert!(marked.contains("9.27.0"), "{doctor}");
    world.finding(&[], "C016", &["2 cuDNNs are installed", "also here: 9.19.0 in ", "below CUDA_HOME"]);
    let loader = world.loader(&["load:", "cudnnGetVersion"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("92700"));
    let said = Said {
        situation: "9.19 is below CUDA_HOME, 9.27 is the active environment's wheel; a framework asks CUDA_HOME first.",
        shim: Some(told(&shim)),
        doctor,
        loader: told(&loader),
    };
    Some((world, said))
}

/// A newer one is needed.
fn row_11() -> Option<(World, Said)> {
    let (older, _) = jit()?;
    let record = support::release("jit-cu12-9.19.0")?;
    let world = World::new();
    let wheel = world.install("venv/lib/python3.12/site-packages/nvidia/cudnn_jit/lib", &older, None);
    let mut records = std::fs::read_dir(record).unwrap().flatten().map(|entry| entry.path());
    let record = records.find(|path| path.extension().is_some_and(|kind| kind == "dist-info")).unwrap();
    let to = wheel.ancestors().nth(3).unwrap().join(record.file_name().unwrap());
    std::fs::create_dir(&to).unwrap();
    std::fs::copy(record.join("RECORD"), to.join("RECORD")).unwrap();
    let venv = world.path("venv");
    let world = world.with("CUDNN_LOADER_DIR", wheel).with("VIRTUAL_ENV", venv);
    let doctor = world.finding(
        &["--minimum", "9.20"],
        "C018",
        &["is cuDNN 9.19.0, and at least 9.20.0 is asked for", "pip nvidia-cudnn-jit-cu12 9.19.0.56", "pip install"],
    );
    let loader = world.loader(&["load:min=9.20"]);
    words(&loader.stdout, &["at least 9.20.0 is asked for", "What to do"]);
    let said =
        Said { situation: "The application needs 9.20, and 9.19 is there.", shim: None, doctor, loader: told(&loader) };
    Some((world, said))
}

/// A dependency of one library is missing.
fn row_12() -> Option<(World, Said)> {
    let world = World::new();
    let here = world.stand_ins("here", OLDER, 8);
    let (_, newer) = jit()?;
    let shim = here.join("libcudnn.so.9");
    std::fs::copy(newer.join("libcudnn.so.9"), &shim).unwrap();
    FakeLibrary::new(Library::Ops, OLDER).with_ptx(8).needing("libnowhere.so.1").build(&here.join("libcudnn_ops.so.9"));
    let world = world.with("LD_LIBRARY_PATH", here);
    let shim = world.shim(&shim, &["cudnnDestroyTensorDescriptor"]);
    let doctor =
        world.finding(&[], "C051", &["libnowhere.so.1", "libcudnn_ops.so.9", "cannot open shared object file"]);
    let loader = world.loader(&["cudnnDestroyTensorDescriptor"]);
    words(&loader.stdout, &["libnowhere.so.1: cannot open shared object file", "here/libcudnn_ops.so.9", "What to do"]);
    let said = Said {
        situation: "A library that cuDNN's own libraries need is missing. (All but the shim are stand-ins.)",
        shim: Some(told(&shim)),
        doctor,
        loader: told(&loader),
    };
    Some((world, said))
}

/// A function of a later release.
fn row_13() -> Option<(World, Said)> {
    let (older, _) = jit()?;
    let world = World::new();
    let here = world.install("here", &older, None);
    let world = world.with("LD_LIBRARY_PATH", here);
    let function = "cudnnCausalConv1dForward";
    let doctor = world.finding(
        &["--function", function],
        "C019",
        &["cudnnCausalConv1dForward came with cuDNN 9.22.0, and this is 9.19.0", "pip install"],
    );
    let loader = world.loader(&[function]);
    words(&loader.stdout, &["9.22.0", "9.19.0", "here", "What to do"]);
    let said = Said {
        situation: "A program calls a function that came with a later release.",
        shim: None,
        doctor,
        loader: told(&loader),
    };
    Some((world, said))
}

/// Two CUDA majors of one version.
fn row_14() -> Option<(World, Said)> {
    let world = World::new();
    let here = world.stand_ins("here", OLDER, 8);
    FakeLibrary::new(Library::Ops, OLDER).with_ptx(9).build(&here.join("libcudnn_ops.so.9"));
    let world = world.with("LD_LIBRARY_PATH", here);
    let doctor = world.finding(&[], "C015", &["libcudnn_ops.so.9 is built for CUDA 13", "built for CUDA 12"]);
    let loader = world.loader(&["cudnnDestroyTensorDescriptor"]);
    words(&loader.stdout, &["CUDA 13", "CUDA 12", "What to do"]);
    let said = Said {
        situation: "An ops of CUDA 13 beside a graph of CUDA 12, of the same version. (Stand-ins; tested on real full \
                    releases too, in docs/fault-matrix.md.)",
        shim: None,
        doctor,
        loader: told(&loader),
    };
    Some((world, said))
}

/// What is no library of this machine's.
fn row_15() -> Option<(World, Said)> {
    let (older, _) = jit()?;
    let graph = std::fs::read(older.join("libcudnn_graph.so.9")).unwrap();
    let aarch64 = lib_dir("aarch64-jit-cu12-9.19.0")?.join("libcudnn_graph.so.9");
    let contents: [(&str, Vec<u8>); 3] = [
        ("is truncated", graph[..graph.len() / 2].to_vec()),
        ("is not an ELF file", b"<html>404</html>".to_vec()),
        ("is built for ELF machine 183, and this program runs on x86-64", std::fs::read(aarch64).unwrap()),
    ];
    let world = World::new();
    let here = world.folder("here");
    let file = here.join("libcudnn_graph.so.9");
    let world = world.with("LD_LIBRARY_PATH", here);
    let (mut doctor, mut loader) = (String::new(), String::new());
    for (named, bytes) in contents {
        let named = if cfg!(target_arch = "aarch64") && named.contains("183") { continue } else { named };
        std::fs::write(&file, bytes).unwrap();
        let named = named.replace("ELF machine 183", "aarch64");
        doctor += &world.finding(&[], "C011", &[&named]);
        doctor.push('\n');
        let ended = world.loader(&["cudnnGetVersion", "cudnnDestroy"]);
        loader += words(&told(&ended), &[&named, "What to do"]);
        loader.push('\n');
    }
    let said = Said {
        situation: "A truncated library; a text file of that name; a library for aarch64. (An unreadable one: \
                    docs/fault-matrix.md.)",
        shim: None,
        doctor,
        loader,
    };
    Some((world, said))
}

type Row = fn() -> Option<(World, Said)>;

const ROWS: [Row; 15] =
    [row_1, row_2, row_3, row_4, row_5, row_6, row_7, row_8, row_9, row_10, row_11, row_12, row_13, row_14, row_15];

#[test]
fn the_doctor_names_cause_and_cure_and_the_loader_behaves() {
    let mut text = String::from(
        "# What goes wrong, and what is said\n\n\
         Fifteen situations that people have reported to the trackers of frameworks, each built anew from real releases\n\
         where they can show it. What `cudnn-doctor` says of it, what the loader does, and, where the two differ most from\n\
         what people have seen, what NVIDIA's own shim does in the same place. `…` is the situation's folder.\n\n\
         Written and held to the truth by `cargo test -p cudnn-tests --test user_reports`, on Linux x86-64 with no GPU.\n",
    );
    let mut is_whole = true;
    for (index, row) in ROWS.iter().enumerate() {
        let Some((world, said)) = row() else {
            is_whole = false;
            continue;
        };
        let clean = |told: &str| {
            let told = told.replace(&world.root.path().display().to_string(), "…");
            // The folders of the machine that is tested on, which hold nothing.
            let is_telling = |line: &&str| !line.is_empty() && !line.ends_with("is absent");
            let lines = told.lines().map(str::trim_end).filter(is_telling);
            lines.map(|line| format!("    {line}\n")).collect::<String>()
        };
        text += &format!("\n## {}. {}\n", index + 1, said.situation);
        if let Some(shim) = &said.shim {
            text += &format!("\nNVIDIA's shim:\n\n{}", clean(shim));
        }
        text += &format!("\ncudnn-doctor:\n\n{}\nThe loader:\n\n{}", clean(&said.doctor), clean(&said.loader));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/what-goes-wrong.md");
    if !is_whole {
        return not_run("the comparison with docs/what-goes-wrong.md", "a situation cannot be built here");
    }
    if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    for (is, was) in text.lines().zip(committed.lines()) {
        assert_eq!(is, was, "docs/what-goes-wrong.md is out of date: run this test with CUDNN_TESTS_WRITE=1");
    }
    assert_eq!(text.lines().count(), committed.lines().count(), "docs/what-goes-wrong.md is out of date");
}
