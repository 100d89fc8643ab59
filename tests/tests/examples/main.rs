//! Runs the examples of all crates and the tutorial with a real cuDNN, without a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;

use support::root;

mod backend;
mod cpp;
mod crates;
mod tutorial;

/// Builds an example that is linked to the libraries in a directory. `arguments` select it and its features. The
/// profile compiles the crates faster than `dev`, which optimizes some of them.
fn linked(name: &str, arguments: &[&str], lib_dir: &Path) -> PathBuf {
    let target = root().join("target/linking");
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["build", "--quiet", "--profile", "source"])
        .args(arguments)
        .args(["--target", support::TARGET, "--target-dir"])
        .arg(&target)
        .env("CUDNN_SYS_LIB_DIR", lib_dir)
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join(support::TARGET).join("source/examples").join(name)
}
