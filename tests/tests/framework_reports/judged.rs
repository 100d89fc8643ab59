//! Checks the doctor's output for intact environments, and for attempts to mislead the doctor.

use std::path::Path;
use std::process::Command;

use cudnn_probe::release_facts::has_library;
use serde_json::Value;
use support::{ExtensionLibrary, FakeLibrary, Library, PythonEnvironment, Version};

use crate::world::*;

/// This applies with and without a GPU.
#[test]
fn the_doctor_reports_nothing_in_an_intact_environment() {
    let world = World::new();
    complete_torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
    jax(&world.venv, "0.8.3", "9.8");
    cuda_wheels(&world.venv);
    world.gpu("580.65.06", "NVIDIA H200", (9, 0));
    // This version does not use cuDNN.
    new_ctranslate2(&world.venv);
    // These packages use PyTorch's cuDNN.
    world.venv.package("vllm", "0.14.0").file("vllm/__init__.py", "");
    world.venv.package("flashinfer-python", "0.6.1").file("flashinfer/__init__.py", "");
    ExtensionLibrary::new().with_soname("libcublas.so.12").build(&world.root.path().join("driver/libcublas.so.12"));
    let document: Value = serde_json::from_str(&world.doctor(&["--json"])).unwrap();
    let environment = &document["environments"][0];
    assert_eq!(environment["findings"], Value::Array(Vec::new()), "{document:#}");
    let ids: Vec<&str> =
        environment["frameworks"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["torch", "jax", "ctranslate2", "vllm", "flashinfer"]);
    for user in &environment["frameworks"].as_array().unwrap()[3..] {
        assert_eq!(user["uses_cudnn_of"], "torch", "{user:#}");
        assert_eq!(user["loads"], environment["frameworks"][0]["loads"], "{user:#}");
    }
    assert_eq!(environment["frameworks"][0]["loads"][0]["version"], V9_10_2.to_string(), "{document:#}");
}

#[test]
fn the_cudnn_that_the_drop_in_loads_is_checked() {
    let torch_with = |fill: &dyn Fn(&Path)| {
        let world = World::new();
        complete_torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
        let dir = world.venv.import_dir().join("nvidia/cudnn/lib");
        fill(&dir);
        drop_in(&dir);
        world
    };
    let refill = |dir: &Path, version: Version, ptx: u16| {
        std::fs::remove_dir_all(dir).unwrap();
        std::fs::create_dir_all(dir).unwrap();
        for library in Library::ALL.iter().filter(|library| has_library(version, **library)) {
            FakeLibrary::new(*library, version).with_ptx(ptx).build(&dir.join(library.file_name()));
        }
    };
    has(&torch_with(&|_| {}), &[]);
    let older = torch_with(&|dir| refill(dir, V9_1_0, 8));
    let texts: &[&str] = &["would load cuDNN 9.1.0", "install --force-reinstall", "install the drop-in again"];
    has(&older, &[("C071", texts)]);
    let other_cuda = torch_with(&|dir| refill(dir, V9_10_2, 9));
    has(&other_cuda, &[("C071", &["would load a cuDNN for CUDA 13", "selected by the drop-in"])]);
    let named = torch_with(&|_| {});
    named.set("CUDNN_LOADER_DIR", named.cudnn("older", V9_1_0));
    has(&named, &[("C071", &["would load cuDNN 9.1.0", "unset CUDNN_LOADER_DIR"])]);
    // LD_PRELOAD names the drop-in, and cuDNN is missing.
    let none = World::new();
    torch(&none.venv, "2.8.0", "12.8", "9.10.2.21");
    cublas_wheel(&none.venv);
    let preload = none.root.path().join("preload");
    drop_in(&preload);
    none.set("LD_PRELOAD", preload.join("libcudnn.so.9"));
    let texts: &[&str] = &["would not find libcudnn_graph.so.9", "install nvidia-cudnn-cu12==9.10.2.21"];
    has(&none, &[("C070", texts), ("C073", &[])]);
}

/// A virtual environment imports the base Python's PyTorch, which has a run path outside the virtual environment.
#[test]
fn cudnn_is_installed_in_a_directory_that_the_framework_searches() {
    let world = World::new();
    let base = PythonEnvironment::at(&world.root.path().join("base"), "lib/python3.12/site-packages").python3().pip();
    PythonEnvironment::venv_of(world.venv.root(), base.root(), true);
    torch(&base, "2.8.0", "12.8", "9.10.2.21");
    cudnn_wheel(&base, "9.1.0.70");
    cublas_wheel(&base);
    let command = format!("{}/pip install nvidia-cudnn-cu12==9.10.2.21", base.import_dir().display());
    has(&world, &[("C071", &[&command]), ("C073", &[&command])]);
}

/// This user may not read another user's Python. Recreating the environment would remove its packages.
#[test]
fn a_python_that_this_user_may_not_read_is_not_missing() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let world = World::new();
    let closed = PythonEnvironment::at(&world.root.path().join("closed"), "lib/python3.12/site-packages").python3();
    let python = world.venv.root().join("bin/python3");
    std::fs::remove_file(&python).unwrap();
    symlink(closed.root().join("bin/python3"), &python).unwrap();
    torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
    cudnn_wheel(&world.venv, "9.1.0.70");
    cublas_wheel(&world.venv);
    let mode = |dir: &Path, mode: u32| std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(world.root.path(), 0o755);
    mode(closed.root(), 0);
    let mut command = Command::new(support::doctor());
    command.arg("frameworks").arg(world.venv.root()).env_clear();
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    mode(closed.root(), 0o700);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("C071") && text.contains("this user may not read the Python of"), "{output:?}");
    assert!(!text.contains("rm -") && !text.contains("-m venv"), "{text}");
    let pip = format!("sudo {} -I -m pip install nvidia-cudnn-cu12==9.10.2.21", python.display());
    assert_eq!(text.contains(&pip), is_root, "{text}");
}

/// ONNX Runtime requires no cuDNN in its metadata, but a cuDNN for another CUDA version would break it.
#[test]
fn suggested_commands_for_a_program_do_not_break_a_framework() {
    let world = World::new();
    onnxruntime(&world.venv, "1.31.1", "13.0", &["libcudnn.so.9"]);
    cudnn_wheel_for_cuda_13(&world.venv, "9.19.0.56");
    let about = |options: &[&str]| {
        let (findings, _) = world.check(options);
        let found = findings.into_iter().find(|finding| finding["code"] == "C018").unwrap();
        (found["help"].as_str().unwrap().to_owned(), found["commands"].as_array().unwrap().len())
    };
    let (help, commands) = about(&["--cuda", "12"]);
    assert!(help.contains("ONNX Runtime 1.31.1 in this environment is built for another CUDA"), "{help}");
    assert_eq!(commands, 0, "{help}");
    // A newer release for the same CUDA version is compatible.
    assert_ne!(about(&["--minimum", "9.28"]).1, 0);
}

/// PyTorch requires a cuDNN that is too old for TensorFlow, but also works with a newer release.
#[test]
fn a_newer_cudnn_that_another_framework_needs_is_kept() {
    let world = World::new();
    torch(&world.venv, "2.5.1", "12.4", "9.1.0.70");
    cublas_wheel(&world.venv);
    tensorflow(&world.venv, "2.18.1", "9.3.0.75");
    cudnn_wheel(&world.venv, "9.3.0.75");
    has(&world, &[]);
    let document: Value = serde_json::from_str(&world.doctor(&["--json"])).unwrap();
    let found = &document["environments"][0]["findings"];
    assert_eq!((&found[0]["code"], &found[0]["severity"]), (&"C073".into(), &"note".into()), "{found:#}");
    for part in ["requires nvidia-cudnn-cu12==9.1.0.70, but 9.3.0.75 is installed", "keep it: another framework"] {
        assert!(found.to_string().contains(part), "{part}: {found:#}");
    }
    assert_eq!(commands(&world, "C073"), Vec::<String>::new());
}
