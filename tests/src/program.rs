//! Builds programs of this workspace for tests outside their packages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::cross_target;

/// With `CUDNN_TESTS_BUILT=1`, tests assume that `cargo test --workspace --no-run` has built this checkout, and use the
/// programs next to them. Otherwise cargo builds every program, which compiles shared crates again with fewer features.
const BUILT_VARIABLE: &str = "CUDNN_TESTS_BUILT";

/// Returns the program `cudnn-doctor`, built in the same profile as this test.
///
/// # Panics
/// Panics if the build fails.
#[must_use]
pub fn doctor() -> PathBuf {
    program("cudnn-doctor", "bin", "cudnn-doctor", "cudnn-doctor")
}

/// Returns the program `cudnn-lab`, built in the same profile as this test.
///
/// # Panics
/// Panics if the build fails.
#[must_use]
pub fn lab() -> PathBuf {
    program("cudnn-lab", "bin", "cudnn-lab", "cudnn-lab")
}

/// Returns an example of a package, built in the same profile as this test.
///
/// # Panics
/// Panics if the build fails.
#[must_use]
pub fn example(package: &str, name: &str) -> PathBuf {
    program(package, "example", name, name)
}

/// Returns an example that is a shared library, like [`example`].
///
/// # Panics
/// Panics if the build fails.
#[must_use]
pub fn example_library(package: &str, name: &str) -> PathBuf {
    program(package, "example", name, &format!("lib{name}.so"))
}

/// Returns the command `cargo xtask` for a checkout. The command runs on the host even if the tests are built for
/// another machine.
#[must_use]
pub fn xtask(checkout: &Path) -> Command {
    let mut command = if is_built() && cross_target().is_empty() {
        let mut xtask = Command::new(profile_dir().join("xtask"));
        // cargo sets this variable for the programs that it runs.
        xtask.env("CARGO_MANIFEST_DIR", checkout.join("xtask"));
        xtask
    } else {
        let mut cargo = cargo();
        cargo.args(["run", "--quiet", "--package", "xtask", "--"]);
        cargo
    };
    // Flags for coverage, for example, would change the result.
    command.current_dir(checkout).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command
}

/// Returns the root of this checkout.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn is_built() -> bool {
    std::env::var_os(BUILT_VARIABLE).is_some_and(|value| value == "1")
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns the directory with the programs of this build, for example `target/debug`.
fn profile_dir() -> PathBuf {
    // The test is in `target/debug/deps`.
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}

/// Returns the file of a program or example of a package. cargo builds it once per process.
fn program(package: &str, kind: &str, name: &str, file: &str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let build = || {
        let dir = profile_dir();
        if !is_built() {
            // The profile `dev` builds into `debug`.
            let profile = if dir.ends_with("release") { "release" } else { "dev" };
            let target_dir = dir.ancestors().nth(1 + cross_target().len() / 2).unwrap();
            let mut cargo = cargo();
            cargo.args(["build", "--quiet", "--package", package, &format!("--{kind}"), name, "--profile", profile]);
            cargo.args(cross_target()).arg("--target-dir").arg(target_dir);
            // The arguments name the target.
            let output = cargo.env_remove("CARGO_BUILD_TARGET").current_dir(root()).output().expect("cargo starts");
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let program = dir.join(if kind == "example" { "examples" } else { "" }).join(file);
        assert!(program.is_file(), "{} is missing; unset {BUILT_VARIABLE}", program.display());
        program
    };
    built.entry(name.to_owned()).or_insert_with(build).clone()
}
