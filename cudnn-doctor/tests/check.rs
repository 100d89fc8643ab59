//! Every finding of `check`, provoked: each case is an installation of stand-ins with one thing wrong, or a machine made
//! up by a stand-in for NVML.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a test says so by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cudnn_probe::Library;
use serde_json::Value;
use support::{FakeLibrary, TempDir, Version};

const VERSION: Version = Version::new(9, 19, 0);

/// A world to check: folders, and the variables that lead to them.
struct World {
    used: TempDir,
    other: TempDir,
    variables: Vec<(&'static str, String)>,
    options: &'static [&'static str],
}

impl World {
    /// A whole installation, that CUDNN_LOADER_DIR names.
    fn whole() -> World {
        let (used, other) = (TempDir::new(), TempDir::new());
        whole_set(&used, VERSION);
        let variables = vec![("CUDNN_LOADER_DIR", used.path().display().to_string())];
        World { used, other, variables, options: &[] }
    }

    fn with(mut self, name: &'static str, folder: &Path) -> World {
        self.variables.push((name, folder.display().to_string()));
        self
    }

    fn asked(mut self, options: &'static [&'static str]) -> World {
        self.options = options;
        self
    }

    fn replaced(self, stand_in: FakeLibrary, library: Library) -> World {
        stand_in.build(&self.used.cleared(library));
        self
    }

    /// The doctor's findings, and its exit status.
    fn check(&self) -> (Vec<Value>, i32) {
        let output = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"))
            .args(["check", "--json"])
            .args(self.options)
            .env_clear()
            .envs(self.variables.iter().cloned())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let value: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (value.get("findings").and_then(Value::as_array).unwrap().clone(), output.status.code().unwrap())
    }
}

/// Every library that the release has, for CUDA 12.
fn whole_set(folder: &TempDir, version: Version) {
    let later = [Library::Ext, Library::EnginesTensorIr];
    for library in Library::ALL.iter().copied().filter(|library| !later.contains(library)) {
        FakeLibrary::new(library, version).with_ptx(8).build(&folder.file(library));
    }
}

/// A stand-in for NVML that tells of one GPU.
fn nvml(folder: &TempDir, driver: &str, capability: (u32, u32)) {
    let (major, minor) = capability;
    let code = format!(
        "int nvmlInit_v2(void) {{ return 0; }}\nint nvmlShutdown(void) {{ return 0; }}\n\
         static void put(char *to, const char *from) {{ while ((*to++ = *from++)); }}\n\
         int nvmlSystemGetDriverVersion(char *to, unsigned size) {{ put(to, \"{driver}\"); return 0; }}\n\
         int nvmlDeviceGetCount_v2(unsigned *count) {{ *count = 1; return 0; }}\n\
         int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {{ *device = device; return 0; }}\n\
         int nvmlDeviceGetName(void *device, char *to, unsigned size) {{ put(to, \"A GPU\"); return 0; }}\n\
         int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)\n\
         {{ *major = {major}; *minor = {minor}; return 0; }}\n"
    );
    support::compile(&code, &["-shared", "-fPIC", "-w"], &folder.path().join("libnvidia-ml.so.1"));
}

/// One case for each code.
fn provoke(code: &str) -> Option<World> {
    let world = World::whole();
    let stand_in = |library| FakeLibrary::new(library, VERSION).with_ptx(8);
    Some(match code {
        "C001" => world,
        "C002" => {
            nvml(&world.other, "470.57.02", (9, 0));
            let other = world.other.path().to_owned();
            world.with("LD_LIBRARY_PATH", &other)
        }
        "C010" => World { variables: Vec::new(), ..world },
        "C011" => {
            std::fs::write(world.used.cleared(Library::Graph), "no library").unwrap();
            world
        }
        "C012" => {
            let _ = (world.used.cleared(Library::Cnn), world.used.cleared(Library::Heuristic));
            world
        }
        "C013" => {
            std::fs::write(world.used.cleared(Library::Ops), "no library").unwrap();
            world
        }
        "C014" => world.replaced(FakeLibrary::new(Library::Adv, Version::new(9, 18, 1)).with_ptx(8), Library::Adv),
        "C015" => world.replaced(FakeLibrary::new(Library::Cnn, VERSION).with_ptx(9), Library::Cnn),
        "C016" => {
            // Not named, so that both are found by searching.
            FakeLibrary::new(Library::Graph, VERSION).build(&world.other.file(Library::Graph));
            let both = format!("{}:{}", world.used.path().display(), world.other.path().display());
            World { variables: vec![("LD_LIBRARY_PATH", both)], ..world }
        }
        "C017" => {
            whole_set(&world.used, Version::new(9, 10, 2));
            world
        }
        "C018" => world.asked(&["--minimum", "9.20"]),
        "C019" => world.asked(&["--function", "cudnnCausalConv1dForward"]),
        "C020" => world,
        "C021" => {
            whole_set(&world.other, VERSION);
            let other = world.other.path().to_owned();
            world.with("LD_LIBRARY_PATH", &other)
        }
        "C022" => {
            FakeLibrary::new(Library::Graph, VERSION).build(&world.other.file(Library::Graph));
            let other = world.other.path().to_owned();
            world.with("LD_LIBRARY_PATH", &other)
        }
        "C030" | "C031" => world,
        "C032" => {
            support::compile("", &["-shared", "-nostdlib"], &world.other.path().join("libnvrtc.so.12"));
            let other = world.other.path().to_owned();
            world.with("LD_LIBRARY_PATH", &other)
        }
        "C040" => {
            nvml(&world.other, "580.65.06", (6, 1));
            let other = world.other.path().to_owned();
            world.with("LD_LIBRARY_PATH", &other)
        }
        "C050" => world.replaced(
            stand_in(Library::Graph).with_code("int cudnnGraphVersionCheck(void) { __builtin_trap(); }\n"),
            Library::Graph,
        ),
        "C051" => world.replaced(stand_in(Library::Ops).needing("libnowhere.so.1"), Library::Ops),
        "C052" => world.replaced(
            stand_in(Library::Ops).with_code("int cudnnOpsVersionCheck(void) { return 1002; }\n"),
            Library::Ops,
        ),
        // A driver that answers everything with an error.
        "C053" => {
            let code = "int cuInit(unsigned flags) { return 0; }\nint cuDeviceGetCount(int *count) { return 999; }\n\
                        int cuGetErrorString(int error, const char **text) { *text = \"unknown\"; return 0; }\n\
                        int cuGetErrorName(int error, const char **text) { *text = \"CUDA_ERROR_UNKNOWN\"; return 0; }\n";
            support::compile(code, &["-shared", "-fPIC", "-w"], &world.other.path().join("libcuda.so.1"));
            let other = world.other.path().to_owned();
            world.with("LD_LIBRARY_PATH", &other).asked(&["--gpu"])
        }
        _ => return None,
    })
}

#[test]
fn every_code_is_found_where_its_cause_is_with_evidence_and_a_cure() {
    let listed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/findings.md")).unwrap();
    let codes: BTreeSet<&str> =
        listed.lines().filter_map(|line| line.strip_prefix("| C")?.get(..3).and_then(|_| line.get(2..6))).collect();
    assert!(codes.len() >= 18, "{codes:?}");
    for code in codes {
        let world = provoke(code).unwrap_or_else(|| panic!("nothing provokes {code}"));
        let (findings, status) = world.check();
        let told = |finding: &Value, key: &str| finding.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let found = findings.iter().find(|finding| told(finding, "code") == code);
        if code == "C001" && found.is_none() && Path::new("/proc/driver/nvidia/version").exists() {
            support::not_run("C001", "this machine has a driver");
            continue;
        }
        let found = found.unwrap_or_else(|| panic!("{code} is not found: {findings:#?}"));
        assert!(!told(found, "what").is_empty() && !told(found, "cure").is_empty(), "{found:#?}");
        let worst = |severity: &str| findings.iter().any(|finding| told(finding, "severity") == severity);
        let expected = if worst("problem") { 2 } else { i32::from(worst("warning")) };
        assert_eq!(status, expected, "{code}: {findings:#?}");
        if told(found, "severity") == "problem" {
            assert_eq!(status, 2, "{code}");
        }
    }
}

#[test]
fn a_whole_installation_on_the_search_path_has_none_of_the_findings_about_itself() {
    let world = World::whole();
    let used = world.used.path().to_owned();
    for name in ["libcublasLt.so.12", "libnvrtc.so.12", "libnvrtc-builtins.so.12.9"] {
        support::compile("", &["-shared", "-nostdlib"], &used.join(name));
    }
    let (findings, _) = world.with("LD_LIBRARY_PATH", &used).check();
    let codes: Vec<&str> = findings.iter().filter_map(|finding| finding.get("code")?.as_str()).collect();
    assert!(codes.iter().all(|code| *code == "C001"), "{findings:#?}");
}

/// What else may lie in the way, and the words that must be said of it.
#[test]
fn hostile_and_misleading_situations_are_told_in_fitting_words() {
    let said = |world: &World, code: &str| {
        let (findings, _) = world.check();
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

    // A pipe, and a file that is cut, under the driver's names: neither hangs nor ends the doctor.
    let world = World::whole();
    let other = world.other.path().to_owned();
    let pipe = other.join("libcuda.so.1");
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    std::fs::write(other.join("libnvidia-ml.so.1"), "\x7fELF").unwrap();
    let world = world.with("LD_LIBRARY_PATH", &other);
    has(&said(&world, "C001"), &["libcuda.so.1", "not a file but a pipe"]);
    std::fs::remove_file(&pipe).unwrap();
    std::fs::write(&pipe, "").unwrap();
    has(&said(&world, "C001"), &["is not an ELF file"]);
    // What another name has is no driver.
    std::fs::remove_file(&pipe).unwrap();
    support::compile("", &["-shared", "-nostdlib"], &other.join("libcuda.so"));
    if !Path::new("/proc/driver/nvidia/version").exists() {
        has(&said(&world, "C001"), &["is not found"]);
    }

    // A cuDNN that never comes back ends by the doctor's hand; here by its own, since that takes two minutes.
    let code = "__attribute__((constructor)) static void never(void) { __builtin_trap(); }\n";
    let world =
        World::whole().replaced(FakeLibrary::new(Library::Ops, VERSION).with_ptx(8).with_code(code), Library::Ops);
    has(&said(&world, "C050"), &["ended in signal"]);

    // A variable that leads nowhere is the cause, and installing is no cure.
    let world = World { variables: vec![("CUDNN_LOADER_DIR", "/opt/gone".into())], ..World::whole() };
    has(&said(&world, "C010"), &["CUDNN_LOADER_DIR", "/opt/gone", "unset CUDNN_LOADER_DIR"]);

    // No cure removes a folder with others' files in it.
    let world =
        World::whole().replaced(FakeLibrary::new(Library::Adv, Version::new(9, 18, 1)).with_ptx(8), Library::Adv);
    let text = said(&world, "C014");
    has(&text, &["libcudnn*"]);
    assert!(!text.contains("remove /"), "{text}");

    // A framework's own cuDNN is not updated by updating the framework.
    let root = TempDir::new();
    let site_packages = root.path().join("lib/python3.12/site-packages");
    let folder = site_packages.join("torch/lib");
    std::fs::create_dir_all(site_packages.join("torch-2.2.0.dist-info")).unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(site_packages.join("torch-2.2.0.dist-info/RECORD"), "torch/lib/libcudnn_graph.so.9,x,1\n").unwrap();
    FakeLibrary::new(Library::Graph, VERSION).build(&folder.join("libcudnn_graph.so.9"));
    let variables = vec![("CUDNN_LOADER_DIR", folder.display().to_string())];
    let world = World { variables, ..World::whole() }.asked(&["--minimum", "9.20"]);
    has(&said(&world, "C018"), &["pip torch 2.2.0", "pip install 'nvidia-cudnn-cu12>=9.20.0'"]);

    // A JIT-only cuDNN is new enough, and has no convolutions of the old kind.
    let world = World::whole().asked(&["--function", "cudnnConvolutionForward"]);
    let _ = world.used.cleared(Library::Cnn);
    has(&said(&world, "C019"), &["is in libcudnn_cnn.so.9, which this cuDNN has not"]);

    // No cuDNN 9 ever had kernels for it.
    let world = World::whole();
    nvml(&world.other, "470.57.02", (3, 7));
    let other = world.other.path().to_owned();
    has(&said(&world.with("LD_LIBRARY_PATH", &other), "C040"), &["no cuDNN 9 has kernels for it"]);
}

#[test]
fn an_older_cudnn_alone_is_named_as_what_is_there_instead() {
    let folder = TempDir::new();
    std::fs::write(folder.path().join("libcudnn.so.8"), "").unwrap();
    let world = World { variables: vec![("LD_LIBRARY_PATH", folder.path().display().to_string())], ..World::whole() };
    let (findings, status) = world.check();
    assert_eq!(status, 2);
    let text = format!("{findings:?}");
    assert!(text.contains("C010") && text.contains("holds cuDNN 8, and cuDNN 9 is needed"), "{text}");
}
