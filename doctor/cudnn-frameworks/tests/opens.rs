//! Tests which cuDNN a framework would load in a fresh process, by the rules of Python code and of ld.so.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use cudnn_frameworks::{Environment, SearchRule, survey};
use cudnn_probe::ld_so::Rule;
use cudnn_probe::{Host, Library, Version};
use support::{ExtensionLibrary, FakeLibrary, PythonEnvironment, TempDir};

mod stand_ins;
use stand_ins::{Machine, cudnn, file, framework, is_same};

const OLD: Version = Version::new(9, 1, 0);
const NEW: Version = Version::new(9, 10, 2);

#[test]
fn torch_finds_the_wheel_next_to_it_by_its_rpath() {
    let machine = Machine::new().torch("2.9.1").cudart().cudnn(NEW);
    let survey = machine.survey();
    let torch = framework(&survey, "torch");
    let shim = &torch.opens.cudnn[0];
    assert!(is_same(&shim.path, &machine.site("nvidia/cudnn/lib/libcudnn.so.9")), "{shim:?}");
    assert!(matches!(&shim.by, SearchRule::LdSo(Rule::Rpath(_))), "{shim:?}");
    assert_eq!((torch.opens.name.as_deref(), torch.opens.version()), (Some("libcudnn.so.9"), Some(NEW)));
    assert_eq!(torch.opens.missing, [""; 0]);
    let users: Vec<_> = torch.opens.users.iter().filter_map(|user| user.file_name()?.to_str()).collect();
    assert_eq!(users, ["libtorch_python.so", "libtorch_cuda.so"]);
    assert!(!torch.opens.needs_none && !torch.opens.is_optional);
}

/// As in pytorch/pytorch reports of "found runtime version (9, 1, 0)": the shim comes from the wheel, unlike the other
/// libraries.
#[test]
fn an_older_cudnn_on_the_library_path_gets_mixed_with_torchs_shim() {
    let machine = Machine::new().torch("2.9.1").cudart().cudnn(NEW);
    let other = machine.path("older");
    cudnn(&other, OLD);
    let machine = machine.env("LD_LIBRARY_PATH", &other);
    let survey = machine.survey();
    let torch = framework(&survey, "torch");
    let (shim, graph) = (file(torch, "libcudnn.so.9"), file(torch, "libcudnn_graph.so.9"));
    assert!(is_same(&shim.path, &machine.site("nvidia/cudnn/lib/libcudnn.so.9")), "{shim:?}");
    assert!(is_same(&graph.path, &other.join("libcudnn_graph.so.9")), "{graph:?}");
    assert_eq!((shim.version, graph.version, torch.opens.version()), (Some(NEW), Some(OLD), Some(OLD)));
    assert_eq!(graph.by, SearchRule::LdSo(Rule::LibraryPath));
}

/// cuDNN loads heuristics and engines only when it plans an operation, so the import succeeds.
#[test]
fn missing_or_damaged_dependencies_of_the_graph_library_are_reported() {
    let newest = Version::new(9, 22, 0);
    for (version, missing, ignored) in [
        (NEW, "libcudnn_heuristic.so.9", "libcudnn_engines_tensor_ir.so.9"),
        (NEW, "libcudnn_engines_precompiled.so.9", "libcudnn_ext.so.9"),
        (NEW, "libcudnn_engines_runtime_compiled.so.9", ""),
        (newest, "libcudnn_engines_tensor_ir.so.9", ""),
        (newest, "libcudnn_ext.so.9", ""),
    ] {
        let machine = Machine::new().torch("2.9.1").cudart().cudnn(version);
        let opens = || framework(&machine.survey(), "torch").opens.missing.clone();
        assert_eq!(opens(), [""; 0], "{version} {ignored}");
        let file = machine.site("nvidia/cudnn/lib").join(missing);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(opens(), [missing], "{version}");
        std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        let survey = machine.survey();
        let opens = &framework(&survey, "torch").opens;
        assert!(opens.missing.is_empty(), "{opens:?}");
        let [damaged] = opens.damaged.as_slice() else { panic!("{opens:?}") };
        assert!(is_same(&damaged.path, &file) && damaged.reason.contains("truncated"), "{damaged:?}");
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("nowhere", &file).unwrap();
        let survey = machine.survey();
        assert_eq!(framework(&survey, "torch").opens.damaged.len(), 1, "{version} {missing}");
    }
}

/// Since 2.11, the order of the import directories decides.
#[test]
fn newer_releases_of_torch_open_the_first_cudnn_of_pythons_path() {
    for (version, is_first) in [("2.9.1", false), ("2.11.0", true)] {
        let machine = Machine::new().torch(version).cudart().cudnn(NEW);
        let other = machine.path("pythonpath");
        cudnn(&other.join("nvidia/cudnn/lib"), OLD);
        let machine = machine.env("PYTHONPATH", &other);
        let survey = machine.survey();
        let shim = &framework(&survey, "torch").opens.cudnn[0];
        assert_eq!(shim.path.starts_with(&other), is_first, "{version}: {shim:?}");
        assert_eq!(shim.by == SearchRule::Python, is_first, "{version}: {shim:?}");
    }
}

/// As in pytorch/pytorch#165812: the run path leads from lib64 to a directory that pip has not written to. After the
/// library with the dependencies fails to load, Python's code opens the wheel.
#[test]
fn torch_in_lib64_finds_the_wheels_in_lib_only_by_its_python_code() {
    let machine = Machine::new().cudnn(NEW).cudart();
    let mut elsewhere = Machine::new();
    elsewhere.environment = machine.environment.into_dir("lib64/python3.12/site-packages");
    let elsewhere = elsewhere.torch("2.9.1");
    let survey = elsewhere.survey();
    let torch = framework(&survey, "torch");
    assert_eq!(torch.opens.cudnn[0].by, SearchRule::Python, "{:?}", torch.opens);
    std::fs::remove_dir_all(machine.site("nvidia/cudnn")).unwrap();
    let survey = elsewhere.survey();
    let opens = &framework(&survey, "torch").opens;
    assert!(opens.cudnn.is_empty() && opens.missing.contains(&"libcudnn.so.9".to_owned()), "{opens:?}");
}

#[test]
fn a_missing_cuda_library_is_named_unlike_the_driver_library() {
    let machine = Machine::new().onnxruntime("1.22.0", true);
    let provider = machine.site("onnxruntime/capi/libonnxruntime_providers_cuda.so");
    let needs = ["libcublasLt.so.12", "libcuda.so.1", "libcudnn.so.9", "libunrelated.so.1"];
    needs.iter().fold(ExtensionLibrary::new(), |library, name| library.needing(name)).build(&provider);
    let survey = machine.survey();
    assert_eq!(framework(&survey, "onnxruntime").opens.missing, ["libcublasLt.so.12", "libcudnn.so.9"]);
}

/// `preload_dlls` and `import torch` load no sub-libraries, and older releases do not search the wheels of CUDA 13. Read in
/// `onnxruntime/__init__.py` of 1.22.0 and 1.31.1.
#[test]
fn onnxruntime_finds_only_the_libraries_that_its_function_loads() {
    let found_by = |version: &str, needs: &[&str]| {
        let machine = Machine::new().onnxruntime(version, true);
        let provider = machine.site("onnxruntime/capi/libonnxruntime_providers_cuda.so");
        needs.iter().fold(ExtensionLibrary::new(), |library, name| library.needing(name)).build(&provider);
        if needs.contains(&"libcublas.so.13") {
            let info = "package_name = 'onnxruntime-gpu'\ncuda_version = '13.0'\n";
            std::fs::write(machine.site("onnxruntime/capi/build_and_package_info.py"), info).unwrap();
        }
        let survey = machine.survey();
        framework(&survey, "onnxruntime").finds_wheels_by(&survey.frameworks).is_some()
    };
    assert!(found_by("1.22.0", &["libcudnn.so.9", "libcublasLt.so.12"]));
    assert!(!found_by("1.22.0", &["libcudnn.so.9", "libcudnn_adv.so.9"]));
    assert!(!found_by("1.22.0", &["libcudnn.so.9", "libcublas.so.13"]));
    assert!(found_by("1.31.1", &["libcudnn.so.9", "libcublas.so.13"]));
}

/// The engines of 9.28.0 are linked to the driver.
#[test]
fn a_library_that_needs_the_driver_is_complete_without_one() {
    let machine = Machine::new().torch("2.9.1").cudart().cudnn(NEW);
    let engines = machine.site("nvidia/cudnn/lib/libcudnn_engines_runtime_compiled.so.9");
    let library = ExtensionLibrary::new().with_soname("libcudnn_engines_runtime_compiled.so.9").with_runpath("$ORIGIN");
    let library = library.needing("libcudnn_graph.so.9").needing("libcuda.so.1").needing("libnvidia-ml.so.1");
    library.build(&engines);
    let survey = machine.survey();
    let torch = framework(&survey, "torch");
    assert!(torch.opens.missing.is_empty() && torch.opens.damaged.is_empty(), "{:?}", torch.opens);
    assert!(is_same(&file(torch, "libcudnn_engines_runtime_compiled.so.9").path, &engines));
    library.needing("libnvrtc.so.12").build(&engines);
    assert_eq!(framework(&machine.survey(), "torch").opens.missing, ["libnvrtc.so.12"]);
}

/// The drop-in loads the libraries of the installation that the loader selects. ld.so's search for the same names is
/// irrelevant.
#[test]
fn the_drop_in_gets_the_libraries_that_the_loader_selects() {
    let machine = Machine::new().torch("2.9.1").cudart();
    let dir = machine.site("nvidia/cudnn/lib");
    std::fs::create_dir_all(&dir).unwrap();
    let opens = |machine: &Machine, code: &str| {
        let shim = FakeLibrary::new(Library::Shim, NEW).with_code(code);
        shim.build(&dir.join("libcudnn.so.9"));
        framework(&machine.survey(), "torch").opens.clone()
    };
    const DROP_IN: &str = "int cudnnShimVersion(void) { return 0; }";
    let none = opens(&machine, DROP_IN);
    assert!(none.has_drop_in && none.missing == ["libcudnn_graph.so.9"] && none.cudnn.len() == 1, "{none:?}");
    let shim = opens(&machine, "");
    assert!(!shim.has_drop_in && shim.missing.contains(&"libcudnn_graph.so.9".to_owned()), "{shim:?}");
    // The first cuDNN is next to the drop-in, and the variable names the second one.
    let machine = machine.cudnn(NEW);
    let beside = opens(&machine, DROP_IN);
    assert!(beside.missing.is_empty() && beside.version() == Some(NEW), "{beside:?}");
    let other = machine.path("other");
    cudnn(&other, OLD);
    let named = opens(&machine.env("CUDNN_LOADER_DIR", &other), DROP_IN);
    assert_eq!((named.version(), &named.cudnn[1].by), (Some(OLD), &SearchRule::DropIn), "{named:?}");
    assert!(named.cudnn[1].path.starts_with(&other), "{named:?}");
}

/// PyTorch's Python code loads wheels outside of the run path.
#[test]
fn torch_opens_each_library_of_cuda_from_any_import_directory() {
    let machine = Machine::new().torch("2.8.0").cudnn(NEW);
    let other = machine.path("other");
    for (module, name) in [("curand", "libcurand.so.10"), ("cuda_runtime", "libcudart.so.12")] {
        let file = other.join("nvidia").join(module).join("lib").join(name);
        ExtensionLibrary::new().with_soname(name).build(&file);
    }
    ExtensionLibrary::new()
        .with_soname("libtorch_global_deps.so")
        .needing("libcurand.so.10")
        .needing("libcudart.so.12")
        .build(&machine.site("torch/lib/libtorch_global_deps.so"));
    ExtensionLibrary::new()
        .with_soname("libtorch_cuda.so")
        .with_rpath("$ORIGIN/../../nvidia/cudnn/lib")
        .needing("libcudnn.so.9")
        .needing("libcurand.so.10")
        .build(&machine.site("torch/lib/libtorch_cuda.so"));
    std::fs::write(machine.site("other.pth"), format!("{}\n", other.display())).unwrap();
    let survey = machine.survey();
    let opens = &framework(&survey, "torch").opens;
    assert!(opens.missing.is_empty(), "{opens:?}");
}

/// Some images omit metadata to save space.
#[test]
fn a_framework_without_metadata_is_found_by_its_files() {
    let machine = Machine::new().torch("2.8.0").cudart().cudnn(OLD);
    let info = machine.site("torch-2.8.0.dist-info");
    std::fs::remove_dir_all(info).unwrap();
    let file = machine.site("torch/version.py");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, format!("__version__ = '2.8.0+cu128'\n{text}")).unwrap();
    let survey = machine.survey();
    let torch = framework(&survey, "torch");
    assert_eq!((torch.version.as_str(), torch.opens.version()), ("2.8.0+cu128", Some(OLD)));
    assert_eq!(torch.built_for.cudnn.as_ref().map(|cudnn| cudnn.value), Some(Version::new(9, 10, 2)));
}

/// As in microsoft/onnxruntime#25609: no search path leads to the installed wheel.
#[test]
fn onnx_runtime_finds_cudnn_only_by_the_library_path() {
    let machine = Machine::new().onnxruntime("1.22.0", true).cudnn(NEW);
    let survey = machine.survey();
    let opens = &framework(&survey, "onnxruntime").opens;
    assert!(opens.cudnn.is_empty() && !opens.is_optional, "{opens:?}");
    assert_eq!((opens.users.len(), &opens.missing[..]), (1, &["libcudnn.so.9".to_owned()][..]));
    let dir = machine.site("nvidia/cudnn/lib");
    let survey = machine.env("LD_LIBRARY_PATH", dir).survey();
    let opens = &framework(&survey, "onnxruntime").opens;
    assert_eq!((&opens.cudnn[0].by, opens.version()), (&SearchRule::LdSo(Rule::LibraryPath), Some(NEW)));
}

/// Since 1.28, it opens cuDNN by name and works without it.
#[test]
fn a_library_that_opens_cudnn_by_name_is_known_by_its_bytes() {
    let survey = Machine::new().onnxruntime("1.31.1", false).survey();
    let opens = &framework(&survey, "onnxruntime").opens;
    assert!(opens.is_optional && !opens.needs_none && opens.users.len() == 1, "{opens:?}");
    assert_eq!(opens.missing, ["libcudnn.so.9"]);
    let machine = Machine::new().onnxruntime("1.31.1", false);
    let provider = machine.site("onnxruntime/capi/libonnxruntime_providers_cuda.so");
    ExtensionLibrary::new().with_rpath("$ORIGIN/../../nvidia/cudnn/lib").build(&provider);
    let survey = machine.survey();
    let opens = &framework(&survey, "onnxruntime").opens;
    assert!(opens.needs_none && opens.users.is_empty() && opens.missing.is_empty(), "{opens:?}");
}

/// As in SYSTRAN/faster-whisper#1182: a wheel contains a renamed shim without the other libraries.
#[test]
fn a_copy_in_the_wheel_is_found_through_the_extension_library() {
    let survey = Machine::new().ctranslate2("4.5.0", true).cudnn(NEW).survey();
    let opens = &framework(&survey, "ctranslate2").opens;
    let shim = &opens.cudnn[0];
    assert_eq!((shim.name.as_str(), shim.version), ("libcudnn-74a4c495.so.9.1.0", Some(OLD)));
    assert!(matches!(&shim.by, SearchRule::LdSo(Rule::Rpath(_))), "{shim:?}");
    assert_eq!(opens.cudnn.len(), 1);
    let parts = ["libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9"];
    assert_eq!(opens.missing, [&parts[..], &["libcublas.so.12"]].concat());
    let survey = Machine::new().ctranslate2("4.5.0", false).survey();
    let opens = &framework(&survey, "ctranslate2").opens;
    assert!(opens.needs_none && opens.missing == ["libcublas.so.12"], "{opens:?}");
}

#[test]
fn the_python_code_of_jax_opens_the_wheel_before_the_run_path_is_used() {
    let machine = Machine::new().jax().cudnn(NEW);
    let other = machine.path("pythonpath");
    cudnn(&other.join("nvidia/cudnn/lib"), OLD);
    let survey = machine.survey();
    assert_eq!(framework(&survey, "jax").opens.cudnn[0].by, SearchRule::Python);
    let machine = machine.env("PYTHONPATH", &other);
    let survey = machine.survey();
    let shim = &framework(&survey, "jax").opens.cudnn[0];
    assert!(shim.path.starts_with(&other), "{shim:?}");
    // Without the library in the module, ld.so uses the run path.
    std::fs::remove_file(other.join("nvidia/cudnn/lib/libcudnn.so.9")).unwrap();
    let survey = machine.survey();
    let shim = &framework(&survey, "jax").opens.cudnn[0];
    assert!(!shim.path.starts_with(&other) && matches!(&shim.by, SearchRule::LdSo(Rule::Rpath(_))), "{shim:?}");
}

#[test]
fn the_library_path_comes_before_tensorflows_run_path() {
    let machine = Machine::new().tensorflow().cudnn(NEW);
    let survey = machine.survey();
    let opens = &framework(&survey, "tensorflow").opens;
    assert!(matches!(&opens.cudnn[0].by, SearchRule::LdSo(Rule::Runpath(_))), "{opens:?}");
    let other = machine.path("older");
    cudnn(&other, OLD);
    let survey = machine.env("LD_LIBRARY_PATH", &other).survey();
    let opens = &framework(&survey, "tensorflow").opens;
    assert_eq!((&opens.cudnn[0].by, opens.version()), (&SearchRule::LdSo(Rule::LibraryPath), Some(OLD)));
}

/// As in NVIDIA/TransformerEngine#2373.
#[test]
fn transformer_engine_searches_the_toolkits_before_the_wheel() {
    let machine = Machine::new().cudnn(NEW);
    let library = ExtensionLibrary::new().needing("libcudnn.so.9").needing("libcudnn_ops.so.9");
    machine
        .environment
        .package("transformer-engine-cu12", "2.20.2")
        .library("transformer_engine/wheel_lib/libtransformer_engine.so", &library);
    let survey = machine.survey();
    let opens = &framework(&survey, "transformer-engine").opens;
    assert_eq!((&opens.cudnn[0].by, opens.version()), (&SearchRule::Python, Some(NEW)), "{opens:?}");
    let other = machine.path("cuda");
    cudnn(&other.join("targets/x86_64-linux/lib"), OLD);
    ExtensionLibrary::new().with_soname("libcudnn.so.9").build(&other.join("lib64/stubs/libcudnn.so.99"));
    let survey = machine.env("CUDA_HOME", &other).survey();
    let opens = &framework(&survey, "transformer-engine").opens;
    assert_eq!(
        (&opens.cudnn[0].by, opens.cudnn[0].version),
        (&SearchRule::Variable("CUDA_HOME"), Some(OLD)),
        "{opens:?}"
    );
}

#[test]
fn cudnn_frontend_prefers_the_search_path_to_the_wheels() {
    let machine = Machine::new();
    machine
        .environment
        .package("nvidia-cudnn-frontend", "1.32.0")
        .library("cudnn/_compiled_module.cpython-312-x86_64-linux-gnu.so", &ExtensionLibrary::new());
    let opened = |machine: &Machine| {
        let survey = machine.survey();
        let opens = &framework(&survey, "cudnn-frontend").opens;
        (opens.cudnn.first().map(|shim| shim.by.clone()), opens.version())
    };
    assert_eq!(opened(&machine), (None, None));
    cudnn(&machine.site("nvidia/cudnn_jit/lib"), OLD);
    assert_eq!(opened(&machine), (Some(SearchRule::Python), Some(OLD)));
    let machine = machine.cudnn(NEW);
    assert_eq!(opened(&machine), (Some(SearchRule::Python), Some(NEW)));
    let other = machine.path("other");
    cudnn(&other, OLD);
    let machine = machine.env("LD_LIBRARY_PATH", &other);
    assert_eq!(opened(&machine), (Some(SearchRule::LdSo(Rule::LibraryPath)), Some(OLD)));
    std::fs::remove_dir_all(machine.site("nvidia_cudnn_frontend-1.32.0.dist-info")).unwrap();
    machine.environment.package("nvidia-cudnn-frontend", "1.23.0");
    assert_eq!(opened(&machine), (Some(SearchRule::Python), Some(OLD)));
}

/// A depth-first search would use up the limit in the wrong directories.
#[test]
fn a_toolkit_with_too_many_files_is_searched_from_the_top() {
    let library = ExtensionLibrary::new().needing("libcudnn.so.9");
    let path = "transformer_engine/wheel_lib/libtransformer_engine.so";
    let machine = Machine::new();
    machine.environment.package("transformer-engine-cu12", "2.20.2").library(path, &library);
    let toolkit = machine.path("toolkit");
    let deep = toolkit.join("doc/a/b");
    std::fs::create_dir_all(&deep).unwrap();
    for index in 0..33_000 {
        std::fs::write(deep.join(index.to_string()), "").unwrap();
    }
    let machine = machine.env("CUDA_HOME", &toolkit);
    let survey = machine.survey();
    let opens = &framework(&survey, "transformer-engine").opens;
    assert!(opens.cudnn.is_empty() && opens.half_searched == std::slice::from_ref(&toolkit), "{opens:?}");
    // A link leads to the toolkit's usual directory.
    cudnn(&toolkit.join("targets/x86_64-linux/lib"), OLD);
    std::os::unix::fs::symlink("targets/x86_64-linux/lib", toolkit.join("lib64")).unwrap();
    std::os::unix::fs::symlink("..", toolkit.join("targets/above")).unwrap();
    let survey = machine.survey();
    let opens = &framework(&survey, "transformer-engine").opens;
    assert_eq!((&opens.cudnn[0].by, opens.version()), (&SearchRule::Variable("CUDA_HOME"), Some(OLD)), "{opens:?}");
    assert_eq!(opens.half_searched, std::slice::from_ref(&toolkit));
    std::fs::remove_dir_all(deep).unwrap();
    let survey = machine.survey();
    let opens = &framework(&survey, "transformer-engine").opens;
    assert!(opens.half_searched.is_empty() && opens.version() == Some(OLD), "{opens:?}");
}

/// The number of directories determines the time, regardless of their depth.
#[test]
fn a_deep_toolkit_is_searched_quickly() {
    let machine = Machine::new().onnxruntime("1.22.0", true);
    let library = ExtensionLibrary::new().needing("libcudnn.so.9");
    let path = "transformer_engine/wheel_lib/libtransformer_engine.so";
    machine.environment.package("transformer-engine-cu12", "2.20.2").library(path, &library);
    let toolkit = machine.path("toolkit");
    let deep = (0..750).fold(toolkit.clone(), |dir, _| dir.join("lib"));
    std::fs::create_dir_all(&deep).unwrap();
    cudnn(&toolkit.join("lib"), OLD);
    let machine = machine.env("CUDA_HOME", &toolkit);
    let start = std::time::Instant::now();
    let survey = machine.survey();
    let duration = start.elapsed();
    assert_eq!(framework(&survey, "transformer-engine").opens.version(), Some(OLD));
    assert!(duration < std::time::Duration::from_millis(1500), "{duration:?}");
}

#[test]
fn a_framework_that_does_not_use_cudnn_needs_none() {
    let machine = Machine::new();
    machine
        .environment
        .package("torch", "2.9.1+cpu")
        .file("torch/version.py", "cuda: Optional[str] = None\n")
        .library("torch/lib/libtorch_python.so", &ExtensionLibrary::new());
    machine
        .environment
        .package("tensorrt-cu12-libs", "10.9.0.34")
        .library("tensorrt_libs/libnvinfer.so.10", &ExtensionLibrary::new());
    machine
        .environment
        .package("cupy-cuda12x", "14.2.0")
        .file("cupy/.data/_wheel.json", r#"{"cuda": "12.x"}"#)
        .library("cupy_backends/cuda/libs/cublas.cpython-312-x86_64-linux-gnu.so", &ExtensionLibrary::new());
    for framework in &machine.survey().frameworks {
        assert!(framework.opens.needs_none && framework.opens.users.is_empty(), "{framework:?}");
    }
    // Up to 13, one module of CuPy uses cuDNN 8.
    machine.environment.package("cupy-cuda12x", "14.2.0").library(
        "cupy_backends/cuda/libs/cudnn.cpython-312-x86_64-linux-gnu.so",
        &ExtensionLibrary::new().needing("libcudnn.so.8"),
    );
    let survey = machine.survey();
    let opens = &framework(&survey, "cupy").opens;
    assert!(opens.is_optional && !opens.needs_none && opens.missing == ["libcudnn.so.8"], "{opens:?}");
}

#[test]
fn the_need_for_cudnn_is_unknown_without_libraries() {
    let machine = Machine::new();
    machine.environment.package("ctranslate2", "4.8.5").file("ctranslate2/version.py", "__version__ = \"4.8.5\"\n");
    let survey = machine.survey();
    let opens = &framework(&survey, "ctranslate2").opens;
    assert!(!opens.needs_none && opens.users.is_empty(), "{opens:?}");
}

#[test]
fn an_environment_whose_path_is_not_utf_8_is_examined() {
    use std::os::unix::ffi::OsStrExt;
    let dir = TempDir::new();
    let root = dir.path().join(std::ffi::OsStr::from_bytes(b"venv-\xff"));
    let host = Host::sandbox(dir.path().join("root"));
    let environment = PythonEnvironment::venv(&root);
    let linked = ExtensionLibrary::new().needing("libcudnn.so.9").with_rpath("$ORIGIN/../../nvidia/cudnn/lib");
    environment
        .package("torch", "2.8.0")
        .file("torch/version.py", "cuda: Optional[str] = '12.8'\n")
        .library("torch/lib/libtorch_global_deps.so", &ExtensionLibrary::new())
        .library("torch/lib/libtorch_cuda.so", &linked);
    let read = || survey(&Environment::at(&root, &host), &host);
    let found = read();
    assert_eq!(found.frameworks[0].opens.missing, ["libcudnn.so.9"], "{found:#?}");
    cudnn(&environment.import_dir().join("nvidia/cudnn/lib"), Version::new(9, 10, 2));
    let found = read();
    assert_eq!(found.frameworks[0].opens.version(), Some(Version::new(9, 10, 2)), "{found:#?}");
}
