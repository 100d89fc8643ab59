//! Builds programs of this workspace for tests outside their packages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use crate::cross_target;

/// Returns the program `cudnn-doctor`, built in the same profile as this test.
pub fn doctor() -> PathBuf {
    program("cudnn-doctor", "bin", "cudnn-doctor", "cudnn-doctor")
}

/// Returns the program `cudnn-lab`, built in the same profile as this test.
pub fn lab() -> PathBuf {
    program("cudnn-lab", "bin", "cudnn-lab", "cudnn-lab")
}

/// Returns an example of a package, built in the same profile as this test.
pub fn example(package: &str, name: &str) -> PathBuf {
    program(package, "example", name, name)
}

/// Returns an example that is a shared library, like [`example`].
pub fn example_library(package: &str, name: &str) -> PathBuf {
    program(package, "example", name, &format!("lib{name}.so"))
}

/// Returns the command `cargo xtask`, which runs on the host even if the tests are for a different machine.
pub fn xtask() -> Command {
    let mut command = if cross_target().is_empty() {
        let mut xtask = Command::new(program("xtask", "bin", "xtask", "xtask"));
        // cargo sets this variable for the programs that it runs.
        xtask.env("CARGO_MANIFEST_DIR", root().join("xtask"));
        xtask
    } else {
        let mut cargo = cargo();
        cargo.args(["run", "--quiet", "--package", "xtask", "--"]);
        cargo
    };
    // Flags, for example for coverage, would change the result.
    command.current_dir(root()).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command
}

/// Returns the root of this checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns the directory with the programs of this build, such as `target/debug`.
pub(crate) fn profile_dir() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}

/// Returns the file of a program or example of a package. `cargo test --workspace` builds all of them. cargo rebuilds
/// an outdated one once per process, which compiles shared crates again with fewer features.
fn program(package: &str, kind: &str, name: &str, file: &str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let build = || {
        let dir = profile_dir();
        let program = dir.join(if kind == "example" { "examples" } else { "" }).join(file);
        if is_current(&program) {
            return program;
        }
        // The profile `dev` builds into `debug`.
        let profile = if dir.ends_with("release") { "release" } else { "dev" };
        let target_dir = dir.ancestors().nth(1 + cross_target().len() / 2).unwrap();
        let mut cargo = cargo();
        cargo.args(["build", "--quiet", "--package", package, &format!("--{kind}"), name, "--profile", profile]);
        cargo.args(cross_target()).arg("--target-dir").arg(target_dir);
        // The arguments name the target.
        let output = cargo.env_remove("CARGO_BUILD_TARGET").current_dir(root()).output().expect("cargo starts");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        program
    };
    built.entry(name.to_owned()).or_insert_with(build).clone()
}

/// Returns whether a program is newer than all possible inputs.
fn is_current(program: &Path) -> bool {
    static NEWEST: LazyLock<SystemTime> = LazyLock::new(|| newest(&root()));
    let built = std::fs::metadata(program).and_then(|metadata| metadata.modified());
    built.is_ok_and(|built| built > *NEWEST)
}

const OTHER_DIRS: [&str; 6] = ["benches", "book", "docs", "python", "target", "tests"];

/// Returns the time of the last change below a directory, without pages and other files that are not inputs.
fn newest(dir: &Path) -> SystemTime {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let name = entry.file_name().into_string().unwrap_or_default();
        if metadata.is_dir() && !OTHER_DIRS.contains(&name.as_str()) && (name == ".cargo" || !name.starts_with('.')) {
            newest = newest.max(self::newest(&entry.path()));
        } else if metadata.is_file() && !name.ends_with(".md") && !name.ends_with(".pyc") {
            newest = newest.max(metadata.modified().unwrap());
        }
    }
    newest
}
