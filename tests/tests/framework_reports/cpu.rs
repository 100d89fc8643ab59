//! Checks environments with frameworks that do not use a GPU, where a missing cuDNN is not a problem.

use serde_json::Value;
use support::{ExtensionLibrary, PythonEnvironment, not_run};

use crate::world::*;

type Install = fn(&PythonEnvironment);

fn torch_for_cpu(venv: &PythonEnvironment) {
    let library = |name: &str| ExtensionLibrary::new().with_soname(name);
    venv.package("torch", "2.8.0+cpu")
        .file("torch/version.py", "__version__ = '2.8.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n")
        .library("torch/lib/libtorch_global_deps.so", &library("libtorch_global_deps.so"))
        .library("torch/lib/libtorch_cpu.so", &library("libtorch_cpu.so"))
        .library("torch/lib/libtorch_python.so", &library("libtorch_python.so").needing("libtorch_cpu.so"));
}

fn tensorflow_for_cpu(venv: &PythonEnvironment) {
    let info = "build_info = collections.OrderedDict([('is_cuda_build', False), ('is_rocm_build', False)])\n";
    venv.package("tensorflow-cpu", "2.19.1")
        .file("tensorflow/python/platform/build_info.py", info)
        .library("tensorflow/libtensorflow_framework.so.2", &ExtensionLibrary::new());
}

fn onnxruntime_for_cpu(venv: &PythonEnvironment) {
    let info = "package_name = 'onnxruntime'\n__version__ = '1.22.0'\n";
    venv.package("onnxruntime", "1.22.0")
        .file("onnxruntime/capi/build_and_package_info.py", info)
        .library("onnxruntime/capi/onnxruntime_pybind11_state.so", &ExtensionLibrary::new());
}

fn jax_without_plugin(venv: &PythonEnvironment) {
    venv.package("jax", "0.8.3");
    venv.package("jaxlib", "0.8.3").library("jaxlib/libjax_common.so", &ExtensionLibrary::new());
}

fn find_code<'a>(findings: &'a [Value], code: &str) -> Option<&'a Value> {
    findings.iter().find(|finding| finding["code"] == code)
}

#[test]
fn an_environment_for_the_cpu_does_not_report_a_missing_cudnn() {
    let all: Install = |venv| {
        [torch_for_cpu, tensorflow_for_cpu, onnxruntime_for_cpu, jax_without_plugin].iter().for_each(|one| one(venv));
    };
    for (install, names) in [
        (torch_for_cpu as Install, &["PyTorch 2.8.0+cpu is built for the CPU ("][..]),
        (tensorflow_for_cpu, &["TensorFlow 2.19.1"]),
        (onnxruntime_for_cpu, &["ONNX Runtime 1.22.0"]),
        (jax_without_plugin, &["JAX 0.8.3"]),
        (all, &["do not need it: PyTorch 2.8.0+cpu, TensorFlow 2.19.1, JAX 0.8.3, ONNX Runtime 1.22.0"]),
    ] {
        let world = World::new();
        install(&world.venv);
        let (findings, status) = world.check(&[]);
        let severities: Vec<&str> = findings.iter().map(|finding| finding["severity"].as_str().unwrap()).collect();
        assert!(status == 0 && severities.iter().all(|severity| *severity == "note"), "{status} {findings:#?}");
        let found = find_code(&findings, "C010").unwrap();
        let message = "no usable cuDNN 9 was found; the frameworks here do not use NVIDIA GPUs and do not need it: ";
        assert!(found["message"].as_str().unwrap().starts_with(message), "{found:#}");
        assert!(names.iter().all(|name| found.to_string().contains(name)), "{found:#}");
        assert_eq!(found["commands"].as_array().unwrap().len(), 0, "{found:#}");
        match find_code(&findings, "C001") {
            Some(driver) => assert!(driver["help"].as_str().unwrap().starts_with("for programs that use a GPU: ")),
            None => not_run("C001", "a driver is installed"),
        }
    }
}

/// CTranslate2 computes on GPUs without cuDNN, so only the driver matters.
#[test]
fn frameworks_that_use_a_gpu_without_cudnn_only_miss_the_driver() {
    let world = World::new();
    new_ctranslate2(&world.venv);
    let (findings, _) = world.check(&[]);
    let found = find_code(&findings, "C010").unwrap();
    let message = "no usable cuDNN 9 was found; the frameworks here do not need it: CTranslate2 4.8.5";
    assert_eq!((found["severity"].as_str(), found["message"].as_str()), (Some("note"), Some(message)));
    if let Some(driver) = find_code(&findings, "C001") {
        assert_eq!(driver["severity"], "warning", "{driver:#}");
    }
}

#[test]
fn a_missing_cudnn_is_an_error_where_something_needs_it() {
    let nothing: Install = |_| {};
    let with_gpu: Install = |venv| {
        torch_for_cpu(venv);
        torch(venv, "2.8.0", "12.8", "9.10.2.21");
    };
    let with_jax: Install = |venv| {
        torch_for_cpu(venv);
        jax(venv, "0.8.3", "9.8");
    };
    // The CPU package has overwritten the GPU package, which was installed on purpose.
    let overwritten: Install = |venv| {
        onnxruntime(venv, "1.22.0", "12.8", &["libcudnn.so.9"]);
        onnxruntime_for_cpu(venv);
    };
    for (name, install, options) in [
        ("no framework", nothing, &[][..]),
        ("PyTorch for CUDA", with_gpu, &[]),
        ("JAX's plugin", with_jax, &[]),
        ("both packages of ONNX Runtime", overwritten, &[]),
        ("a program's minimum", torch_for_cpu, &["--minimum", "9.1"]),
        ("a program's CUDA", torch_for_cpu, &["--cuda", "12"]),
        ("a program's function", torch_for_cpu, &["--function", "cudnnCreate"]),
        ("its hashes", torch_for_cpu, &["--verify"]),
    ] {
        let world = World::new();
        install(&world.venv);
        let (findings, status) = world.check(options);
        let found = find_code(&findings, "C010").unwrap();
        assert_eq!((found["severity"].as_str(), status), (Some("error"), 2), "{name}: {findings:#?}");
    }
    // The user has specified a cuDNN, or has installed a damaged cuDNN.
    let world = World::new();
    torch_for_cpu(&world.venv);
    world.set("CUDNN_LOADER_DIR", world.root.path());
    assert_eq!(world.check(&[]).1, 2);
    let world = World::new();
    torch_for_cpu(&world.venv);
    cudnn_wheel(&world.venv, "9.10.2.21");
    let graph = world.venv.import_dir().join("nvidia/cudnn/lib/libcudnn_graph.so.9");
    std::fs::remove_file(&graph).unwrap();
    std::fs::write(&graph, "").unwrap();
    assert_eq!(world.check(&[]).1, 2);
}
