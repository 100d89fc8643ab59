//! Breaks environments, follows the doctor's plan, and checks that all problems are solved. pip, uv, apt-get and dpkg
//! are the real ones. Most wheels are small stand-ins with NVIDIA's names.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod debian;
mod frameworks;
mod page;
mod pythons;
mod real;
mod shells;
mod situation;
mod uv;
mod venv;
mod wheels;
#[path = "../advice/world.rs"]
#[allow(dead_code, reason = "the other tests of the advice use all of it")]
mod world;

use std::path::{Path, PathBuf};

/// Holds a directory that all tests of this program share.
type Shared = std::sync::OnceLock<support::TempDir>;

/// Returns the files below a directory with their contents.
fn digest(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else {
                files.push((entry.path(), std::fs::read(entry.path()).unwrap_or_default()));
            }
        }
    }
    files.sort();
    files
}
