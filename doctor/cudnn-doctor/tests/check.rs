//! Provokes every finding of `check` with installations of fake libraries that have one fault, and with a fake NVML.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod again;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use cudnn_probe::Library;
use serde_json::Value;
use support::{
    ExtensionLibrary, FakeLibrary, FakeNvml, PythonEnvironment, TempDir, Version, copy_fake_set, own_release_facts,
};

const DOCTOR: &str = env!("CARGO_BIN_EXE_cudnn-doctor");
const VERSION: Version = Version::new(9, 19, 0);

struct Scenario {
    used: TempDir,
    other: TempDir,
    variables: Vec<(&'static str, String)>,
    options: Vec<String>,
    address_space: Option<u64>,
    /// The arguments of `ulimit` for another limit.
    limit: Option<&'static str>,
}

impl Scenario {
    /// Returns a complete installation, which CUDNN_LOADER_DIR names.
    fn complete() -> Scenario {
        let (used, other) = (TempDir::new(), TempDir::new());
        copy_fake_set(VERSION, used.path());
        let variables = vec![("CUDNN_LOADER_DIR", used.path().display().to_string())];
        Scenario { used, other, variables, options: Vec::new(), address_space: None, limit: None }
    }

    fn variable(mut self, name: &'static str, dir: &Path) -> Scenario {
        self.variables.push((name, dir.display().to_string()));
        self
    }

    fn options(mut self, options: &[&str]) -> Scenario {
        self.options = options.iter().map(|option| (*option).to_owned()).collect();
        self
    }

    /// Replaces the libraries with unloadable ones for these GPU targets.
    fn with_kernels(self, targets: &[&str]) -> Scenario {
        for library in Library::ALL {
            let file = self.used.cleared(*library);
            if matches!(library, Library::Shim | Library::Graph) {
                FakeLibrary::new(*library, VERSION).build(&file);
            } else {
                ExtensionLibrary::new().with_soname(library.file_name()).with_gpu_code(2, targets).build(&file);
            }
        }
        self
    }

    /// Limits the address space, in KiB.
    fn address_space(mut self, limit: u64) -> Scenario {
        self.address_space = Some(limit);
        self
    }

    fn limit(mut self, arguments: &'static str) -> Scenario {
        self.limit = Some(arguments);
        self
    }

    fn replace(self, library: FakeLibrary, which: Library) -> Scenario {
        library.build(&self.used.cleared(which));
        self
    }

    fn check(&self) -> (Vec<Value>, i32) {
        let (document, status) = self.document();
        (document.get("findings").and_then(Value::as_array).unwrap().clone(), status)
    }

    fn output(&self, options: &[&OsStr]) -> Output {
        let limit = self.address_space.map_or("unlimited".to_owned(), |limit| limit.to_string());
        let other = self.limit.unwrap_or("-c 0");
        Command::new("/bin/sh")
            .args(["-c", &format!("ulimit -v {limit}; ulimit {other}; exec \"$0\" \"$@\"")])
            .args([DOCTOR, "check", "--json"])
            .args(&self.options)
            .args(options)
            .env_clear()
            .env("XDG_DATA_HOME", own_release_facts())
            .envs(self.variables.iter().cloned())
            .output()
            .unwrap()
    }

    /// Saves the facts about this machine for the tests in facts.rs, with fixed names of directories.
    fn save(&self, name: &str) {
        let dir = TempDir::new();
        let file = dir.path().join("facts.json");
        self.output(&["--save-facts".as_ref(), file.as_ref()]);
        let mut facts = std::fs::read_to_string(file).unwrap();
        let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let workspace = std::fs::canonicalize(workspace).unwrap();
        for (dir, name) in [
            (Path::new(DOCTOR), "/usr/bin/cudnn-doctor"),
            (self.used.path(), "/opt/cudnn"),
            (self.other.path(), "/opt/other"),
            (own_release_facts(), "/data"),
            (&workspace, "/workspace"),
        ] {
            facts = facts.replace(dir.to_str().unwrap(), name);
        }
        const OTHERS: [&str; 5] = ["\"/usr/l", "\"/var/", "\"/root", "\"/tmp", "\"/usr/bin/python"];
        let is_about_other = |line: &str| OTHERS.iter().any(|other| line.trim_start().starts_with(other));
        let lines: Vec<&str> = facts.lines().filter(|line| !is_about_other(line)).collect();
        // JSON allows no comma after the last answer of an object.
        let facts = lines.join("\n").replace(",\n    }", "\n    }") + "\n";
        const MAX_LEN: usize = 100_000;
        if facts.len() < MAX_LEN {
            let _: Value = serde_json::from_str(&facts).unwrap();
            let saved = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/facts").join(format!("{name}.json"));
            std::fs::write(saved, facts).unwrap();
        }
    }

    fn document(&self) -> (Value, i32) {
        let output = again::check(|options| self.output(options));
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let value: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (value, output.status.code().unwrap())
    }
}

fn nvml(dir: &TempDir, driver: &'static str, compute_capability: (u32, u32)) {
    FakeNvml { driver, gpu: "A GPU", compute_capability }.build(dir.path());
}

/// Returns a directory with the graph library, which these wheels record.
fn wheels(root: &TempDir, records: &[&str]) -> std::path::PathBuf {
    let site_packages = root.path().join("lib/python3.12/site-packages");
    let dir = site_packages.join("nvidia/cudnn/lib");
    std::fs::create_dir_all(&dir).unwrap();
    // The doctor uses pip only together with a Python.
    std::fs::create_dir_all(site_packages.join("pip")).unwrap();
    std::fs::write(root.path().join("pyvenv.cfg"), "").unwrap();
    support::write_program(root.path().join("bin/python3"), "#!");
    for record in records {
        let record = site_packages.join(format!("{record}.dist-info"));
        std::fs::create_dir(&record).unwrap();
        std::fs::write(record.join("RECORD"), "nvidia/cudnn/lib/libcudnn_graph.so.9,,\n").unwrap();
    }
    FakeLibrary::new(Library::Graph, VERSION).with_ptx(8).build(&dir.join("libcudnn_graph.so.9"));
    dir
}

fn recorded(scenario: Scenario, hash: &str, len: u64) -> Scenario {
    let dir = wheels(&scenario.other, &["nvidia_cudnn_cu12-9.19.0.56"]);
    let record =
        scenario.other.path().join("lib/python3.12/site-packages/nvidia_cudnn_cu12-9.19.0.56.dist-info/RECORD");
    std::fs::write(record, format!("nvidia/cudnn/lib/libcudnn_graph.so.9,{hash},{len}\n")).unwrap();
    Scenario { variables: vec![("CUDNN_LOADER_DIR", dir.display().to_string())], ..scenario }
}

fn provoke(code: &str) -> Option<Scenario> {
    let scenario = Scenario::complete();
    let fake = |library| FakeLibrary::new(library, VERSION).with_ptx(8);
    Some(match code {
        "C001" => scenario,
        "C002" => {
            nvml(&scenario.other, "470.57.02", (9, 0));
            let other = scenario.other.path().to_owned();
            scenario.variable("LD_LIBRARY_PATH", &other)
        }
        "C003" => {
            let code = "__attribute__((constructor)) static void never(void) { __builtin_trap(); }\n";
            support::compile(code, &["-shared", "-fPIC", "-w"], &scenario.other.path().join("libcuda.so.1"));
            let other = scenario.other.path().to_owned();
            scenario.variable("LD_LIBRARY_PATH", &other)
        }
        "C010" => Scenario { variables: Vec::new(), ..scenario },
        "C011" => {
            std::fs::write(scenario.used.cleared(Library::Graph), "no library").unwrap();
            scenario
        }
        "C012" => {
            let _ = (scenario.used.cleared(Library::Cnn), scenario.used.cleared(Library::Heuristic));
            scenario
        }
        "C013" => {
            std::fs::write(scenario.used.cleared(Library::Ops), "no library").unwrap();
            scenario
        }
        "C014" => scenario.replace(FakeLibrary::new(Library::Adv, Version::new(9, 18, 1)).with_ptx(8), Library::Adv),
        "C015" => scenario.replace(FakeLibrary::new(Library::Cnn, VERSION).with_ptx(9), Library::Cnn),
        "C016" => {
            FakeLibrary::new(Library::Graph, VERSION).build(&scenario.other.file(Library::Graph));
            let both = format!("{}:{}", scenario.used.path().display(), scenario.other.path().display());
            Scenario { variables: vec![("LD_LIBRARY_PATH", both)], ..scenario }
        }
        "C017" => {
            copy_fake_set(Version::new(9, 10, 2), scenario.used.path());
            scenario
        }
        "C018" => scenario.options(&["--minimum", "9.20"]),
        "C019" => scenario.options(&["--function", "cudnnCausalConv1dForward"]),
        "C020" => scenario,
        "C021" => {
            copy_fake_set(VERSION, scenario.other.path());
            let other = scenario.other.path().to_owned();
            scenario.variable("LD_LIBRARY_PATH", &other)
        }
        "C022" => {
            FakeLibrary::new(Library::Graph, Version::new(9, 10, 2)).build(&scenario.other.file(Library::Graph));
            let other = scenario.other.path().to_owned();
            scenario.variable("LD_LIBRARY_PATH", &other)
        }
        "C023" => {
            let dir = wheels(&scenario.other, &["nvidia_cudnn_cu12-9.19.0.56", "nvidia_cudnn_cu13-9.19.0.56"]);
            Scenario { variables: vec![("CUDNN_LOADER_DIR", dir.display().to_string())], ..scenario }
        }
        "C110" => installed(scenario, &code_of_shim(), &code_of_shim()),
        "C111" => installed(scenario, "void cudnnShimGetVersion(void) {}", ""),
        "C112" => installed(scenario, "void cudnnShimGetVersion(void) {} void cudnnCreate(void) {}", &code_of_shim()),
        "C024" => recorded(scenario, "sha256=x", 1),
        "C025" => {
            // LD_LIBRARY_PATH has priority over the run path of ops. A shim would load the same files, which is C022.
            FakeLibrary::new(Library::Graph, Version::new(9, 10, 2)).build(&scenario.other.file(Library::Graph));
            let other = scenario.other.path().to_owned();
            let _ = scenario.used.cleared(Library::Shim);
            scenario
                .replace(fake(Library::Ops).needing("libcudnn_graph.so.9"), Library::Ops)
                .variable("LD_LIBRARY_PATH", &other)
        }
        "C026" => scenario.options(&["--verify"]),
        "C027" => scenario.variable("LD_LIBRARY_PATH", Path::new("/nowhere:lib")),
        "C028" => {
            let _ = wheels(&scenario.other, &[]);
            let bin = scenario.other.path().join("bin");
            std::fs::rename(bin.join("python3"), bin.join("python3.13")).unwrap();
            std::os::unix::fs::symlink("python3.13", bin.join("python3")).unwrap();
            let root = scenario.other.path().to_owned();
            scenario.variable("VIRTUAL_ENV", &root)
        }
        "C030" | "C031" => scenario,
        "C032" => {
            support::compile("", &["-shared", "-nostdlib"], &scenario.other.path().join("libnvrtc.so.12"));
            let other = scenario.other.path().to_owned();
            scenario.variable("LD_LIBRARY_PATH", &other)
        }
        "C040" => {
            nvml(&scenario.other, "580.65.06", (6, 1));
            let other = scenario.other.path().to_owned();
            scenario.variable("LD_LIBRARY_PATH", &other)
        }
        "C041" => {
            nvml(&scenario.other, "580.65.06", (9, 0));
            let scenario = scenario.with_kernels(&["8.7"]);
            let other = scenario.other.path().to_owned();
            scenario.variable("LD_LIBRARY_PATH", &other).options(&["--no-load"])
        }
        "C050" => scenario.replace(
            fake(Library::Graph).with_code("int cudnnGraphVersionCheck(void) { __builtin_trap(); }\n"),
            Library::Graph,
        ),
        "C051" => scenario.replace(fake(Library::Ops).needing("libnowhere.so.1"), Library::Ops),
        "C052" => scenario
            .replace(fake(Library::Ops).with_code("int cudnnOpsVersionCheck(void) { return 1002; }\n"), Library::Ops),
        "C053" => {
            let code = "int cuInit(unsigned flags) { return 0; }\nint cuDeviceGetCount(int *count) { return 999; }\n\
                        int cuGetErrorString(int error, const char **text) { *text = \"unknown\"; return 0; }\n\
                        int cuGetErrorName(int error, const char **text) { *text = \"CUDA_ERROR_UNKNOWN\"; return 0; }\n";
            support::compile(code, &["-shared", "-fPIC", "-w"], &scenario.other.path().join("libcuda.so.1"));
            let other = scenario.other.path().to_owned();
            scenario.variable("LD_LIBRARY_PATH", &other).options(&["--gpu"])
        }
        "C054" => scenario
            .replace(
                fake(Library::Graph)
                    .with_code("int cudnnGraphVersionCheck(void) { *(volatile int *)0 = 0; return 0; }\n"),
                Library::Graph,
            )
            .address_space(4_000_000),
        "C055" => scenario.limit("-n 5"),
        "C060" => scenario.variable("CUDNN_LOADER_PRELOAD", Path::new("libary,engines")),
        "C090" => scenario.options(&["--run", "torch"]),
        "C091" | "C092" => {
            // A stand-in for Python sends the messages of a framework without CUDA, or in a different environment.
            let end = if code == "C091" {
                r#"{"end": "import", "outcome": "cpu", "text": "no CUDA"}"#
            } else {
                r#"{"end": "import", "outcome": "done", "prefix": "/opt/elsewhere"}"#
            };
            let program = format!(
                "#!/bin/sh\nIFS= read -r token\nfor message in '{{\"begin\": \"import\"}}' '{end}' '{{\"finished\": true}}'; \
                 do\n    printf '%s%s\\n' \"$token\" \"$message\" >&0\ndone\n"
            );
            let root = scenario.other.path().to_owned();
            support::write_program(root.join("bin/python3"), program);
            scenario.variable("VIRTUAL_ENV", &root).options(&["--run", "torch"])
        }
        _ => return provoke_framework(code, scenario).or_else(|| provoke_program(code, Scenario::complete())),
    })
}

/// Returns a directory with an installed drop-in, and with `kept` as NVIDIA's shim.
fn installed(scenario: Scenario, in_front: &str, kept: &str) -> Scenario {
    let flags = ["-shared", "-nostdlib", "-Wl,-soname,libcudnn.so.9"];
    support::compile(in_front, &flags, &scenario.used.cleared(Library::Shim));
    let kept_file = scenario.used.path().join("libcudnn.9.kept-by-cudnn-doctor");
    if kept.is_empty() {
        std::fs::write(kept_file, "no library").unwrap();
    } else {
        support::compile(kept, &flags, &kept_file);
    }
    scenario
}

fn code_of_shim() -> String {
    let functions = cudnn_loader::Function::ALL.iter().filter(|function| function.since() <= VERSION);
    functions.map(|function| format!("void {}(void) {{}}\n", function.name())).collect()
}

/// Uses a stand-in for PyTorch.
fn provoke_framework(code: &str, scenario: Scenario) -> Option<Scenario> {
    let venv = PythonEnvironment::venv(&scenario.other.path().join("venv"));
    let torch = |cuda: &str, library: &ExtensionLibrary| {
        venv.package("torch", "2.8.0")
            .file("torch/version.py", &format!("cuda: Optional[str] = {cuda}\n"))
            .library("torch/lib/libtorch_cuda.so", library)
    };
    let wheel = |version: Version| {
        let dir = venv.import_dir().join("nvidia/cudnn/lib");
        std::fs::create_dir_all(&dir).unwrap();
        copy_fake_set(version, &dir);
    };
    let linked = || ExtensionLibrary::new().needing("libcudnn.so.9").with_rpath("$ORIGIN/../../nvidia/cudnn/lib");
    let with_kernels = |targets: &[&str]| ExtensionLibrary::new().with_gpu_code(2, targets);
    let cuda_12 = "'12.8'";
    let mut gpu = None;
    match code {
        "C070" => drop(torch(cuda_12, &linked())),
        "C071" => {
            torch(cuda_12, &linked()).requires("nvidia-cudnn-cu12==9.10.2.21");
            wheel(Version::new(9, 1, 0));
        }
        "C072" => {
            torch(cuda_12, &linked());
            wheel(Version::new(9, 27, 0));
            gpu = Some(scenario.used.path().to_owned());
        }
        "C073" => drop(torch(cuda_12, &ExtensionLibrary::new()).requires("nvidia-cudnn-cu12==9.10.2.21")),
        "C074" => drop(torch(cuda_12, &ExtensionLibrary::new().needing("libcublasLt.so.12"))),
        "C075" => drop(torch(cuda_12, &ExtensionLibrary::new())),
        "C076" => drop(torch(cuda_12, &with_kernels(&["10.0"]))),
        "C077" => drop(torch(cuda_12, &with_kernels(&["8.0+PTX"]))),
        "C078" => {
            torch(cuda_12, &linked());
            wheel(Version::new(9, 1, 0));
            let newer = venv.import_dir().join("newer");
            std::fs::create_dir(&newer).unwrap();
            copy_fake_set(VERSION, &newer);
            let library = ExtensionLibrary::new().with_runpath("$ORIGIN/../newer");
            venv.package("tensorflow", "2.18.1")
                .requires("nvidia-cudnn-cu12==9.3.0.75; extra == 'and-cuda'")
                .file(
                    "tensorflow/python/platform/build_info.py",
                    "[('cuda_version', '12.5'), ('cudnn_version', '9'), ('is_cuda_build', True)]",
                )
                .library("tensorflow/libtensorflow_framework.so.2", &library);
        }
        "C079" => drop(torch("None", &ExtensionLibrary::new())),
        "C080" => {
            torch(cuda_12, &ExtensionLibrary::new());
            venv.package("torch", "2.7.1");
        }
        "C086" => {
            let package = torch(cuda_12, &linked());
            std::fs::write(package.import_dir().join("torch/lib/libtorch_cuda.so"), "").unwrap();
        }
        "C087" => {
            torch(cuda_12, &linked());
            wheel(VERSION);
            std::fs::remove_file(venv.import_dir().join("nvidia/cudnn/lib/libcudnn_heuristic.so.9")).unwrap();
        }
        "C088" => {
            let library = ExtensionLibrary::new().needing("libcudnn.so.9");
            venv.package("transformer-engine-cu12", "2.20.2")
                .library("transformer_engine/wheel_lib/libtransformer_engine.so", &library);
            let toolkit = scenario.other.path().join("toolkit");
            std::fs::create_dir(&toolkit).unwrap();
            for index in 0..33_000 {
                std::fs::write(toolkit.join(index.to_string()), "").unwrap();
            }
            return Some(scenario.variable("VIRTUAL_ENV", venv.root()).variable("CUDA_HOME", &toolkit));
        }
        "C085" => {
            venv.package("cupy-cuda12x", "13.6.0")
                .file("cupy/.data/_wheel.json", r#"{"cuda": "12.x", "cudnn": {"version": "8.8.1"}}"#)
                .library(
                    "cupy_backends/cuda/libs/cudnn.cpython-312-x86_64-linux-gnu.so",
                    &ExtensionLibrary::new().needing("libcudnn.so.8"),
                );
        }
        _ => return None,
    }
    if ["C075", "C076", "C077", "C079"].contains(&code) {
        let driver = if code == "C075" { "470.57.02" } else { "580.65.06" };
        nvml(&scenario.other, driver, (9, 0));
        gpu = Some(scenario.other.path().to_owned());
    }
    let scenario = scenario.variable("VIRTUAL_ENV", venv.root());
    Some(match gpu {
        Some(library_path) => scenario.variable("LD_LIBRARY_PATH", &library_path),
        None => scenario,
    })
}

/// The scenario has a program for `--for`.
fn provoke_program(code: &str, scenario: Scenario) -> Option<Scenario> {
    let program = scenario.other.path().join("program");
    let shim = scenario.used.file(Library::Shim);
    let run_path = format!("-Wl,-rpath,{}", scenario.used.path().display());
    let undefined = "-Wl,--unresolved-symbols=ignore-all";
    let linked = ["-w", "-Wl,--no-as-needed", undefined, &run_path, shim.to_str().unwrap()];
    match code {
        "C081" => std::fs::write(&program, "#!/bin/sh\n").unwrap(),
        "C082" => support::compile("int main(void) { return 0; }", &[&linked[..3], &linked[4..]].concat(), &program),
        "C083" => {
            let code = "int cudnnCausalConv1dForward(void); int call(void) { return cudnnCausalConv1dForward(); }";
            support::compile(code, &[&["-shared", "-fPIC"], &linked[..]].concat(), &program);
        }
        "C084" => support::compile("int main(void) { return 0; }", &["-w"], &program),
        "C089" => ExtensionLibrary::new().with_text("libcudnn.so.9").build(&program),
        "C100" => {
            let code = "int cudnnCreate(void **); int call(void) { void *handle; return cudnnCreate(&handle); }";
            support::compile(code, &["-shared", "-fPIC", undefined], &program);
        }
        _ => return None,
    }
    Some(scenario.options(&["--for", program.to_str().unwrap()]))
}

fn is_explained(read_more: &str, code: &str) -> bool {
    if read_more.starts_with("https://") {
        return read_more.ends_with(&format!("/findings.html#{}", code.to_lowercase()));
    }
    let output = Command::new("/bin/sh").args(["-c", read_more]).output().unwrap();
    output.status.success() && String::from_utf8_lossy(&output.stdout).starts_with(&format!("  {code} "))
}

#[test]
fn every_code_is_reported_with_a_message_and_help() {
    let output = Command::new(DOCTOR).args(["facts", "--json"]).output().unwrap();
    let facts: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds = facts.get("findings").and_then(Value::as_array).unwrap();
    let codes: BTreeSet<&str> = kinds.iter().filter_map(|kind| kind.get("code").and_then(Value::as_str)).collect();
    assert!(codes.len() >= 18, "{codes:?}");
    for code in codes {
        let scenario = provoke(code).unwrap_or_else(|| panic!("nothing provokes {code}"));
        let (findings, status) = scenario.check();
        let text = |finding: &Value, key: &str| finding.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let found = findings.iter().find(|finding| text(finding, "code") == code);
        if code == "C001" && found.is_none() && Path::new("/proc/driver/nvidia/version").exists() {
            support::not_run("C001", "this machine has a driver");
            continue;
        }
        let found = found.unwrap_or_else(|| panic!("{code} is not found: {findings:#?}"));
        if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
            scenario.save(code);
        }
        assert!(!text(found, "message").is_empty() && !text(found, "help").is_empty(), "{found:#?}");
        assert!(is_explained(&text(found, "read_more"), code), "{found:#?}");
        let worst = |severity: &str| findings.iter().any(|finding| text(finding, "severity") == severity);
        let expected = if worst("error") { 2 } else { i32::from(worst("warning")) };
        // The doctor could not complete the check.
        let expected = if code == "C055" { 3 } else { expected };
        assert_eq!(status, expected, "{code}: {findings:#?}");
        if text(found, "severity") == "error" {
            assert_eq!(status, expected, "{code}");
        }
    }
}

/// On a Jetson without a driver, for example in a container, only the chip ID identifies the GPU.
#[test]
fn a_jetson_without_a_driver_is_identified_by_its_files() {
    if Path::new("/proc/driver/nvidia/version").exists() {
        return support::not_run("a machine that is like a Jetson", "this machine has a driver");
    }
    let scenario = Scenario::complete().with_kernels(&["8.0", "9.0"]);
    let etc = scenario.other.path();
    std::fs::write(etc.join("nv_tegra_release"), "# R36 (release), REVISION: 4.3, GCID: 38968081\n").unwrap();
    let machine = "mount --bind \"$1\" /etc && mount -t tmpfs none /sys/devices && mkdir /sys/devices/soc0 &&
                   echo Tegra >/sys/devices/soc0/family && echo 35 >/sys/devices/soc0/soc_id || exit 77
                   exec \"$2\" check --no-load --json";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", machine, "sh", etc.to_str().unwrap(), env!("CARGO_BIN_EXE_cudnn-doctor")])
        .env("CUDNN_LOADER_DIR", scenario.used.path())
        .env_remove("LD_LIBRARY_PATH")
        .output();
    let may_mount =
        |output: &std::process::Output| output.status.code() != Some(77) && !output.stderr.starts_with(b"unshare: ");
    let Some(output) = output.ok().filter(may_mount) else {
        return support::not_run("a machine that is like a Jetson", "only root may mount, and not in every container");
    };
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(document["machine"]["jetson"]["name"], "Jetson Orin", "{document:#}");
    assert_eq!(document["machine"]["jetson"]["l4t"], "36.4.3", "{document:#}");
    assert_eq!(document["machine"]["gpus"][0]["compute_capability"], "8.7", "{document:#}");
    let found = with_code(document["findings"].as_array().unwrap(), "C041");
    assert!(found.len() == 1 && found[0].contains("apt-get install -y libcudnn9-cuda-12"), "{document:#}");
    let driver = with_code(document["findings"].as_array().unwrap(), "C001");
    assert!(driver.iter().all(|finding| finding.contains("comes with L4T")), "{driver:?}");
}

fn with_code(findings: &[Value], code: &str) -> Vec<String> {
    findings.iter().filter(|finding| finding["code"] == code).map(Value::to_string).collect()
}

#[test]
fn a_shell_limit_is_reported_if_it_is_the_cause() {
    let code = "int cudnnGraphVersionCheck(void) { volatile char on_stack[4 << 20]; \
                for (int i = 0; i < 4 << 20; i += 4096) on_stack[i] = 1; return 0; }\n";
    let graph = FakeLibrary::new(Library::Graph, VERSION).with_ptx(8).with_code(code);
    let (findings, status) = Scenario::complete().replace(graph, Library::Graph).limit("-s 512").check();
    let found = with_code(&findings, "C054");
    assert!(status == 2 && found.len() == 1 && found[0].contains("limited to 512 kB (`ulimit -s`)"), "{findings:#?}");
    assert!(with_code(&findings, "C050").is_empty(), "{findings:#?}");
    let (findings, status) = Scenario::complete().limit("-n 5").check();
    let found = with_code(&findings, "C055");
    assert!(status == 3 && found.len() == 1 && found[0].contains("5 open files (`ulimit -n`)"), "{findings:#?}");
    assert!(with_code(&findings, "C051").is_empty(), "{findings:#?}");
}

#[test]
fn cudnn_is_loaded_without_proc() {
    let scenario = Scenario::complete();
    let output = Command::new("unshare")
        .args(["-rm", "/bin/sh", "-c", "mount -t tmpfs none /proc && exec \"$0\" check --json"])
        .arg(env!("CARGO_BIN_EXE_cudnn-doctor"))
        .envs(scenario.variables.iter().cloned())
        .output();
    let Some(output) = output.ok().filter(|output| !output.stdout.is_empty()) else {
        return support::not_run("cudnn_is_loaded_without_proc", "no name space without /proc can be made");
    };
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = value["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["severity"] != "error"), "{findings:#?}");
}

#[test]
fn a_hanging_nvml_does_not_use_up_the_timeout_of_cudnn() {
    let scenario = Scenario::complete();
    let code = "unsigned sleep(unsigned); int nvmlInit_v2(void) { for (;;) sleep(60); }\n";
    support::compile(code, &["-shared", "-fPIC", "-w"], &scenario.other.path().join("libnvidia-ml.so.1"));
    let other = scenario.other.path().to_owned();
    let start = std::time::Instant::now();
    let (findings, _) = scenario.variable("LD_LIBRARY_PATH", &other).check();
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    let found = with_code(&findings, "C001");
    assert!(found.len() == 1 && found[0].contains("no progress for 10 s"), "{findings:#?}");
    assert!(found[0].contains("libnvidia-ml.so.1"), "{findings:#?}");
    assert!(findings.iter().all(|finding| finding["severity"] != "error"), "{findings:#?}");
}

#[test]
fn a_truncated_library_or_pipe_is_blamed_instead_of_cudnn() {
    for (name, code) in [("libneeded.so.1", "C051"), ("libcuda.so.1", "C003")] {
        for is_pipe in [false, true] {
            let ops = FakeLibrary::new(Library::Ops, VERSION).with_ptx(8).needing(name);
            let scenario = Scenario::complete().replace(ops, Library::Ops).options(&["--timeout", "2"]);
            let file = scenario.other.path().join(name);
            if is_pipe {
                assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
            } else {
                let large = "char data[1 << 20] = {1}; int function(void) { return data[5]; }\n";
                support::compile(large, &["-shared", "-fPIC", &format!("-Wl,-soname,{name}")], &file);
                std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(3000).unwrap();
            }
            let other = scenario.other.path().to_owned();
            let (findings, status) = scenario.variable("LD_LIBRARY_PATH", &other).check();
            let found = with_code(&findings, code);
            assert!(status == 2 && found.len() == 1, "{name} {is_pipe}: {findings:#?}");
            assert!(found[0].contains(file.to_str().unwrap()), "{found:#?}");
            assert!(found[0].contains("from LD_LIBRARY_PATH") && !found[0].contains("rm "), "{found:#?}");
            assert!(with_code(&findings, "C050").is_empty(), "{findings:#?}");
        }
    }
}

#[test]
fn help_does_not_replace_intact_files_after_a_crash() {
    let scenario = Scenario::complete();
    let code = "int cudnnGraphVersionCheck(void) { __builtin_trap(); }\n";
    let dir = wheels(&scenario.other, &["nvidia_cudnn_cu12-9.19.0.56"]);
    let graph = dir.join("libcudnn_graph.so.9");
    FakeLibrary::new(Library::Graph, VERSION).with_ptx(8).with_code(code).build(&graph);
    let (hash, len) = (cudnn_fetch::sha256(&graph).unwrap(), std::fs::metadata(&graph).unwrap().len());
    let record =
        scenario.other.path().join("lib/python3.12/site-packages/nvidia_cudnn_cu12-9.19.0.56.dist-info/RECORD");
    for (hash, is_as_installed) in [(hash.as_str(), true), ("another", false)] {
        std::fs::write(&record, format!("nvidia/cudnn/lib/libcudnn_graph.so.9,sha256={hash},{len}\n")).unwrap();
        let variables = vec![("CUDNN_LOADER_DIR", dir.display().to_string())];
        let mut scenario = Scenario { variables, ..Scenario::complete() };
        scenario.options = Vec::new();
        let (findings, _) = scenario.check();
        let found = with_code(&findings, "C050");
        assert_eq!(found.len(), 1, "{findings:#?}");
        assert_eq!(found[0].contains("reinstalling cuDNN would not help"), is_as_installed, "{found:#?}");
        assert_eq!(found[0].contains("--force-reinstall"), !is_as_installed, "{found:#?}");
    }
}

#[test]
fn a_damaged_library_of_cuda_is_reported_before_cudnn_opens_it() {
    let page = "<html>not found</html>";
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:x\nsize 1\n";
    for (name, code) in
        [("libcublasLt.so.12", "C030"), ("libnvrtc.so.12", "C031"), ("libnvrtc-builtins.so.12.9", "C032")]
    {
        for contents in [Some(""), Some(page), Some(pointer), None] {
            let scenario = Scenario::complete();
            let used = scenario.used.path().to_owned();
            for name in ["libcublasLt.so.12", "libnvrtc.so.12", "libnvrtc-builtins.so.12.9"] {
                support::compile(
                    &format!("char data[1 << 16] = {{1}}; {OF_CUDA}"),
                    &["-shared", "-nostdlib"],
                    &used.join(name),
                );
            }
            match contents {
                Some(text) => std::fs::write(used.join(name), text).unwrap(),
                None => {
                    let file = std::fs::OpenOptions::new().write(true).open(used.join(name)).unwrap();
                    file.set_len(3000).unwrap();
                }
            }
            let (findings, status) = scenario.variable("LD_LIBRARY_PATH", &used).check();
            let found = with_code(&findings, code);
            assert!(status == 1 && found.len() == 1, "{name} {contents:?}: {findings:#?}");
            assert!(found[0].contains(&format!("{name} is damaged: ")), "{found:#?}");
            assert!(found[0].contains("pip install"), "{found:#?}");
        }
        let scenario = Scenario::complete();
        let used = scenario.used.path().to_owned();
        for name in ["libcublasLt.so.12", "libnvrtc.so.12", "libnvrtc-builtins.so.12.9"] {
            cuda_library(&used.join(name));
        }
        std::fs::remove_file(used.join(name)).unwrap();
        std::os::unix::fs::symlink("/nowhere/library", used.join(name)).unwrap();
        let (findings, _) = scenario.variable("LD_LIBRARY_PATH", &used).check();
        assert_eq!(with_code(&findings, code).len(), 1, "{name}: {findings:#?}");
    }
}

#[test]
fn engines_that_cudnn_rejects_are_reported() {
    let refused = |scenario: &Scenario| {
        let (findings, status) = scenario.check();
        let found = with_code(&findings, "C052");
        assert!(found.len() <= 1, "{findings:#?}");
        found.first().map(|found| {
            assert!(status == 2 && found.contains("SUBLIBRARY_VERSION_MISMATCH"), "{found}");
            assert!(found.contains("registered its engines") && found.contains("a different release"), "{found}");
        })
    };
    // Only the code of the real engines contains the version 9.18.
    if let Some(dir) = support::lib_dir("jit-cu12-9.19.0") {
        for is_mixed in [false, true] {
            let scenario = Scenario::complete();
            for entry in std::fs::read_dir(scenario.used.path()).unwrap().flatten() {
                std::fs::remove_file(entry.path()).unwrap();
            }
            for library in [Library::Shim, Library::Graph, Library::EnginesRuntimeCompiled] {
                let mut bytes = std::fs::read(dir.join(library.file_name())).unwrap();
                if is_mixed && library == Library::EnginesRuntimeCompiled {
                    let (version, other) = (91_900_u32.to_le_bytes(), 91_800_u32.to_le_bytes());
                    let places: Vec<usize> = (0..bytes.len() - 4).filter(|at| bytes[*at..*at + 4] == version).collect();
                    assert!(!places.is_empty());
                    places.into_iter().for_each(|at| bytes[at..at + 4].copy_from_slice(&other));
                }
                std::fs::write(scenario.used.file(library), bytes).unwrap();
            }
            assert_eq!(refused(&scenario).is_some(), is_mixed);
        }
    }
    let refusing = |status: u32| {
        let code = format!("int cudnnBackendFinalize(void *descriptor) {{ return {status}; }}\n");
        let graph = FakeLibrary::new(Library::Graph, VERSION).with_ptx(8).with_code(&code);
        let scenario = Scenario::complete().replace(graph, Library::Graph);
        let used = scenario.used.path().to_owned();
        cuda_library(&used.join("libcublasLt.so.12"));
        scenario.variable("LD_LIBRARY_PATH", &used)
    };
    // For example, the release rejects the device description.
    let (findings, status) = refusing(2000).check();
    let found = with_code(&findings, "C052");
    assert!(status == 1 && found.len() == 1, "{findings:#?}");
    for text in ["CUDNN_STATUS_BAD_PARAM (2000) when it registered its engines", "update cudnn-doctor"] {
        assert!(found[0].contains(text), "{text}: {found:#?}");
    }
    let scenario = refusing(1002);
    let used = scenario.used.path().to_owned();
    assert!(refused(&scenario).is_some());
    // Files of one wheel belong together, so the doctor skips this test for them without `--verify`.
    let scenario = recorded(scenario, "", 0);
    let wheel = Path::new(&scenario.variables[0].1).to_owned();
    for entry in std::fs::read_dir(&used).unwrap().flatten() {
        std::fs::copy(entry.path(), wheel.join(entry.file_name())).unwrap();
    }
    let line = |library: &Library| {
        let name = library.file_name();
        let length = std::fs::metadata(wheel.join(name)).ok()?.len();
        Some(format!("nvidia/cudnn/lib/{name},,{length}\n"))
    };
    let record: String = Library::ALL.iter().filter_map(line).collect();
    let dist_info = wheel.parent().unwrap().parent().unwrap().with_file_name("nvidia_cudnn_cu12-9.19.0.56.dist-info");
    std::fs::write(dist_info.join("RECORD"), record).unwrap();
    let scenario = scenario.variable("LD_LIBRARY_PATH", &wheel);
    assert!(refused(&scenario).is_none());
    assert!(refused(&scenario.options(&["--verify"])).is_some());
}

#[test]
fn an_empty_search_path_element_means_the_working_directory() {
    for (path, expected) in [("/nowhere:", 1), (":/nowhere", 1), ("/nowhere::/other", 1), ("/nowhere", 0), ("", 0)] {
        let (findings, _) = Scenario::complete().variable("LD_LIBRARY_PATH", Path::new(path)).check();
        assert_eq!(with_code(&findings, "C027").len(), expected, "{path}: {findings:#?}");
    }
}

#[test]
fn a_mix_within_a_directory_is_not_reported_as_two_installations() {
    let codes = |scenario: &Scenario| -> Vec<String> {
        let (findings, _) = scenario.check();
        findings.iter().filter_map(|finding| Some(finding.get("code")?.as_str()?.to_owned())).collect()
    };
    for (replaced, version, ptx, code) in
        [(Library::Ops, Version::new(9, 28, 0), 8, "C014"), (Library::Ops, VERSION, 9, "C015")]
    {
        let scenario = Scenario::complete().replace(FakeLibrary::new(replaced, version).with_ptx(ptx), replaced);
        let used = scenario.used.path().to_owned();
        let scenario = scenario.variable("LD_LIBRARY_PATH", &used);
        let found = codes(&scenario);
        assert!(found.iter().any(|found| found == code), "{replaced}: {found:?}");
        assert!(!found.iter().any(|found| ["C022", "C025"].contains(&found.as_str())), "{replaced}: {found:?}");
        FakeLibrary::new(Library::Graph, Version::new(9, 10, 2)).build(&scenario.other.file(Library::Graph));
        let other = scenario.other.path().to_owned();
        let found = codes(&scenario.variable("LD_LIBRARY_PATH", &other));
        assert!(found.iter().any(|found| found == "C022"), "{replaced}: {found:?}");
    }
}

#[test]
fn a_complete_installation_on_the_search_path_has_no_findings() {
    let scenario = Scenario::complete();
    let used = scenario.used.path().to_owned();
    for name in ["libcublasLt.so.12", "libnvrtc.so.12", "libnvrtc-builtins.so.12.9"] {
        cuda_library(&used.join(name));
    }
    let (findings, _) = scenario.variable("LD_LIBRARY_PATH", &used).check();
    let codes: Vec<&str> = findings.iter().filter_map(|finding| finding.get("code")?.as_str()).collect();
    assert!(codes.iter().all(|code| *code == "C001"), "{findings:#?}");
}

#[test]
fn messages_are_correct_in_hostile_and_misleading_situations() {
    let finding = |scenario: &Scenario, code: &str| {
        let (findings, _) = scenario.check();
        let of_code: Vec<String> = findings
            .iter()
            .filter(|one| one.get("code").is_some_and(|found| found == code))
            .map(Value::to_string)
            .collect();
        assert!(!of_code.is_empty(), "{code}: {findings:#?}");
        of_code.join("\n")
    };
    let has =
        |text: &str, words: &[&str]| words.iter().for_each(|word| assert!(text.contains(word), "{word:?}: {text}"));

    let scenario = Scenario::complete();
    let other = scenario.other.path().to_owned();
    let pipe = other.join("libcuda.so.1");
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    std::fs::write(other.join("libnvidia-ml.so.1"), "\x7fELF").unwrap();
    let scenario = scenario.variable("LD_LIBRARY_PATH", &other);
    has(&finding(&scenario, "C001"), &["libcuda.so.1", "is a pipe, a socket or a device"]);
    std::fs::remove_file(&pipe).unwrap();
    std::fs::write(&pipe, "").unwrap();
    has(&finding(&scenario, "C001"), &["is empty"]);
    std::fs::remove_file(&pipe).unwrap();
    support::compile("", &["-shared", "-nostdlib"], &other.join("libcuda.so"));
    if !Path::new("/proc/driver/nvidia/version").exists() {
        has(&finding(&scenario, "C001"), &["was not found"]);
    }

    // `hostile.rs` tests libraries that hang.
    let code = "__attribute__((constructor)) static void never(void) { __builtin_trap(); }\n";
    let scenario =
        Scenario::complete().replace(FakeLibrary::new(Library::Ops, VERSION).with_ptx(8).with_code(code), Library::Ops);
    has(&finding(&scenario, "C050"), &["was ended by signal"]);

    // The shim and ops both load a different graph library, which is a second problem for programs linked to ops.
    let scenario = Scenario::complete();
    FakeLibrary::new(Library::Graph, Version::new(9, 10, 2)).build(&scenario.other.file(Library::Graph));
    let other = scenario.other.path().to_owned();
    let ops = FakeLibrary::new(Library::Ops, VERSION).with_ptx(8).needing("libcudnn_graph.so.9");
    let scenario = scenario.replace(ops, Library::Ops).variable("LD_LIBRARY_PATH", &other);
    has(&finding(&scenario, "C022"), &["for programs that load", "for programs linked to a sub-library: two releases"]);

    // Installing cuDNN would not help.
    let scenario = Scenario { variables: vec![("CUDNN_LOADER_DIR", "/opt/nowhere".into())], ..Scenario::complete() };
    has(
        &finding(&scenario, "C010"),
        &["CUDNN_LOADER_DIR", "/opt/nowhere", "which does not exist", "unset CUDNN_LOADER_DIR"],
    );

    let scenario = Scenario::complete();
    let graph = scenario.used.file(Library::Graph);
    let bytes = std::fs::read(&graph).unwrap();
    std::fs::remove_file(&graph).unwrap();
    std::fs::write(&graph, &bytes[..bytes.len() / 2]).unwrap();
    let dir = scenario.used.path().display().to_string();
    has(&finding(&scenario, "C010"), &[&format!("is set to {dir}, and {dir}/libcudnn_graph.so.9 is truncated")]);

    // Only cuDNN 9 is removed, without cuDNN 8, static libraries and the directory.
    let scenario =
        Scenario::complete().replace(FakeLibrary::new(Library::Adv, Version::new(9, 18, 1)).with_ptx(8), Library::Adv);
    // A program next to the libraries would look like the application that ships them.
    let dir = scenario.other.path().join("cudnn/lib");
    std::fs::create_dir(dir.parent().unwrap()).unwrap();
    std::fs::rename(scenario.used.path(), &dir).unwrap();
    std::fs::create_dir(scenario.used.path()).unwrap();
    let variables = vec![("CUDNN_LOADER_DIR", dir.display().to_string())];
    let scenario = Scenario { variables, ..scenario };
    let text = finding(&scenario, "C014");
    has(&text, &["rm -f ", "/libcudnn_adv.so.9 "]);
    assert!(!text.contains("libcudnn*") && !text.contains("rm -r"), "{text}");

    // An upgrade of the framework leaves the bundled cuDNN unchanged.
    let root = TempDir::new();
    let site_packages = root.path().join("lib/python3.12/site-packages");
    let dir = site_packages.join("torch/lib");
    std::fs::create_dir_all(site_packages.join("torch-2.2.0.dist-info")).unwrap();
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(site_packages.join("torch-2.2.0.dist-info/RECORD"), "torch/lib/libcudnn_graph.so.9,x,1\n").unwrap();
    FakeLibrary::new(Library::Graph, VERSION).build(&dir.join("libcudnn_graph.so.9"));
    let variables = vec![("CUDNN_LOADER_DIR", dir.display().to_string())];
    let scenario = Scenario { variables, ..Scenario::complete() }.options(&["--minimum", "9.20"]);
    has(&finding(&scenario, "C018"), &["pip torch 2.2.0", "'nvidia-cudnn-cu12>=9.20.0'"]);

    // A JIT-only cuDNN is new enough, but lacks the legacy convolutions.
    let scenario = Scenario::complete().options(&["--function", "cudnnConvolutionForward"]);
    let _ = scenario.used.cleared(Library::Cnn);
    has(&finding(&scenario, "C019"), &["is in libcudnn_cnn.so.9, which this cuDNN (partial) does not include"]);

    let scenario = Scenario::complete();
    nvml(&scenario.other, "470.57.02", (3, 7));
    let other = scenario.other.path().to_owned();
    has(&finding(&scenario.variable("LD_LIBRARY_PATH", &other), "C040"), &["no cuDNN 9 supports this GPU"]);
}

#[test]
fn engines_of_another_release_are_reported_with_the_symbols_that_they_need() {
    let engine = FakeLibrary::new(Library::EnginesPrecompiled, VERSION).with_ptx(8);
    let code = "int cudnn_b(void), cudnn_c(void), cudnn_d(void), cudnn_e(void);\n\
                int use(void) { return cudnn_b() + cudnn_c() + cudnn_d() + cudnn_e(); }\n";
    let engine = engine.with_undefined("cudnn_a").with_code(code);
    let scenario = Scenario::complete().replace(engine, Library::EnginesPrecompiled);
    let (findings, status) = scenario.check();
    let mixed: Vec<&Value> = findings.iter().filter(|finding| finding["code"] == "C014").collect();
    assert_eq!((status, mixed.len()), (2, 1), "{findings:#?}");
    let text = mixed[0].to_string();
    for fragment in [
        "libcudnn_engines_precompiled.so.9 is from a different release than the libraries next to it",
        "which lack 5 of the symbols that it needs",
        "needs the symbol cudnn_a",
        "and 1 more",
    ] {
        assert!(text.contains(fragment), "{fragment}: {text}");
    }
}

#[test]
fn a_file_that_differs_from_the_record_of_its_wheel_is_reported() {
    let findings = |scenario: &Scenario| -> Vec<String> {
        let (findings, _) = scenario.check();
        findings.iter().filter(|finding| finding["code"] == "C024").map(Value::to_string).collect()
    };
    let graph = TempDir::new();
    FakeLibrary::new(Library::Graph, VERSION).with_ptx(8).build(&graph.file(Library::Graph));
    let len = std::fs::metadata(graph.file(Library::Graph)).unwrap().len();
    let right = format!("sha256={}", cudnn_fetch::sha256(&graph.file(Library::Graph)).unwrap());
    for (hash, len, expected) in [
        (right.as_str(), len, None),
        ("", len, None),
        ("sha256=another", len, Some("has the right size, but a different sha256")),
        (right.as_str(), len + 1, Some("installed")),
    ] {
        let scenario = recorded(Scenario::complete(), hash, len);
        let size_differs = expected == Some("installed");
        assert_eq!(findings(&scenario).len(), usize::from(size_differs), "{hash} {len}");
        let verified = findings(&scenario.options(&["--verify"]));
        assert_eq!(verified.len(), usize::from(expected.is_some()), "{hash} {len}: {verified:?}");
        for text in verified {
            assert!(text.contains(expected.unwrap()) && text.contains("pip nvidia-cudnn-cu12 9.19.0.56"), "{text}");
            assert!(text.contains("pip install --force-reinstall --no-deps nvidia-cudnn-cu12==9.19.0.56"), "{text}");
        }
    }
}

#[test]
fn an_older_cudnn_is_reported_if_cudnn_9_is_missing() {
    let dir = TempDir::new();
    std::fs::write(dir.path().join("libcudnn.so.8"), "").unwrap();
    let scenario =
        Scenario { variables: vec![("LD_LIBRARY_PATH", dir.path().display().to_string())], ..Scenario::complete() };
    let (findings, status) = scenario.check();
    assert_eq!(status, 2);
    let text = format!("{findings:?}");
    assert!(text.contains("C010") && text.contains("contains cuDNN 8, but cuDNN 9 is required"), "{text}");
}

/// The functions that cuDNN calls in the CUDA libraries.
const OF_CUDA: &str = "void nvrtcVersion(void) {} void cublasLtCreate(void) {}";

fn cuda_library(file: &Path) {
    support::compile(OF_CUDA, &["-shared", "-nostdlib"], file);
}

#[test]
fn libraries_of_cuda_are_loaded_as_cudnn_loads_them() {
    let needing = |name: &str| ExtensionLibrary::new().with_soname(name).needing("libabsent.so.1");
    let crashing = "__attribute__((constructor)) static void crash(void) { __builtin_trap(); }";
    type Break<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, &str, &str, Break<'_>); 6] = [
        ("libnvrtc.so.12", "C031", "libabsent.so.1, which ", &|file| needing("libnvrtc.so.12").build(file)),
        ("libcublasLt.so.12", "C030", "libabsent.so.1, which ", &|file| needing("libcublasLt.so.12").build(file)),
        ("libnvrtc.so.12", "C031", "it does not export nvrtcVersion", &|file| support::compile("", &["-shared"], file)),
        ("libcublasLt.so.12", "C030", "it does not export cublasLtCreate", &|file| {
            support::compile("", &["-shared"], file)
        }),
        ("libcublasLt.so.12", "C030", "undefined symbol: absent", &|file| {
            support::compile("extern int absent; int *const use = &absent;", &["-shared", "-fPIC"], file);
        }),
        ("libnvrtc.so.12", "C031", "cannot be loaded: a child process was ended by signal", &|file| {
            support::compile(&format!("{OF_CUDA} {crashing}"), &["-shared", "-fPIC"], file);
        }),
    ];
    for (name, code, expected, breaking) in cases {
        let scenario = Scenario::complete();
        let used = scenario.used.path().to_owned();
        for name in ["libcublasLt.so.12", "libnvrtc.so.12", "libnvrtc-builtins.so.12.9"] {
            cuda_library(&used.join(name));
        }
        std::fs::remove_file(used.join(name)).unwrap();
        breaking(&used.join(name));
        let (findings, status) = scenario.variable("LD_LIBRARY_PATH", &used).check();
        let found = with_code(&findings, code);
        assert!(status == 1 && found.len() == 1 && found[0].contains(expected), "{name} {expected}: {findings:#?}");
        let others = ["C030", "C031", "C050", "C051"].into_iter().filter(|other| *other != code);
        assert!(others.into_iter().all(|other| with_code(&findings, other).is_empty()), "{findings:#?}");
    }
}

/// Runs the doctor in namespaces that this script prepares. Returns `None` if the system forbids namespaces.
fn in_name_spaces(scenario: &Scenario, script: &str, arguments: &[&str]) -> Option<std::process::Output> {
    let output = Command::new("unshare")
        .args(["-rm", "/bin/sh", "-c", &format!("{script} || exit 77; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_cudnn-doctor"))
        .args(arguments)
        .envs(scenario.variables.iter().cloned())
        .output();
    output.ok().filter(|output| output.status.code() != Some(77) && !output.stderr.starts_with(b"unshare: "))
}

#[test]
fn a_noexec_file_system_is_reported() {
    let scenario = Scenario::complete();
    let (used, other) = (scenario.used.path().to_owned(), scenario.other.path().to_owned());
    for name in ["libcublasLt.so.12", "libnvrtc.so.12", "libnvrtc-builtins.so.12.9"] {
        cuda_library(&other.join(name));
    }
    let mount = |dir: &Path| format!("mount --bind '{0}' '{0}' && mount -o remount,bind,noexec '{0}'", dir.display());
    let scenario = scenario.variable("LD_LIBRARY_PATH", &other);
    let Some(output) = in_name_spaces(&scenario, &mount(&other), &["check", "--json"]) else {
        return support::not_run("a file system that is mounted noexec", "this user can mount nothing");
    };
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    for code in ["C030", "C031"] {
        let found = with_code(document["findings"].as_array().unwrap(), code);
        assert!(found.len() == 1 && found[0].contains("is mounted noexec"), "{document:#}");
    }
    for (dir, status) in [(&used, 2), (&other, 0)] {
        let output = in_name_spaces(&scenario, &mount(dir), &["env", used.to_str().unwrap()]).unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(status) && text.contains("noexec") == (status == 2), "{output:?}");
    }
}

const LD_SO: &str =
    if cfg!(target_arch = "aarch64") { "/lib/ld-linux-aarch64.so.1" } else { "/lib64/ld-linux-x86-64.so.2" };

#[test]
fn the_doctor_works_if_started_by_ld_so_or_with_sigchld_ignored() {
    let crashing = "int cudnnGraphVersionCheck(void) { __builtin_trap(); }\n";
    let crashing = FakeLibrary::new(Library::Graph, VERSION).with_ptx(8).with_code(crashing);
    for crashes in [false, true] {
        let scenario = Scenario::complete();
        let scenario = if crashes { scenario.replace(crashing.clone(), Library::Graph) } else { scenario };
        for (script, is_by_ld_so) in [
            (format!("exec {LD_SO} \"$0\" \"$@\""), true),
            (format!("exec {LD_SO} --library-path /nowhere --inhibit-cache \"$0\" \"$@\""), true),
            ("trap '' CHLD; exec \"$0\" \"$@\"".to_owned(), false),
        ] {
            let output = Command::new("/bin/sh")
                .args(["-c", &script, env!("CARGO_BIN_EXE_cudnn-doctor"), "check", "--json"])
                .env_clear()
                .envs(scenario.variables.iter().cloned())
                .output()
                .unwrap();
            let value: Value =
                serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
            let findings = value["findings"].as_array().unwrap();
            assert_eq!(with_code(findings, "C050").len(), usize::from(crashes), "{script}: {findings:#?}");
            assert!(with_code(findings, "C055").is_empty(), "{script}: {findings:#?}");
            assert_eq!(output.status.code(), Some(if crashes { 2 } else { 1 }), "{script}: {findings:#?}");
            let text = value.to_string();
            assert!(!is_by_ld_so || !text.contains(" env ") || text.contains(LD_SO), "{text}");
        }
    }
}

#[test]
fn a_child_that_fails_to_start_is_not_blamed_on_cudnn() {
    let scenario = Scenario::complete();
    let library = scenario.other.path().join("end.so");
    let code = "#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n
        __attribute__((constructor)) static void end(void) {
            char line[4096] = {0};
            FILE *file = fopen(\"/proc/self/cmdline\", \"r\");
            size_t length = fread(line, 1, sizeof line - 1, file);
            for (size_t at = 0; at < length; at++) if (!strncmp(line + at, \"internal-load\", 13)) _exit(127);
        }";
    support::compile(code, &["-shared", "-fPIC", "-w"], &library);
    let (findings, status) = scenario.variable("LD_PRELOAD", &library).check();
    let found = with_code(&findings, "C055");
    assert!(
        status == 3 && found.len() == 1 && found[0].contains("cannot run itself in a child process"),
        "{findings:#?}"
    );
    assert!(!found[0].contains("rm -f") && with_code(&findings, "C050").is_empty(), "{findings:#?}");
}

/// ld.so prefers files in `glibc-hwcaps` directories.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_processor_specific_file_that_hides_a_cudnn_library_is_removed() {
    if !is_x86_feature_detected!("sse4.2") {
        return support::not_run("glibc-hwcaps", "this processor is too old");
    }
    let scenario = Scenario::complete();
    let used = scenario.used.path().to_owned();
    let hidden = used.join("glibc-hwcaps/x86-64-v2");
    std::fs::create_dir_all(&hidden).unwrap();
    std::fs::write(hidden.join("libcudnn.so.9"), "junk").unwrap();
    let scenario = scenario.variable("LD_LIBRARY_PATH", &used).options(&["--no-load"]);
    let found = |scenario: &Scenario| {
        let (findings, _) = scenario.check();
        findings.into_iter().find(|finding| finding["code"] == "C021")
    };
    let commands = found(&scenario).unwrap()["commands"].clone();
    let command = commands[0].as_str().unwrap();
    assert!(Command::new("/bin/sh").args(["-c", command]).status().unwrap().success(), "{command}");
    assert_eq!(found(&scenario), None, "{command}");
}

/// ld.so searches the directory of this library before the installation.
#[test]
fn a_single_library_on_the_search_path_is_a_mix_for_programs_linked_to_it() {
    let scenario = Scenario::complete();
    let fake = |library, version| FakeLibrary::new(library, version).with_ptx(8).needing("libcudnn_graph.so.9");
    // NVIDIA's shim has an RPATH to the libraries next to it.
    let shim = FakeLibrary::new(Library::Shim, VERSION).with_ptx(8).with_rpath();
    let scenario = scenario.replace(shim, Library::Shim).replace(fake(Library::Adv, VERSION), Library::Adv);
    fake(Library::Adv, Version::new(9, 10, 2)).build(&scenario.other.file(Library::Adv));
    let _ = scenario.other.cleared(Library::Graph);
    let path = std::env::join_paths([scenario.other.path(), scenario.used.path()]).unwrap();
    let scenario = scenario.variable("LD_LIBRARY_PATH", Path::new(&path)).options(&["--no-load"]);
    let (findings, _) = scenario.check();
    let found = with_code(&findings, "C025");
    assert!(found.len() == 1 && found[0].contains("9.10.2") && found[0].contains("libcudnn_adv.so.9"), "{findings:#?}");
    let (findings, _) = {
        let used = scenario.used.path().to_owned();
        scenario.variable("LD_LIBRARY_PATH", &used).check()
    };
    assert!(with_code(&findings, "C025").is_empty(), "{findings:#?}");
}

fn nvrtc(dir: &Path, release: &str) {
    let code = format!("const char *const message = \"failed to open libnvrtc-builtins.so.{release}.\";");
    support::compile(&code, &["-shared", "-nostdlib"], &dir.join("libnvrtc.so.12"));
}

#[test]
fn nvrtc_only_opens_the_builtins_of_its_own_release() {
    // Fields: the release of the builtins, whether ld.so finds them in a different directory, and whether NVRTC does.
    for (release, is_elsewhere, is_found) in
        [("12.9", false, true), ("12.9", true, true), ("12.4", false, false), ("12.4", true, false)]
    {
        let scenario = Scenario::complete();
        let elsewhere = TempDir::new();
        nvrtc(scenario.other.path(), "12.9");
        let dir = if is_elsewhere { elsewhere.path() } else { scenario.other.path() };
        support::compile("", &["-shared", "-nostdlib"], &dir.join(format!("libnvrtc-builtins.so.{release}")));
        let path = std::env::join_paths([scenario.other.path(), elsewhere.path()]).unwrap();
        let (findings, _) = scenario.variable("LD_LIBRARY_PATH", Path::new(&path)).options(&["--no-load"]).check();
        let found = with_code(&findings, "C032");
        assert_eq!(found.is_empty(), is_found, "{release} {is_elsewhere}: {found:?}");
        assert!(found.iter().all(|message| message.contains("libnvrtc-builtins.so.12.9 is not next to")), "{found:?}");
    }
}

#[test]
fn an_nvrtc_of_another_cuda_is_recognized_under_a_wrong_name() {
    let scenario = Scenario::complete();
    nvrtc(scenario.other.path(), "11.8");
    support::compile("", &["-shared", "-nostdlib"], &scenario.other.path().join("libnvrtc-builtins.so.11.8"));
    let other = scenario.other.path().to_owned();
    let (findings, _) = scenario.variable("LD_LIBRARY_PATH", &other).options(&["--no-load"]).check();
    let found = with_code(&findings, "C031");
    assert!(found.len() == 1 && found[0].contains("libnvrtc.so.12 is NVRTC 11.8, for another CUDA"), "{findings:#?}");
}

/// A directory on LD_LIBRARY_PATH contains only one of cuBLAS's two libraries.
#[test]
fn two_releases_of_cublas_are_named() {
    for (release, is_mixed) in [("12.4.5.8", true), ("12.9.1.4", false)] {
        let scenario = Scenario::complete();
        let elsewhere = TempDir::new();
        for (dir, name, release) in
            [(scenario.other.path(), "libcublasLt.so.12", "12.9.1.4"), (elsewhere.path(), "libcublas.so.12", release)]
        {
            let full_name = format!("{}.{release}", name.trim_end_matches(".12"));
            ExtensionLibrary::new().with_soname(name).build(&dir.join(&full_name));
            std::os::unix::fs::symlink(full_name, dir.join(name)).unwrap();
        }
        let path = std::env::join_paths([scenario.other.path(), elsewhere.path()]).unwrap();
        let (findings, _) = scenario.variable("LD_LIBRARY_PATH", Path::new(&path)).options(&["--no-load"]).check();
        let found = with_code(&findings, "C030");
        assert_eq!(!found.is_empty(), is_mixed, "{findings:#?}");
        let names_both = |message: &String| message.contains("12.9.1.4 (") && message.contains("12.4.5.8 (");
        assert!(found.iter().all(names_both), "{found:?}");
    }
}

/// For example, the library requires a newer libstdc++.
#[test]
fn a_library_without_the_versions_that_cudnn_needs_is_named_without_loading() {
    let dir = TempDir::new();
    let scenario = Scenario::complete().variable("LD_LIBRARY_PATH", dir.path()).options(&["--no-load"]);
    let file = dir.path().join("libversioned.so.1");
    let build = |code: &str, versions: &str| {
        let script = dir.path().join("versions");
        std::fs::write(&script, versions).unwrap();
        let script = format!("-Wl,--version-script={}", script.display());
        let flags = ["-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libversioned.so.1", &script];
        support::compile(code, &flags, &file);
    };
    let (old, new) = ("int old(void) { return 0; }\n", "int versioned(void) { return 0; }\n");
    const FIRST: &str = "VERSIONED_1 { global: old; local: *; };";
    build(&format!("{old}{new}"), &format!("{FIRST} VERSIONED_2 {{ global: versioned; }} VERSIONED_1;"));
    let code = "extern int versioned(void); int use(void) { return versioned(); }\n\
                const unsigned char cudnn_ops_infer_version[4] = {0, 19, 9, 0};\n";
    let soname = "-Wl,-soname,libcudnn_ops.so.9";
    let flags = ["-shared", "-fPIC", "-nostdlib", soname, "-Wl,--no-as-needed", file.to_str().unwrap()];
    support::compile(code, &flags, &scenario.used.cleared(Library::Ops));
    let found = || with_code(&scenario.check().0, "C051");
    assert!(found().is_empty(), "{:?}", found());
    build(old, FIRST);
    let found = found();
    let expected = "libversioned.so.1 does not provide VERSIONED_2";
    assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
}

#[test]
fn a_link_that_leads_nowhere_is_named() {
    let scenario = Scenario::complete();
    let link = scenario.used.path().join("libcudnn.so");
    std::os::unix::fs::symlink("libcudnn.so.9", &link).unwrap();
    let scenario = scenario.options(&["--no-load"]);
    assert!(with_code(&scenario.check().0, "C013").is_empty());
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("libcudnn.so.8", &link).unwrap();
    let (findings, _) = scenario.check();
    let found = with_code(&findings, "C013");
    let expected = "libcudnn.so is a symbolic link to libcudnn.so.8, which does not exist";
    assert!(found.len() == 1 && found[0].contains(expected), "{findings:#?}");
}

/// Some tools replace functions of ld.so in this way to share GPUs.
#[test]
fn a_preloaded_library_that_breaks_dlopen_is_named() {
    let scenario = Scenario::complete();
    let hook = scenario.other.path().join("hook.so");
    let code = "#include <stdlib.h>\nvoid *dlopen(const char *name, int flags) { (void)name; (void)flags; abort(); }";
    support::compile(code, &["-shared", "-fPIC"], &hook);
    let (findings, _) = scenario.variable("LD_PRELOAD", &hook).check();
    let named = findings.iter().filter(|finding| finding["help"].as_str().is_some_and(|help| help.contains("hook.so")));
    assert!(named.count() > 0, "{findings:#?}");
    assert!(!findings.iter().any(|finding| finding.to_string().contains("reinstall this cuDNN")), "{findings:#?}");
}

/// The doctor only examines cuDNN 9.
#[test]
fn a_program_for_an_older_cudnn_never_gets_an_all_clear() {
    const PARTS: [&str; 6] = ["ops_infer", "ops_train", "cnn_infer", "cnn_train", "adv_infer", "adv_train"];
    type Change = fn(&Path);
    let build =
        |file: &Path, options: &[&str]| support::compile("", &[&["-shared", "-nostdlib"], options].concat(), file);
    let needing_cublas: Change = |dir| {
        let cublas = dir.join("libcublas.so.11");
        support::compile("", &["-shared", "-nostdlib", "-Wl,-soname,libcublas.so.11"], &cublas);
        let file = dir.join("libcudnn_ops_infer.so.8");
        std::fs::remove_file(&file).unwrap();
        let linked = ["-shared", "-nostdlib", "-Wl,--no-as-needed", cublas.to_str().unwrap()];
        support::compile("", &linked, &file);
        std::fs::remove_file(cublas).unwrap();
    };
    let remove: Change = |dir| std::fs::remove_file(dir.join("libcudnn_ops_infer.so.8")).unwrap();
    let empty: Change = |dir| std::fs::write(dir.join("libcudnn.so.8"), "").unwrap();
    for (minimum, change, severity, part) in [
        ("8.5", (|_| {}) as Change, "warning", "ld.so finds one, 8.5.0, in"),
        ("8.9", |_| {}, "error", "needs cuDNN 8.9.0 or newer, and the one in"),
        ("8.5", needing_cublas, "error", "libcudnn_ops_infer.so.8 needs libcublas.so.11, which ld.so does not find"),
        ("8.5", remove, "error", "libcudnn_ops_infer.so.8 is missing"),
        ("8.5", empty, "error", "libcudnn.so.8 is empty"),
        ("7.6", |_| {}, "error", "and none was found"),
    ] {
        let root = TempDir::new();
        let dir = wheels(&root, &[]);
        std::fs::remove_file(dir.join("libcudnn_graph.so.9")).unwrap();
        build(&dir.join("libcudnn.so.8"), &[]);
        PARTS.iter().for_each(|part| build(&dir.join(format!("libcudnn_{part}.so.8")), &[]));
        let record = root.path().join("lib/python3.12/site-packages/nvidia_cudnn_cu11-8.5.0.96.dist-info");
        std::fs::create_dir(&record).unwrap();
        std::fs::write(record.join("RECORD"), "nvidia/cudnn/lib/libcudnn.so.8,,\n").unwrap();
        change(&dir);
        let scenario = Scenario::complete().options(&["--no-load", "--minimum", minimum]);
        let variables = vec![("LD_LIBRARY_PATH", dir.display().to_string())];
        let (findings, status) = Scenario { variables, ..scenario }.check();
        let found = findings.iter().find(|finding| finding["code"] == "C018").unwrap();
        assert_eq!(found["severity"], severity, "{minimum}: {found:#}");
        assert!(found.to_string().contains(part), "{minimum} {part}: {found:#}");
        assert!(status == if severity == "error" { 2 } else { 1 }, "{status}: {found:#}");
        let help = found["help"].as_str().unwrap();
        assert!(!help.is_empty() && (severity == "error" || found["commands"][0].is_string()), "{found:#}");
    }
}

#[test]
fn every_command_uses_the_installer_that_owns_the_files() {
    let commands = |records: &[&str], code: &str, options: &'static [&'static str]| {
        let scenario = Scenario::complete().options(options);
        let dir = wheels(&scenario.other, records);
        let scenario = Scenario { variables: vec![("CUDNN_LOADER_DIR", dir.display().to_string())], ..scenario };
        let (findings, _) = scenario.check();
        let found = findings.iter().find(|finding| finding.get("code").is_some_and(|found| found == code));
        let found = found.unwrap_or_else(|| panic!("{code}: {findings:#?}"));
        let commands = found.get("commands").and_then(Value::as_array).unwrap();
        let python = format!("{}/bin/python3 -I -m ", scenario.other.path().display());
        commands.iter().filter_map(Value::as_str).map(|line| line.replace(&python, "")).collect::<Vec<_>>()
    };
    // pip skips packages that it has already recorded.
    let one = ["nvidia_cudnn_cu12-9.19.0.56"];
    assert_eq!(commands(&one, "C012", &[]), ["pip install --force-reinstall --no-deps nvidia-cudnn-cu12==9.19.0.56"]);
    assert_eq!(commands(&one, "C018", &["--minimum", "9.20"]), ["pip install 'nvidia-cudnn-cu12>=9.20.0'"]);
    let other_cuda = ["pip uninstall --yes nvidia-cudnn-cu12", "pip install nvidia-cudnn-cu13"];
    let cuda_13 = commands(&one, "C018", &["--cuda", "13"]);
    assert!(cuda_13.is_empty() || cuda_13 == other_cuda, "{cuda_13:?}");
    let scenario = Scenario::complete();
    let dir = wheels(&scenario.other, &one);
    std::fs::write(dir.join("libcudnn_graph.so.9"), "damaged").unwrap();
    let scenario = Scenario { variables: vec![("LD_LIBRARY_PATH", dir.display().to_string())], ..scenario };
    let (findings, _) = scenario.check();
    let none = findings.iter().find(|finding| finding["code"] == "C010").unwrap();
    let line = none["commands"][0].as_str().unwrap().split(" -I -m ").nth(1);
    assert_eq!(line.unwrap(), "pip install --force-reinstall --no-deps nvidia-cudnn-cu12==9.19.0.56");
    // Reinstalling only one of the wheels would mix their files.
    let two = ["nvidia_cudnn_cu12-9.19.0.56", "nvidia_cudnn_cu13-9.19.0.56"];
    let of_two = commands(&two, "C023", &[]);
    assert!(of_two[0].starts_with("pip uninstall --yes nvidia-cudnn-cu1"), "{of_two:?}");
    assert!(of_two[1].starts_with("pip install nvidia-cudnn-cu1"), "{of_two:?}");
    let hostile = ["nvidia_cudnn_cu12;touch X;#-9.19.0.56"];
    assert!(commands(&hostile, "C012", &[]).iter().all(|command| !command.contains("touch")));
}

#[test]
fn leftovers_are_ignored_and_the_foreign_library_is_blamed() {
    let messages = |scenario: &Scenario, code: &str| -> Vec<String> {
        let (findings, _) = scenario.check();
        let of_code = findings.iter().filter(|finding| finding["code"] == code);
        of_code.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect()
    };
    // A newer wheel for a different CUDA left these engines behind, which this release never loads.
    let scenario = Scenario::complete();
    let newer = FakeLibrary::new(Library::EnginesTensorIr, Version::new(9, 28, 0)).with_ptx(9);
    newer.build(&scenario.used.file(Library::EnginesTensorIr));
    let (findings, _) = scenario.check();
    let errors: Vec<&Value> = findings.iter().filter(|finding| finding["severity"] == "error").collect();
    assert!(errors.is_empty(), "{errors:#?}");

    // The graph library contains no GPU code, which would identify a CUDA major.
    let foreign = |library: Library, version: Version, ptx: u16| {
        let scenario = Scenario::complete().replace(FakeLibrary::new(Library::Graph, VERSION), Library::Graph);
        scenario.replace(FakeLibrary::new(library, version).with_ptx(ptx), library)
    };
    for library in [Library::Ops, Library::Adv] {
        for (code, scenario) in
            [("C015", foreign(library, VERSION, 9)), ("C014", foreign(library, Version::new(9, 18, 0), 8))]
        {
            let messages = messages(&scenario, code);
            assert_eq!(messages.len(), 1, "{messages:#?}");
            assert!(messages[0].contains(library.file_name()), "{messages:#?}");
        }
    }
}

#[test]
fn every_library_of_the_release_is_opened_in_the_child_process() {
    let with_codes = |scenario: &Scenario, codes: &[&str]| -> Vec<String> {
        let (findings, _) = scenario.check();
        let of_codes = findings.iter().filter(|finding| codes.iter().any(|code| finding["code"] == *code));
        of_codes.map(Value::to_string).collect()
    };
    let crash = "__attribute__((constructor)) static void never(void) { __builtin_trap(); }\n";
    let fake = |library| FakeLibrary::new(library, VERSION).with_ptx(8);
    for library in [Library::Shim, Library::Heuristic, Library::EnginesPrecompiled, Library::EnginesRuntimeCompiled] {
        let found = with_codes(&Scenario::complete().replace(fake(library).with_code(crash), library), &["C050"]);
        assert!(found.len() == 1 && found[0].contains(&format!("while it loaded {library}")), "{found:#?}");
    }
    let scenario =
        Scenario::complete().replace(fake(Library::Heuristic).needing("libnowhere.so.1"), Library::Heuristic);
    let found = with_codes(&scenario, &["C050", "C051"]);
    assert!(found.len() == 1 && found[0].contains("libnowhere.so.1: cannot open"), "{found:#?}");
    // Some releases link the engines to the driver, which may be missing here.
    let engines = fake(Library::EnginesRuntimeCompiled).needing("libcuda.so.1");
    let found = with_codes(&Scenario::complete().replace(engines, Library::EnginesRuntimeCompiled), &["C050", "C051"]);
    assert!(found.is_empty(), "{found:#?}");
    let trap = "unsigned long cudnnGetVersion(void) { __builtin_trap(); }\n";
    let scenario = Scenario::complete();
    let shim = scenario.used.cleared(Library::Shim);
    support::compile(trap, &["-shared", "-nostdlib", "-w", "-Wl,-soname,libcudnn.so.9"], &shim);
    let found = with_codes(&scenario, &["C050", "C051"]);
    assert!(found.len() == 1 && found[0].contains("while it called cudnnGetVersion in libcudnn.so.9"), "{found:#?}");
    let scenario = Scenario::complete();
    let shim = scenario.used.cleared(Library::Shim);
    support::compile("", &["-shared", "-nostdlib", "-w", "-Wl,-soname,libcudnn.so.9"], &shim);
    let found = with_codes(&scenario, &["C050", "C051"]);
    assert!(found.len() == 1 && found[0].contains("does not export cudnnGetVersion"), "{found:#?}");
}

#[test]
fn a_foreign_library_on_the_search_path_is_blamed_instead_of_cudnn() {
    let ops = FakeLibrary::new(Library::Ops, VERSION).with_ptx(8).needing("libforeign.so.1");
    let used = "extern int foreign(void); int (*use_foreign)(void) = foreign;\n";
    for (code, contents) in [("", None), (used, Some("int other;"))] {
        let scenario = Scenario::complete().replace(ops.clone().with_code(code), Library::Ops);
        let file = scenario.other.path().join("libforeign.so.1");
        match contents {
            None => std::fs::write(&file, "no library").unwrap(),
            Some(code) => support::compile(code, &["-shared", "-fPIC", "-Wl,-soname,libforeign.so.1"], &file),
        }
        let other = scenario.other.path().to_owned();
        let (findings, _) = scenario.variable("LD_LIBRARY_PATH", &other).check();
        let found: Vec<&Value> = findings.iter().filter(|finding| finding["code"] == "C051").collect();
        assert!(!found.is_empty(), "{findings:#?}");
        for finding in found {
            let help = finding["help"].as_str().unwrap();
            assert!(help.starts_with(&format!("Remove {} from LD_LIBRARY_PATH", other.display())), "{findings:#?}");
            assert!(finding["message"].as_str().unwrap().contains("libforeign.so.1"), "{findings:#?}");
        }
    }
}

#[test]
fn every_unmet_requirement_and_every_package_is_named() {
    let root = TempDir::new();
    let dir = wheels(&root, &["nvidia_cudnn_cu12-9.19.0.56", "nvidia_cudnn_cu13-9.19.0.56"]);
    FakeLibrary::new(Library::Ops, VERSION).with_ptx(8).build(&dir.join("libcudnn_ops.so.9"));
    let scenario =
        Scenario { variables: vec![("CUDNN_LOADER_DIR", dir.display().to_string())], ..Scenario::complete() };
    let (findings, _) = scenario.options(&["--minimum", "9.28", "--cuda", "13"]).check();
    let text = findings.iter().find(|finding| finding["code"] == "C018").map(Value::to_string).unwrap();
    for part in ["9.28.0 or newer is required, and is built for CUDA 12", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Returns the findings with a library that `driver` writes as `libcuda.so.1`.
fn with_driver(scenario: Scenario, driver: impl Fn(&Path)) -> Vec<Value> {
    driver(&scenario.other.path().join("libcuda.so.1"));
    let other = scenario.other.path().to_owned();
    scenario.variable("LD_LIBRARY_PATH", &other).check().0
}

#[test]
fn a_damaged_driver_is_blamed_once_instead_of_the_engines() {
    let write = |bytes: Vec<u8>| move |file: &Path| std::fs::write(file, &bytes).unwrap();
    // The headers are valid, but ld.so rejects the file.
    let refused = |file: &Path| {
        support::compile("int nothing;", &["-shared", "-nostdlib"], file);
        let mut bytes = std::fs::read(file).unwrap();
        bytes[0x36] = 0;
        std::fs::write(file, bytes).unwrap();
    };
    type Write = Box<dyn Fn(&Path)>;
    let drivers: [(&str, Write); 5] = [
        ("is empty", Box::new(write(Vec::new()))),
        ("is not an ELF file", Box::new(write(b"no library".to_vec()))),
        ("is not an ELF file", Box::new(write(vec![0; 4096]))),
        ("directory", Box::new(|file: &Path| std::fs::create_dir(file).unwrap())),
        ("libcuda.so.1", Box::new(refused)),
    ];
    for (expected, driver) in drivers {
        let mut scenario = Scenario::complete();
        for library in [Library::EnginesRuntimeCompiled, Library::Ops] {
            let needing = FakeLibrary::new(library, VERSION).with_ptx(8).needing("libcuda.so.1");
            scenario = scenario.replace(needing, library);
        }
        let findings = with_driver(scenario, driver);
        assert!(with_code(&findings, "C051").is_empty(), "{expected}: {findings:#?}");
        let found = with_code(&findings, "C001");
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {findings:#?}");
        assert!(found[0].contains("start it with GPU access"), "{found:#?}");
    }
}

/// A library for forward compatibility supports a newer CUDA than the kernel driver.
#[test]
fn a_driver_is_checked_by_the_library_that_programs_load() {
    let started = |release: u32| {
        format!("int cuInit(int flags) {{ return 0; }} int cuDriverGetVersion(int *v) {{ *v = {release}; return 0; }}")
    };
    let unknown = "int cuInit(int flags) { return 100; }".to_owned();
    for (file, code, options, is_too_old, is_compatibility) in [
        ("libcuda.so.580.65.06", started(13000), &[][..], false, true),
        ("libcuda.so.580.65.06", unknown.clone(), &["--no-load"], false, true),
        ("libcuda.so.1.1", started(13000), &[], false, true),
        ("libcuda.so.1.1", unknown.clone(), &["--no-load"], true, false),
        ("libcuda.so.535.183.01", started(12020), &[], true, false),
        ("libcuda.so.580.65.06", started(12020), &[], true, true),
        ("libcuda.so.535.183.01", unknown, &["--no-load"], true, false),
    ] {
        let scenario = Scenario::complete().options(options);
        for library in Library::ALL.iter().filter(|library| scenario.used.file(**library).exists()) {
            FakeLibrary::new(*library, VERSION).with_ptx(9).build(&scenario.used.cleared(*library));
        }
        nvml(&scenario.other, "535.183.01", (9, 0));
        let link = |library: &Path| {
            let target = library.with_file_name(file);
            support::compile(&code, &["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1"], &target);
            std::os::unix::fs::symlink(file, library).unwrap();
        };
        link(&scenario.other.path().join("libcuda.so.1"));
        let other = scenario.other.path().to_owned();
        let (document, _) = scenario.variable("LD_LIBRARY_PATH", &other).document();
        let found = with_code(document["findings"].as_array().unwrap(), "C002");
        assert_eq!(found.len(), usize::from(is_too_old), "{file} {options:?}: {document:#}");
        let library = &document["machine"]["compatibility"];
        assert_eq!(library.is_string(), is_compatibility, "{file} {options:?}: {document:#}");
    }
}

/// The shim finds graph by its RPATH, but ops searches LD_LIBRARY_PATH first.
#[test]
fn the_libraries_that_the_shim_opens_depend_on_the_first_call() {
    let fake = |library| FakeLibrary::new(library, VERSION).with_ptx(8);
    for (version, code) in [(Version::new(9, 10, 2), Some("C022")), (VERSION, None)] {
        let scenario = Scenario::complete()
            .replace(fake(Library::Shim).with_rpath(), Library::Shim)
            .replace(fake(Library::Ops).needing("libcudnn_graph.so.9"), Library::Ops);
        FakeLibrary::new(Library::Graph, version).with_ptx(8).build(&scenario.other.file(Library::Graph));
        let other = scenario.other.path().to_owned();
        let scenario = scenario.variable("LD_LIBRARY_PATH", &other).options(&["--no-load"]);
        let (findings, _) = scenario.check();
        for known in ["C022", "C025"] {
            let found = with_code(&findings, known);
            assert_eq!(found.len(), usize::from(code == Some(known)), "{version} {known}: {findings:#?}");
            assert!(
                found.iter().all(|text| text.contains("if the first call is into libcudnn_ops.so.9")),
                "{found:#?}"
            );
        }
    }
}

/// Shims before 9.21.1 search LD_LIBRARY_PATH for graph first.
#[test]
fn one_release_in_two_directories_is_not_an_error() {
    let older = Version::new(9, 10, 2);
    for (version, lacks, code) in [
        (VERSION, &[][..], "C021"),
        (VERSION, &[Library::Shim], "C021"),
        // The graph library would not find the engines.
        (VERSION, &[Library::Shim, Library::EnginesPrecompiled], "C022"),
        (older, &[Library::Shim], "C022"),
    ] {
        let scenario = Scenario::complete();
        copy_fake_set(version, scenario.other.path());
        let other = scenario.other.path().to_owned();
        for library in lacks {
            let _ = scenario.other.cleared(*library);
        }
        let (findings, status) = scenario.variable("LD_LIBRARY_PATH", &other).options(&["--no-load"]).check();
        let found = with_code(&findings, code);
        assert_eq!(found.len(), 1, "{version}: {findings:#?}");
        assert_eq!(status, if code == "C022" { 2 } else { 1 }, "{version}: {findings:#?}");
    }
}

#[test]
fn the_damaged_library_is_named_instead_of_a_file_that_could_not_be_opened() {
    let scenario = Scenario::complete();
    let used = scenario.used.path().to_owned();
    let code = "double sin(double); double use(double x) { return sin(x); }";
    support::compile(code, &["-shared", "-fPIC", "-w", "-Wl,--no-as-needed", "-lm"], &used.join("libcublasLt.so.12"));
    std::fs::write(scenario.other.path().join("libm.so.6"), "").unwrap();
    let path = format!("{}:{}", used.display(), scenario.other.path().display());
    // The doctor may depend on this library.
    let (findings, _) = scenario.variable("LD_LIBRARY_PATH", Path::new(&path)).options(&["--no-load"]).check();
    let found = with_code(&findings, "C030");
    assert!(found.len() == 1 && found[0].contains("libm.so.6, which it needs, is damaged"), "{findings:#?}");
    assert!(found[0].contains("from LD_LIBRARY_PATH"), "{found:#?}");

    let scenario = Scenario::complete();
    let used = scenario.used.path().to_owned();
    for name in ["libcublasLt.so.12", "libnvrtc.so.12", "libnvrtc-builtins.so.12.9"] {
        cuda_library(&used.join(name));
    }
    let (findings, _) = scenario.variable("LD_LIBRARY_PATH", &used).limit("-n 4").check();
    assert!(!findings.iter().any(|finding| finding["message"].as_str().unwrap().contains("damaged")), "{findings:#?}");
}
