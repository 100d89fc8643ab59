//! `cudnn-doctor demo` as a user runs it, with the GPU hidden where there is one.
#![allow(clippy::unwrap_used, reason = "a test says so by panicking")]

use std::process::{Command, Output};

use cudnn_probe::{Library, Version};
use support::{FakeLibrary, TempDir, lib_dir};

/// Runs it in an environment with nothing in it but these variables.
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

fn check((code, said): (Option<i32>, String), expected: i32, words: &[&str]) {
    assert_eq!(code, Some(expected), "{said}");
    for words in words {
        assert!(said.contains(words), "{words:?} is missing: {said}");
    }
}

#[test]
fn with_nothing_installed_and_nothing_to_be_fetched_it_says_so_and_fails() {
    let cache = TempDir::new();
    let variables = [("CUDNN_SHIM_CACHE", cache.path().to_str().unwrap())];
    check(demo(&["--offline"], &variables), 2, &["No cuDNN is installed here.", "fetching is forbidden; allow it"]);
}

#[test]
fn on_a_real_jit_release_it_goes_as_far_as_it_can_without_a_gpu() {
    let Some(folder) = lib_dir("jit-cu12-9.19.0") else { return };
    let variables = [("LD_LIBRARY_PATH", folder.to_str().unwrap())];
    let words = [
        "-> cuDNN 9.19.0 (CUDA 12) in",
        "LD_LIBRARY_PATH comes first in the search",
        "libcudnn_graph.so.9\" in ",
        "version 91900",
        "this installation does not include libcudnn_ops.so.9",
        "cudnnBackendCreateDescriptor: ",
        "so the demo ends here: everything up to this point works",
    ];
    check(demo(&["--offline"], &variables), 0, &words);
}

#[test]
fn a_damaged_library_is_a_failure_with_a_cure() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let folder = TempDir::links_to(&real);
    let ops = folder.file(Library::Ops);
    FakeLibrary::new(Library::Ops, Version::new(9, 19, 0)).build(&ops);
    let bytes = std::fs::read(&ops).unwrap();
    std::fs::write(&ops, bytes.get(..bytes.len() / 2).unwrap()).unwrap();
    let variables = [("CUDNN_LOADER_DIR", folder.path().to_str().unwrap())];
    check(demo(&[], &variables), 2, &["cannot be called", "is truncated", "What to do: Install it again"]);
}

#[test]
fn an_installation_that_is_passed_over_is_shown_with_the_reason() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let broken = TempDir::new();
    std::fs::write(broken.file(Library::Graph), "not a library").unwrap();
    let path = std::env::join_paths([broken.path(), &real]).unwrap();
    let variables = [("LD_LIBRARY_PATH", path.to_str().unwrap())];
    check(
        demo(&[], &variables),
        0,
        &["!! ", "is not an ELF file", "Put the real library in its place", "-> cuDNN 9.19.0"],
    );
}
