//! Implements `cargo xtask publish --dry-run`, which performs all steps of a publication on the package index except
//! the upload. Works on a copy of the checkout with the package names for the index.

mod copy;
mod index;
mod manifest;
mod report;
mod unpacked;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::workspace::root;

/// The packages whose name belongs to another project on the index, and their names there. The library name, the
/// directory and the package name in the repository stay the same.
const RENAMED: [(&str, &str); 1] = [("cudnn-sys", "cudnn-shim-sys")];

/// Packages, checks and builds all publishable packages, and prints the decisions that a person must make first.
pub(crate) fn dry_run(repository: Option<&str>) -> Result<()> {
    let root = root()?;
    let dir = root.join("target/publish");
    let workspace = dir.join("workspace");
    copy::checkout(&root, &workspace)?;
    for (name, name_there) in RENAMED {
        manifest::rename(&workspace, name, name_there)?;
    }
    let packages = manifest::packages(&workspace)?;
    if let Some(repository) = repository {
        manifest::set_repository(&packages, repository)?;
    }
    let faults: Vec<String> = packages.iter().flat_map(manifest::Package::faults).collect();
    if !faults.is_empty() {
        return Err(format!("the index needs more of these packages:\n  {}", faults.join("\n  ")).into());
    }
    for package in &packages {
        index::check_name(&package.name, repository)?;
    }
    let target = dir.join("target");
    unpacked::remove(&packages, &target)?;
    publish(&workspace, &target)?;
    report::print(&packages, &workspace, repository);
    Ok(())
}

/// Lets cargo package every package, and build it from the packaged dependencies in order. Uploads nothing.
fn publish(workspace: &Path, target: &Path) -> Result<()> {
    let mut command = cargo();
    command.current_dir(workspace);
    // At least the names in the copy differ from the commit.
    command.args(["publish", "--workspace", "--dry-run", "--allow-dirty", "--target-dir"]).arg(target);
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo publish --workspace --dry-run failed: {status}").into()) }
}

/// The cargo that runs this program.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from));
    // These variables describe this program, and would redirect its children.
    command.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_MANIFEST_DIR");
    command
}

/// Returns a command's output.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
