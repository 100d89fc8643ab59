//! Runs `cudnn-doctor demo` as a user would, with the GPU hidden.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

use cudnn_probe::{Library, Version};
use support::{FakeLibrary, TempDir, lib_dir};

fn demo(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"))
        .arg("demo")
        .args(arguments)
        .env_clear()
        .env("CUDA_VISIBLE_DEVICES", "")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    (status.code(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

fn check((code, output): (Option<i32>, String), expected: i32, expected_texts: &[&str]) {
    assert_eq!(code, Some(expected), "{output}");
    for text in expected_texts {
        assert!(output.contains(text), "{text:?} is missing: {output}");
    }
}

#[test]
fn demo_fails_if_no_cudnn_is_installed_and_fetching_is_forbidden() {
    let cache = TempDir::new();
    let variables = [("CUDNN_FETCH_CACHE", cache.path().to_str().unwrap())];
    check(
        demo(&["--offline"], &variables),
        3,
        &["No usable cuDNN is installed.", "downloads are disabled; enable them"],
    );
}

#[test]
fn demo_of_a_jit_release_completes_the_steps_that_need_no_gpu() {
    let Some(dir) = lib_dir("jit-cu12-9.19.0") else { return };
    let variables = [("LD_LIBRARY_PATH", dir.to_str().unwrap())];
    let expected_texts = [
        "-> cuDNN 9.19.0 (CUDA 12.9) in",
        "The demo uses the marked one (found: LD_LIBRARY_PATH)",
        "libcudnn_graph.so.9 in ",
        "version 91900",
        "the installation does not include libcudnn_ops.so.9",
        "cudnnBackendCreateDescriptor: ",
        "Everything up to this point works",
    ];
    check(demo(&["--offline"], &variables), 0, &expected_texts);
}

#[test]
fn a_damaged_library_is_an_error_with_help() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let dir = TempDir::links_to(&real);
    let ops = dir.file(Library::Ops);
    FakeLibrary::new(Library::Ops, Version::new(9, 19, 0)).build(&ops);
    let bytes = std::fs::read(&ops).unwrap();
    std::fs::write(&ops, bytes.get(..bytes.len() / 2).unwrap()).unwrap();
    let variables = [("CUDNN_LOADER_DIR", dir.path().to_str().unwrap())];
    check(demo(&[], &variables), 2, &["cannot be called", "is truncated", "help: Run `cudnn-doctor check`"]);
}

#[test]
fn a_rejected_installation_is_shown_with_the_reason() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let broken = TempDir::new();
    std::fs::write(broken.file(Library::Graph), "not a library").unwrap();
    let path = std::env::join_paths([broken.path(), &real]).unwrap();
    let variables = [("LD_LIBRARY_PATH", path.to_str().unwrap())];
    check(demo(&[], &variables), 0, &["rejected: ", "is not an ELF file", "help: ", "-> cuDNN 9.19.0"]);
}

#[test]
fn a_driver_that_lacks_a_function_is_an_error_with_help() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let dir = TempDir::new();
    let code = "int cuInit(int flags) { return 0; } int cuDeviceGetCount(int *count) { *count = 1; return 0; }\n\
                int cuDeviceGet(int *device, int index) { *device = 0; return 0; }";
    let flags = ["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1"];
    support::compile(code, &flags, &dir.path().join("libcuda.so.1"));
    let variables = [("CUDNN_LOADER_DIR", real.to_str().unwrap()), ("LD_LIBRARY_PATH", dir.path().to_str().unwrap())];
    check(demo(&["--offline"], &variables), 2, &["libcuda.so.1 does not export cu", "help: "]);
}
