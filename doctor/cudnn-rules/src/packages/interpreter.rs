//! Recognizes Python interpreters by their file names and first bytes, without running them.

use cudnn_cli::path::path_dirs;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::python_dirs;
use cudnn_probe::facts::{self, PathFacts, is_executable, is_native_program};
use cudnn_probe::{Os, canonicalize};

use super::environment::{is_virtual, root_of};
use super::python_shim;

const NAMES: [&str; 2] = ["python", "pypy"];

/// Returns whether this file starts Python: a native program with an interpreter's name, or a script with such a name
/// in an environment.
pub fn is_python(file: &Path) -> bool {
    let is_environment =
        |root: &Path| is_virtual(root) || root.join("conda-meta").target_exists() || python_dirs(root).next().is_some();
    is_interpreter(file) || file.leads_to_file() && is_named(file) && root_of(file).is_some_and(is_environment)
}

/// Returns whether this file, or the target of this link, is a native program with an interpreter's name. This excludes
/// the scripts of pyenv, asdf and others on `PATH`, which choose a Python based on the working directory and the
/// caller's environment variables, and may find none.
fn is_interpreter(file: &Path) -> bool {
    let real = || canonicalize(file).is_ok_and(|real| is_named(&real));
    is_executable(file) && (is_named(file) || real()) && is_native_program(file)
}

fn is_named(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    // Debian's debug interpreters are called `python3.11-dbg`.
    let name = name.strip_suffix("-dbg").unwrap_or(name);
    // `python3.14t`, `python3.7m`, `pythonw`.
    let is_of_version = |c: char| c.is_ascii_digit() || ".tdmuw".contains(c);
    NAMES.iter().any(|start| name.strip_prefix(start).is_some_and(|rest| rest.chars().all(is_of_version)))
}

/// Returns the interpreters with this name in `PATH` order. A pyenv or asdf script is replaced with the selected
/// Python, or with the newest that the tool has installed. A virtual environment's Python is replaced with the base
/// Python.
pub(super) fn interpreters_on_path(name: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    path_dirs().into_iter().filter_map(move |dir| {
        let file = dir.join(&name);
        if is_interpreter(&file) {
            let is_virtual = Os::HOST != Os::Windows && dir.parent().is_some_and(is_virtual);
            return if is_virtual { canonicalize(&file).ok() } else { Some(file) };
        }
        python_shim::programs(&file).into_iter().find(|program| is_interpreter(program))
    })
}

/// Returns whether this Python links to a file inside an unpacked container image. Such a link works in the container
/// and must not be replaced here.
pub(super) fn is_in_unpacked_image(python: &Path) -> bool {
    const MAX_LINKS: usize = 40;
    if Os::HOST == Os::Windows {
        return false;
    }
    let mut file = python.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = facts::read_link(&file) else { return false };
        if let Ok(below_root) = target.strip_prefix("/") {
            let mut above = python.ancestors().filter(|dir| dir.parent().is_some());
            return above.any(|dir| dir.join(below_root).path_exists());
        }
        let Some(dir) = file.parent() else { return false };
        file = dir.join(target);
    }
    false
}

#[cfg(all(test, unix))]
mod tests;
