//! Tests Windows environments on Linux, by the rules of Python code and of the DLL search order. MinGW compiles the
//! DLLs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};

use cudnn_frameworks::{Environment, Framework, SearchRule, Survey, ValueSource, pairs, survey};
use cudnn_probe::{Host, Library, Os, Version, dll_search};
use support::{PythonEnvironment, TempDir, extension_dll, fake_dll};

const VERSION: Version = Version::new(9, 10, 2);

/// A Windows virtual environment on a disk of this machine.
struct Machine {
    dir: TempDir,
    environment: PythonEnvironment,
}

impl Machine {
    fn new() -> Self {
        let dir = TempDir::new();
        let root = dir.path().join("größe 1");
        let environment = PythonEnvironment::at(&root, "Lib/site-packages");
        std::fs::create_dir_all(root.join("Scripts")).unwrap();
        std::fs::write(root.join("Scripts/python.exe"), "").unwrap();
        std::fs::write(root.join("pyvenv.cfg"), "home = C:\\Python312\r\nversion = 3.12.4\r\n").unwrap();
        Machine { dir, environment }
    }

    fn site(&self, path: &str) -> PathBuf {
        self.environment.import_dir().join(path)
    }

    fn survey(&self) -> Survey {
        let host = Host::sandbox(self.dir.path().join("root"));
        survey(&Environment::at(self.environment.root(), &host), &host)
    }

    /// Builds a DLL with these imports and the function `f`.
    fn dll(&self, path: &str, imports: &[&str]) {
        self.dll_with(path, imports, "");
    }

    fn dll_with(&self, path: &str, imports: &[&str], text: &str) {
        let file = self.site(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        extension_dll(&file, imports, text);
    }

    fn cudnn(&self, dir: &str, version: Version) {
        cudnn(&self.site(dir), version);
    }

    /// Installs PyTorch for CUDA 12.8, which contains the DLLs of CUDA and cuDNN, like the wheel.
    fn torch(self) -> Self {
        let version_file = "cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n";
        self.environment.package("torch", "2.9.1+cu128").file("torch/version.py", version_file);
        self.dll("torch/_C.cp312-win_amd64.pyd", &["torch_python.dll", "python312.dll"]);
        self.dll("torch/lib/torch_python.dll", &["torch_cuda.dll", "KERNEL32.dll"]);
        self.dll(
            "torch/lib/torch_cuda.dll",
            &["cudnn64_9.dll", "cublas64_12.dll", "cudart64_12.dll", "VCRUNTIME140.dll"],
        );
        for name in ["cublas64_12.dll", "cudart64_12.dll"] {
            self.dll(&format!("torch/lib/{name}"), &[]);
        }
        self.cudnn("torch/lib", VERSION);
        self
    }

    /// Installs a release of ONNX Runtime that imports cuDNN or opens it by name.
    fn onnxruntime(self, is_linked: bool) -> Self {
        let info = "package_name = 'onnxruntime-gpu'\n__version__ = '1.22.0'\ncuda_version = '12.4'\n";
        let package = self.environment.package("onnxruntime-gpu", "1.22.0");
        package.file("onnxruntime/capi/build_and_package_info.py", info);
        self.dll("onnxruntime/capi/onnxruntime_pybind11_state.pyd", &["python312.dll"]);
        let provider = "onnxruntime/capi/onnxruntime_providers_cuda.dll";
        if is_linked {
            self.dll(provider, &["cudnn64_9.dll", "cublas64_12.dll"]);
        } else {
            self.dll_with(provider, &["KERNEL32.dll"], "cudnn64_9.dll");
        }
        self
    }

    /// Installs CTranslate2 with the cuDNN shim, which the main library imports or ignores.
    fn ctranslate2(self, version: &str, is_linked: bool) -> Self {
        self.environment.package("ctranslate2", version);
        self.dll("ctranslate2/_ext.cp312-win_amd64.pyd", &["ctranslate2.dll", "python312.dll"]);
        let imports: &[&str] = if is_linked { &["libiomp5md.dll", "cudnn64_9.dll"] } else { &["libiomp5md.dll"] };
        self.dll_with("ctranslate2/ctranslate2.dll", imports, "cublas64_12.dll");
        self.dll("ctranslate2/libiomp5md.dll", &["KERNEL32.dll"]);
        fake_dll(Library::Shim, VERSION).build(&self.site("ctranslate2/cudnn64_9.dll"));
        self
    }
}

fn cudnn(dir: &Path, version: Version) {
    std::fs::create_dir_all(dir).unwrap();
    support::copy_fake_dlls(version, 8, dir);
}

fn framework<'a>(survey: &'a Survey, id: &str) -> &'a Framework {
    survey.frameworks.iter().find(|framework| framework.kind.id == id).unwrap_or_else(|| panic!("no {id}: {survey:#?}"))
}

#[test]
#[ignore = "needs MinGW"]
fn a_handmade_dll_has_its_imports() {
    let machine = Machine::new();
    machine.dll("x.dll", &["a.dll", "B.DLL"]);
    assert_eq!(dll_search::imports(&machine.site("x.dll")).unwrap(), ["a.dll", "B.DLL"]);
    assert_eq!(cudnn_probe::exports(&machine.site("x.dll"), &["f", "g"]).ok(), None, "no library of this system");
}

#[test]
#[ignore = "needs MinGW"]
fn torch_opens_the_cudnn_in_its_own_directory() {
    let survey = Machine::new().torch().survey();
    assert_eq!((survey.environment.os, survey.environment.python), (Os::Windows, Some((3, 12))));
    let torch = framework(&survey, "torch");
    let opens = &torch.opens;
    assert_eq!(torch.built_for.cuda.as_ref().map(|cuda| cuda.value), Some((12, Some(8))));
    let shim = &opens.cudnn[0];
    assert!(shim.path.ends_with("torch/lib/cudnn64_9.dll") && shim.by == SearchRule::Python, "{shim:?}");
    assert_eq!((opens.name.as_deref(), opens.version()), (Some("cudnn64_9.dll"), Some(VERSION)));
    assert!(opens.missing.is_empty() && opens.damaged.is_empty(), "{opens:?}");
    let users: Vec<_> = opens.users.iter().filter_map(|user| user.file_name()?.to_str()).collect();
    assert_eq!(users, ["torch_cuda.dll"]);
    assert!(opens.cudnn.iter().any(|opened| opened.name == "cudnn_heuristic64_9.dll"), "{opens:?}");
    assert!(!opens.needs_none && !opens.is_unexamined, "{opens:?}");
    assert!(!torch.searches(&PathBuf::from("nvidia/cudnn/bin"), &Host::current()));
}

#[test]
#[ignore = "needs MinGW"]
fn a_dll_missing_from_the_torch_directory_is_named_even_if_a_wheel_has_it() {
    for (name, expected) in [
        ("cudnn64_9.dll", &["cudnn64_9.dll"][..]),
        ("cudnn_ops64_9.dll", &["cudnn_ops64_9.dll"]),
        ("cudnn_engines_precompiled64_9.dll", &["cudnn_engines_precompiled64_9.dll"]),
        ("cublas64_12.dll", &["cublas64_12.dll"]),
    ] {
        let machine = Machine::new().torch();
        machine.cudnn("nvidia/cudnn/bin", VERSION);
        std::fs::remove_file(machine.site("torch/lib").join(name)).unwrap();
        let survey = machine.survey();
        let opens = &framework(&survey, "torch").opens;
        assert_eq!(opens.missing, expected, "{name}: {opens:?}");
    }
    let machine = Machine::new().torch();
    std::fs::write(machine.site("torch/lib/cudnn_ops64_9.dll"), "<html>").unwrap();
    let survey = machine.survey();
    let [damaged] = framework(&survey, "torch").opens.damaged.as_slice() else { panic!("{survey:#?}") };
    assert!(damaged.path.ends_with("cudnn_ops64_9.dll") && damaged.reason.contains("is not a"), "{damaged:?}");
}

#[test]
#[ignore = "needs MinGW"]
fn a_damaged_cuda_dll_is_reported() {
    let machine = Machine::new().torch();
    std::fs::write(machine.site("torch/lib/cublas64_12.dll"), "<html>").unwrap();
    let survey = machine.survey();
    let opens = &framework(&survey, "torch").opens;
    assert_eq!(opens.missing, ["cublas64_12.dll"], "{opens:?}");
    assert!(opens.damaged_others.iter().any(|one| one.path.ends_with("torch/lib/cublas64_12.dll")), "{opens:?}");
}

/// Windows only searches PATH. A wheel counts only if a program requests it.
#[test]
#[ignore = "needs MinGW"]
fn onnxruntime_does_not_find_a_wheel_by_itself() {
    for is_linked in [true, false] {
        let machine = Machine::new().onnxruntime(is_linked);
        machine.cudnn("nvidia/cudnn/bin", VERSION);
        let survey = machine.survey();
        let ort = framework(&survey, "onnxruntime");
        let opens = &ort.opens;
        assert!(opens.cudnn.is_empty() && opens.missing.contains(&"cudnn64_9.dll".to_owned()), "{opens:?}");
        assert_eq!(opens.missing.contains(&"cublas64_12.dll".to_owned()), is_linked, "{opens:?}");
        assert_eq!(opens.is_optional, !is_linked);
        assert!(opens.users[0].ends_with("capi/onnxruntime_providers_cuda.dll"), "{opens:?}");
        assert!(ort.finds_wheels_by(&survey.frameworks).is_some_and(|text| text.contains("preload_dlls")));
    }
}

/// As in SYSTRAN/faster-whisper#1080: the package has the shim without the other DLLs.
#[test]
#[ignore = "needs MinGW"]
fn ctranslate2_has_a_shim_without_the_dlls_that_it_opens() {
    let survey = Machine::new().ctranslate2("4.5.0", true).survey();
    let opens = &framework(&survey, "ctranslate2").opens;
    assert!(opens.cudnn[0].path.ends_with("ctranslate2/cudnn64_9.dll"), "{opens:?}");
    assert_eq!((opens.cudnn.len(), opens.version()), (1, None));
    assert!(opens.missing.contains(&"cudnn_ops64_9.dll".to_owned()), "{opens:?}");
    // The document specifies CUDA 12, whose cuBLAS is opened by name.
    assert!(opens.missing.contains(&"cublas64_12.dll".to_owned()), "{opens:?}");

    // A newer release contains the shim but ignores it.
    let survey = Machine::new().ctranslate2("4.8.5", false).survey();
    let opens = &framework(&survey, "ctranslate2").opens;
    assert!(opens.needs_none && opens.cudnn.is_empty(), "{opens:?}");
    assert_eq!(opens.missing, ["cublas64_12.dll"]);
}

#[test]
#[ignore = "needs MinGW"]
fn the_second_framework_gets_the_dlls_of_the_first_by_their_base_names() {
    let machine = Machine::new().torch().ctranslate2("4.5.0", true).onnxruntime(true);
    let survey = machine.survey();
    let pairs = pairs(&survey, &Host::sandbox("/none"));
    let pair = |first: &str, second: &str| {
        pairs.iter().find(|pair| pair.first.kind.id == first && pair.second.kind.id == second).unwrap()
    };
    let gets = |first: &str, second: &str| pair(first, second).second_opens.cudnn[0].path.clone();
    // Therefore `import torch` first helps.
    assert!(gets("torch", "onnxruntime").ends_with("torch/lib/cudnn64_9.dll"));
    assert_eq!(pair("torch", "onnxruntime").second_opens.missing, [""; 0]);
    assert!(gets("ctranslate2", "torch").ends_with("ctranslate2/cudnn64_9.dll"));
}

/// As in microsoft/onnxruntime#24266: another framework has loaded the graph library that torch's cnn is linked to.
#[test]
#[ignore = "needs MinGW"]
fn a_dll_without_a_required_symbol_is_from_another_release() {
    let machine = Machine::new().torch();
    let graph = machine.site("torch/lib/cudnn_graph64_9.dll");
    std::fs::remove_file(&graph).unwrap();
    fake_dll(Library::Graph, VERSION).without("cudnnGetStream").build(&graph);
    let cnn = machine.site("torch/lib/cudnn_cnn64_9.dll");
    std::fs::remove_file(&cnn).unwrap();
    fake_dll(Library::Cnn, VERSION).importing("cudnnGetStream", "cudnn_graph64_9.dll").build(&cnn);
    let survey = machine.survey();
    let opens = &framework(&survey, "torch").opens;
    let [damaged] = opens.damaged.as_slice() else { panic!("{opens:#?}") };
    assert!(damaged.path == cnn && damaged.reason.contains("different releases"), "{damaged:?}");
}

#[test]
#[ignore = "needs MinGW"]
fn tensorflow_and_jax_use_no_gpu_on_windows_and_others_are_not_examined() {
    let machine = Machine::new();
    for (name, version) in [("tensorflow", "2.18.0"), ("jax-cuda12-plugin", "0.4.31"), ("paddlepaddle-gpu", "2.6.2")] {
        machine.environment.package(name, version);
    }
    for dir in ["tensorflow", "jax_plugins/xla_cuda12", "paddle"] {
        std::fs::create_dir_all(machine.site(dir)).unwrap();
    }
    let survey = machine.survey();
    for (id, url) in [("tensorflow", "v2.11.1"), ("jax", "docs.jax.dev")] {
        let framework = framework(&survey, id);
        let uses_gpu = framework.built_for.uses_gpu.as_ref().unwrap();
        assert!(!uses_gpu.value && framework.opens.needs_none, "{framework:?}");
        assert!(
            matches!(uses_gpu.source, ValueSource::Fact { citation, .. } if citation.url.contains(url)),
            "{uses_gpu:?}"
        );
    }
    assert!(framework(&survey, "paddle").opens.is_unexamined);

    let older = Machine::new();
    older.environment.package("tensorflow", "2.10.1");
    std::fs::create_dir_all(older.site("tensorflow")).unwrap();
    assert!(framework(&older.survey(), "tensorflow").opens.is_unexamined);
}

#[test]
#[ignore = "needs MinGW"]
fn a_linux_environment_is_not_read_as_a_windows_environment() {
    let dir = TempDir::new();
    let linux = PythonEnvironment::venv(&dir.path().join("venv"));
    std::fs::create_dir_all(linux.root().join("Lib")).unwrap();
    assert_eq!(Environment::at(linux.root(), &Host::current()).os, Os::HOST);
}
