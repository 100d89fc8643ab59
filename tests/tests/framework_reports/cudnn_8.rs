//! Checks frameworks for the unsupported cuDNN 8, for which commands must never install cuDNN 9.

use serde_json::Value;
use support::{ExtensionLibrary, PythonEnvironment};

use crate::world::*;

fn torch_2_3(venv: &PythonEnvironment) {
    let rpath = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cublas/lib:$ORIGIN";
    let library = ExtensionLibrary::new().with_rpath(rpath).needing("libcudnn.so.8").needing("libcublas.so.12");
    venv.package("torch", "2.3.1")
        .requires("nvidia-cudnn-cu12 (==8.9.2.26) ; platform_system == \"Linux\"")
        .requires("nvidia-cublas-cu12 (==12.8.4.1) ; platform_system == \"Linux\"")
        .file("torch/version.py", "__version__ = '2.3.1+cu121'\ncuda: Optional[str] = '12.1'\n")
        .library("torch/lib/libtorch_cuda.so", &library);
    cublas_wheel(venv);
}

fn cudnn_8_wheel(venv: &PythonEnvironment) {
    let mut package = venv.package("nvidia-cudnn-cu12", "8.9.2.26");
    for part in ["", "_ops_infer", "_ops_train", "_cnn_infer", "_cnn_train", "_adv_infer", "_adv_train"] {
        let name = format!("libcudnn{part}.so.8");
        package = package.library(
            &format!("nvidia/cudnn/lib/{name}"),
            &ExtensionLibrary::new().with_soname(&name).with_rpath("$ORIGIN"),
        );
    }
}

fn found(world: &World, code: &str) -> Value {
    let (findings, _) = world.check(&[]);
    findings.into_iter().find(|finding| finding["code"] == code).unwrap_or_else(|| panic!("no {code}"))
}

#[test]
fn a_framework_with_its_cudnn_8_is_not_broken() {
    let world = World::new();
    torch_2_3(&world.venv);
    cudnn_8_wheel(&world.venv);
    has(&world, &[]);
    let c010 = found(&world, "C010");
    assert_eq!(c010["severity"], "note", "{c010:#}");
    for part in ["the frameworks here need cuDNN 8: PyTorch 2.3.1", "this project only supports cuDNN 9"] {
        assert!(c010.to_string().contains(part), "{part}: {c010:#}");
    }
    let (findings, _) = world.check(&[]);
    assert!(findings.iter().all(|finding| !finding["commands"].to_string().contains("cudnn")), "{findings:#?}");
}

/// Afterwards, there is no cuDNN 9 that could open NVRTC.
#[test]
fn a_plan_that_replaces_cudnn_9_by_cudnn_8_does_nothing_for_cudnn_9() {
    let world = World::new();
    torch_2_3(&world.venv);
    cudnn_wheel(&world.venv, "9.10.2.21");
    let site = world.venv.import_dir();
    let entries = std::fs::read_dir(site.join("nvidia/cudnn/lib")).unwrap().map(|entry| entry.unwrap().file_name());
    let record: String = entries.map(|name| format!("nvidia/cudnn/lib/{},,\n", name.display())).collect();
    std::fs::write(site.join("nvidia_cudnn_cu12-9.10.2.21.dist-info/RECORD"), record).unwrap();
    let (findings, _) = world.check(&[]);
    let code = |finding: &Value| finding["code"].as_str().unwrap().to_owned();
    assert!(findings.iter().any(|finding| code(finding) == "C031"), "{findings:#?}");
    for finding in findings.iter().filter(|finding| ["C030", "C031", "C032", "C070"].contains(&code(finding).as_str()))
    {
        let commands = finding["commands"].to_string();
        assert!(commands.contains("nvidia-cudnn-cu12==8.9.2.26"), "{finding:#}");
        assert!(!commands.contains("nvrtc") && !commands.contains("LD_LIBRARY_PATH"), "{finding:#}");
    }
}

#[test]
fn a_framework_without_its_cudnn_8_keeps_its_pin() {
    const PIN: &str = "pip install nvidia-cudnn-cu12==8.9.2.26";
    let texts: &[&str] = &["libcudnn.so.8", PIN, "PyTorch 2.4.0 or newer", "which this project does not support"];
    let world = World::new();
    torch_2_3(&world.venv);
    has(&world, &[("C070", texts), ("C073", &["requires nvidia-cudnn-cu12==8.9.2.26, which is not installed", PIN])]);
    assert_eq!(found(&world, "C010")["severity"], "note");
    cudnn_wheel(&world.venv, "9.10.2.21");
    has(&world, &[("C070", texts), ("C073", &["requires nvidia-cudnn-cu12==8.9.2.26, but 9.10.2.21", PIN])]);
}

#[test]
fn conflicting_cudnn_majors_are_reported_with_compatible_releases() {
    let world = World::new();
    torch_2_3(&world.venv);
    cudnn_8_wheel(&world.venv);
    ctranslate2(&world.venv, "4.5.0", "libcudnn-74a4c495.so.9.1.0");
    let texts = [
        "no cuDNN suits both PyTorch 2.3.1 (nvidia-cudnn-cu12==8.9.2.26) and CTranslate2 4.5.0",
        "torch>=2.4.0, which is built for cuDNN 9",
        "ctranslate2<4.5.0, which is built for cuDNN 8",
    ];
    for code in ["C070", "C010"] {
        let found = found(&world, code);
        assert!(texts.iter().all(|text| found["help"].as_str().unwrap().contains(text)), "{code}: {found:#}");
        assert_eq!(found["commands"].as_array().unwrap().len(), 0, "{code}: {found:#}");
    }
}
