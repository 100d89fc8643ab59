//! Checks the requirements between the packages of an environment, and the directories of those packages.

use cudnn_probe::release_facts::has_library;
use support::{FakeLibrary, Library, PythonEnvironment, Version};

use crate::world::*;

/// The commands of a finding must be for the environment's Python, and for the directory with the packages.
#[test]
fn packages_in_a_plain_directory_are_changed_there_by_the_python_of_the_environment() {
    for by_variable in [true, false] {
        let world = World::new();
        let dir = world.root.path().join("pylibs");
        let packages = PythonEnvironment::at(&dir, "");
        torch(&packages, "2.8.0", "12.8", "9.10.2.21");
        cublas_wheel(&packages);
        if by_variable {
            world.set("PYTHONPATH", &dir);
        } else {
            std::fs::write(world.venv.import_dir().join("libs.pth"), format!("{}\n", dir.display())).unwrap();
        }
        let python = world.venv.root().join("bin/python3");
        let expected = format!(
            "{} -I -m pip install --target {} --upgrade --no-deps nvidia-cudnn-cu12==9.10.2.21 nvidia-cublas-cu12==12.8.4.1",
            python.display(),
            dir.display()
        );
        for code in ["C070", "C073"] {
            assert_eq!(commands(&world, code), [expected.as_str()], "{code}");
        }
        // One package is too old and the other is for a different CUDA version. pip cannot remove packages from this
        // directory, so the step removes the record.
        cudnn_wheel(&packages, "9.1.0.70");
        packages.package("nvidia-cudnn-cu13", "9.13.0.50");
        let record = dir.join("nvidia_cudnn_cu13-9.13.0.50.dist-info").display().to_string();
        let aside = format!(
            "mv {record} {record}.aside-1 && {expected} && rm -r {record}.aside-1 || {{ mv -T {record}.aside-1 {record}; \
             false; }}"
        );
        assert_eq!(commands(&world, "C071"), [aside]);
    }
}

/// JAX compares all numbers of the version.
#[test]
fn jaxlib_must_match_the_version_of_the_plugin() {
    let world = World::new();
    jax(&world.venv, "0.12.0.1", "9.8");
    cuda_wheels(&world.venv);
    cudnn_wheel(&world.venv, "9.10.2.21");
    has(&world, &[]);
    std::fs::remove_dir_all(world.venv.import_dir().join("jaxlib-0.12.0.1.dist-info")).unwrap();
    world.venv.package("jaxlib", "0.12.0");
    has(&world, &[("C073", &["requires jaxlib==0.12.0.1, but 0.12.0 is installed", "install jaxlib==0.12.0.1"])]);
}

#[test]
fn packages_installed_for_one_framework_fit_the_others() {
    let with = |tensorflow_requirement: &str| {
        let world = World::new();
        world.venv.package("torch", "2.6.0").requires("nvidia-cublas-cu12==12.4.5.8");
        world
            .venv
            .package("tensorflow", "2.21.0")
            .requires(&format!("{tensorflow_requirement}; extra == \"and-cuda\""));
        world.venv.package("nvidia-cublas-cu12", "12.8.4.1");
        world
    };
    let texts: &[&str] = &[
        "no nvidia-cublas-cu12 suits both PyTorch 2.6.0 (nvidia-cublas-cu12==12.4.5.8) and TensorFlow 2.21.0 ",
        "\"commands\":[]",
    ];
    has(&with("nvidia-cublas-cu12>=12.5.3.2"), &[("C073", texts)]);
    has(&with("nvidia-cublas-cu12>=12.4"), &[("C073", &["install nvidia-cublas-cu12==12.4.5.8"])]);
    has(&with("nvidia-cufft-cu12>=99"), &[("C073", &["install nvidia-cublas-cu12==12.4.5.8"])]);
}

/// The metadata of CTranslate2 names no CUDA wheels, but another framework's may.
#[test]
fn cuda_wheels_for_one_framework_fit_the_requirements_of_the_others() {
    for (of_tensorflow, expected) in [
        ("nvidia-cublas-cu12==12.4.5.8", "pip install nvidia-cublas-cu12==12.4.5.8"),
        ("nvidia-cublas-cu12<12.9,>=12.5.3.2", "'nvidia-cublas-cu12>=12.5.3.2,<12.9'"),
        ("nvidia-cufft-cu12>=99", "pip install nvidia-cublas-cu12\""),
    ] {
        let world = World::new();
        new_ctranslate2(&world.venv);
        world.venv.package("tensorflow", "2.21.0").requires(&format!("{of_tensorflow}; extra == \"and-cuda\""));
        has(&world, &[("C074", &[expected])]);
    }
}

/// pip would report that the requirement is satisfied.
#[test]
fn another_version_is_removed_from_the_python_path() {
    let world = World::new();
    complete_torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
    let (elsewhere, libs) = (world.root.path().join("elsewhere"), world.root.path().join("libs"));
    cudnn_wheel(&PythonEnvironment::at(&elsewhere, ""), "9.1.0.70");
    std::fs::create_dir(&libs).unwrap();
    for (others, expected) in
        [(None, "unset PYTHONPATH".to_owned()), (Some(&libs), format!("export PYTHONPATH={}", libs.display()))]
    {
        let dirs = [Some(&elsewhere), others].into_iter().flatten();
        world.set("PYTHONPATH", std::env::join_paths(dirs).unwrap());
        assert_eq!(commands(&world, "C073"), [expected]);
    }
}

/// The order of installation matters even if this machine only builds a program for another one.
#[test]
fn a_cpu_build_installed_over_a_gpu_build_is_detected_without_a_gpu() {
    let info = |cuda: &str| format!("package_name = 'onnxruntime{cuda}'\n__version__ = '1.22.0'\n");
    let world = World::new();
    onnxruntime(&world.venv, "1.22.0", "12.8", &[]);
    let file = "onnxruntime/capi/build_and_package_info.py";
    world.venv.package("onnxruntime", "1.22.0").file(file, &info(""));
    let texts: &[&str] = &[
        "ONNX Runtime 1.22.0 is built without GPU support: it has replaced files of onnxruntime-gpu",
        "uninstall --yes onnxruntime",
        "onnxruntime-gpu==1.22.0",
    ];
    has(&world, &[("C079", texts)]);
    // The reverse order, and a single package, are fine.
    world.venv.package("onnxruntime-gpu", "1.22.0").file(file, &format!("{}cuda_version = '12.8'\n", info("-gpu")));
    has(&world, &[]);
    let alone = World::new();
    alone.venv.package("onnxruntime", "1.22.0").file(file, &info(""));
    has(&alone, &[]);
}

#[test]
fn commands_for_a_cudnn_for_another_cuda_version_are_dropped() {
    for has_both in [false, true] {
        let world = World::new();
        torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
        cublas_wheel(&world.venv);
        if has_both {
            world.venv.package("nvidia-cudnn-cu12", "9.10.2.21");
        }
        let mut wheel = world.venv.package("nvidia-cudnn-cu13", "9.19.0.56");
        let version = Version::new(9, 19, 0);
        for library in Library::ALL.iter().filter(|library| has_library(version, **library)) {
            let path = format!("nvidia/cudnn/lib/{}", library.file_name());
            wheel = wheel.cudnn(&path, &FakeLibrary::new(*library, version).with_ptx(9));
        }
        let (findings, _) = world.check(&[]);
        let code = |finding: &serde_json::Value| finding["code"].as_str().unwrap().to_owned();
        assert!(findings.iter().any(|finding| code(finding) == "C030"), "{findings:#?}");
        for finding in findings.iter().filter(|finding| ["C030", "C031"].contains(&code(finding).as_str())) {
            let commands = finding["commands"].to_string();
            assert!(
                !commands.contains("nvidia-cublas==13") && !commands.contains("nvidia-cuda-nvrtc==13"),
                "{finding:#}"
            );
        }
    }
}

/// SGLang also prints `pip install nvidia-cudnn-cu12==9.16.0.29` to users of PyTorch for CUDA 13.
#[test]
fn sglang_gets_a_newer_cudnn_for_the_cuda_of_pytorch() {
    const TOO_OLD: &str = "SGLang 0.5.9 would load cuDNN 9.13.0, but accepts 9.15.0 or newer";
    const NEWER: &str = "install 'nvidia-cudnn-cu13>=9.15.0,<10'";
    const WITHOUT: &str = "uninstall --yes nvidia-cudnn-cu12";
    let world = |sglang: &str| {
        let world = World::new();
        torch_for_cuda_13(&world.venv, "2.9.1", "9.13.0.50");
        if !sglang.is_empty() {
            world.venv.package("sglang", sglang).file("sglang/__init__.py", "");
        }
        world
    };
    has(&world(""), &[]);
    has(&world("0.5.9"), &[("C071", &[TOO_OLD, "warning", "only multimodal models", NEWER])]);
    // Later releases do not compare the cuDNN.
    has(&world("0.5.10"), &[]);
    // The command for CUDA 12 has overwritten the files.
    const OTHER_CUDA: &str = "PyTorch 2.9.1 is built for CUDA 13.0, and would load a cuDNN for CUDA 12";
    for (sglang, install) in [("0.5.9", NEWER), ("", "nvidia-cudnn-cu13==9.13.0.50")] {
        let world = world(sglang);
        cudnn_wheel(&world.venv, "9.16.0.29");
        has(&world, &[("C071", &[OTHER_CUDA, WITHOUT, install])]);
    }
    // A newer cuDNN than PyTorch requires stays installed.
    let world = world("0.5.9");
    std::fs::remove_dir_all(world.venv.import_dir().join("nvidia_cudnn_cu13-9.13.0.50.dist-info")).unwrap();
    cudnn_wheel_for_cuda_13(&world.venv, "9.16.0.29");
    has(&world, &[]);
}

#[test]
fn packages_that_users_of_pytorch_require_are_compared() {
    let world = World::new();
    complete_torch(&world.venv, "2.9.1", "12.8", "9.10.2.21");
    world
        .venv
        .package("flashinfer-python", "0.6.1")
        .requires("nvidia-cudnn-frontend>=1.13.0")
        .file("flashinfer/__init__.py", "");
    let text = "FlashInfer 0.6.1 requires nvidia-cudnn-frontend>=1.13.0, which is not installed";
    has(&world, &[("C073", &[text, "install 'nvidia-cudnn-frontend>=1.13.0'"])]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_build_of_pytorch_with_kernels_for_the_gpu_is_named() {
    const INDEX: &str = "from PyTorch's own package index, by pip with `--index-url`";
    for (version, gpu, capability, expected) in [
        ("2.11.0", "NVIDIA GeForce GTX 1080", (6, 1), "install the build of PyTorch 2.11.0 for CUDA 12.6 (cu126) "),
        ("2.15.0", "Tesla V100", (7, 0), "install PyTorch older than 2.15 in its build for CUDA 12.6 (cu126) "),
    ] {
        let world = World::new();
        world.gpu("580.65.06", gpu, capability);
        torch_for_cuda_13(&world.venv, version, "9.19.0.56");
        has(&world, &[("C076", &[expected, INDEX])]);
    }
}
