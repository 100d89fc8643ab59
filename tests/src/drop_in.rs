//! Builds the drop-in library with `cargo xtask dist`, and C programs that link to it or to NVIDIA's shim.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::compiler::{c_compiler, cpp_compiler, run_compiler};
use crate::{TempDir, cross_target, lib_dir, xtask};

/// Returns the directory that `cargo xtask dist` builds, with `lib/libcudnn.so.9` in it. `CUDNN_TESTS_PROFILE=dist`
/// selects the library of a release. The default is the library of `pip install .`, which compiles faster.
pub fn drop_in() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let profile = || std::env::var("CUDNN_TESTS_PROFILE").unwrap_or_else(|_| "source".into());
    BUILT.get_or_init(|| drop_in_of_profile(&profile())).clone()
}

/// Returns the directory that `cargo xtask dist` builds in this profile.
pub fn drop_in_of_profile(profile: &str) -> PathBuf {
    let output = xtask().args(["dist", "--profile", profile]).args(cross_target()).output().unwrap();
    assert!(output.status.success(), "cargo xtask dist: {}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

/// Returns a directory that contains only the drop-in library.
pub fn drop_in_alone() -> TempDir {
    let dir = TempDir::new();
    put_drop_in(dir.path());
    dir
}

/// Copies the drop-in library to a directory, where it replaces NVIDIA's shim.
pub fn put_drop_in(dir: &Path) {
    let file = dir.join("libcudnn.so.9");
    let _ = std::fs::remove_file(&file);
    std::fs::copy(drop_in().join("lib/libcudnn.so.9"), file).unwrap();
}

/// Compiles one of `tests/clients` against NVIDIA's headers and links it to the `libcudnn.so.9` of a directory. Returns
/// `None` if the headers are not available.
pub fn client(source: &str, linked_to: &Path, flags: &[&str]) -> Option<TempDir> {
    // These headers belong to a release with libcudnn_ext.so.9.
    let include = lib_dir("jit-cu13-9.27.0")?.join("../include");
    // The few CUDA types that cuDNN's headers need.
    let cuda = concat!(env!("CARGO_MANIFEST_DIR"), "/../headers/cuda");
    let dir = TempDir::new();
    let mut compiler = if source.ends_with(".cpp") { cpp_compiler() } else { c_compiler() };
    compiler
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(source))
        .args(["-Wall", "-Werror", "-Wno-deprecated-declarations", "-Wno-cast-function-type", "-O1", "-o"])
        .arg(dir.path().join("client"))
        .arg("-I")
        .arg(include)
        .arg("-isystem")
        .arg(cuda)
        .arg("-L")
        .arg(linked_to)
        .args(["-l:libcudnn.so.9", "-ldl", "-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-in-shared-libs"])
        .args(flags);
    run_compiler(&mut compiler);
    Some(dir)
}
