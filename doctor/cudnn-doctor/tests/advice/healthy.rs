//! Checks that `check` prints no warnings or commands for environments without problems, and exits with status 0.

use std::path::Path;

use support::{ExtensionLibrary, FakeNvml};

use crate::frameworks::wheels;
use crate::world::World;

const GLOBAL_DEPS: &str = "torch/lib/libtorch_global_deps.so";

/// Installs PyTorch and the required wheels on a machine with a GPU. PyTorch's run path leads to cuDNN and the CUDA
/// runtime, and the Python code loads NVRTC, which the engines of this cuDNN would fail to find.
fn with_pytorch(world: World) -> World {
    for package in ["torch", "cuda-libraries", "nvidia-cublas-cu12", "nvidia-cudnn-cu12", "nvidia-cuda-nvrtc-cu12"] {
        world.unpack(package);
    }
    let rpath = "$ORIGIN/../../nvidia/cublas/lib:$ORIGIN/../../nvidia/cuda_runtime/lib";
    let deps = ExtensionLibrary::new().with_rpath(rpath).with_soname("libtorch_global_deps.so");
    let deps =
        ["libcublas.so.12", "libcublasLt.so.12", "libcudart.so.12"].iter().fold(deps, |deps, name| deps.needing(name));
    deps.build(&world.site_packages().join(GLOBAL_DEPS));
    let driver = world.home().join("driver");
    std::fs::create_dir(&driver).unwrap();
    FakeNvml { driver: "580.65.06", gpu: "A GPU", compute_capability: (9, 0) }.build(&driver);
    support::compile("", &["-shared", "-nostdlib"], &driver.join("libcuda.so.1"));
    world.variable("LD_LIBRARY_PATH", driver)
}

fn remove_pytorch(world: &World) {
    for dir in ["torch", "torch-2.8.0.dist-info"] {
        std::fs::remove_dir_all(world.site_packages().join(dir)).unwrap();
    }
}

fn check(world: &World) -> (i32, String) {
    let output = world.sh("status=0; cudnn-doctor check --no-load || status=$?; echo \"status $status\"");
    let text = String::from_utf8(output.stdout).unwrap();
    let (text, status) = text.trim_end().rsplit_once("status ").unwrap();
    (status.parse().unwrap(), text.to_owned())
}

#[test]
fn an_environment_where_the_framework_finds_everything_has_no_problems() {
    let world = with_pytorch(World::new("env", true).with_wheels(wheels().path()));
    let findings = world.findings(&[]);
    assert!(findings.is_empty(), "{findings:#?}");
    let (status, text) = check(&world);
    assert_eq!(status, 0, "{text}");
    assert_eq!(text.matches("Nothing is wrong").count(), 1, "{text}");
    assert!(!text.contains("LD_LIBRARY_PATH="), "{text}");
}

/// cudnn-frontend opens the wheel's cuDNN by its path.
fn add_frontend(world: &World) {
    let info = world.site_packages().join("nvidia_cudnn_frontend-1.32.0.dist-info");
    std::fs::create_dir_all(world.site_packages().join("cudnn")).unwrap();
    std::fs::write(world.site_packages().join("cudnn/__init__.py"), "").unwrap();
    ExtensionLibrary::new().build(&world.site_packages().join("cudnn/_compiled_module.so"));
    std::fs::create_dir(&info).unwrap();
    std::fs::write(info.join("METADATA"), "Metadata-Version: 2.1\nName: nvidia-cudnn-frontend\nVersion: 1.32.0\n")
        .unwrap();
    std::fs::write(info.join("RECORD"), "cudnn/__init__.py,,\n").unwrap();
}

/// Other packages of NVIDIA have similar names.
#[test]
fn cudnn_frontend_owns_no_files_of_cudnn() {
    let world = with_pytorch(World::new("env", true).with_wheels(wheels().path()));
    add_frontend(&world);
    let findings = world.findings(&[]);
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn cudnn_frontend_finds_the_wheel_without_a_search_path() {
    let world = with_pytorch(World::new("env", true).with_wheels(wheels().path()));
    remove_pytorch(&world);
    add_frontend(&world);
    let findings = world.findings(&[]);
    assert!(findings.iter().all(|finding| finding["code"] != "C020"), "{findings:#?}");
    std::fs::remove_dir_all(world.site_packages().join("nvidia/cudnn")).unwrap();
    std::fs::remove_dir_all(world.site_packages().join("nvidia_cudnn_cu12-9.19.0.56.dist-info")).unwrap();
    let findings = world.findings(&[]);
    let finding = |code: &str| {
        let finding = findings.iter().find(|finding| finding["code"] == code);
        finding.unwrap_or_else(|| panic!("{code}: {findings:#?}"))
    };
    assert_eq!(finding("C070")["commands"], finding("C010")["commands"]);
    assert!(finding("C070")["commands"].to_string().contains("nvidia-cudnn-cu"), "{findings:#?}");
    assert!(finding("C070")["notes"].to_string().contains("frontend requires no cuDNN"), "{findings:#?}");
}

#[test]
fn a_library_that_the_framework_cannot_find_is_a_warning() {
    let world = with_pytorch(World::new("env", true).with_wheels(wheels().path()));
    let nvrtc = world.site_packages().join("nvidia/cuda_nvrtc");
    let libraries = |below: &str| Path::new(&nvrtc).join("lib").join(below);
    std::fs::remove_file(libraries("libnvrtc-builtins.so.12.9")).unwrap();
    std::fs::remove_file(libraries("libnvrtc.so.12")).unwrap();
    let findings = world.findings(&[]);
    let nvrtc = findings.iter().find(|finding| finding["code"] == "C031").unwrap_or_else(|| panic!("{findings:#?}"));
    assert_eq!(nvrtc["severity"], "warning");
    assert_eq!(check(&world).0, 1);
}

#[test]
fn a_cudnn_that_no_framework_uses_must_be_on_a_search_path() {
    let world = with_pytorch(World::new("env", true).with_wheels(wheels().path()));
    remove_pytorch(&world);
    let findings = world.findings(&[]);
    let found = findings.iter().find(|finding| finding["code"] == "C020").unwrap_or_else(|| panic!("{findings:#?}"));
    assert_eq!(found["severity"], "warning");
}
