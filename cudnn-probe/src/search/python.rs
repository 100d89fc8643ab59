//! Finds the environments of Python interpreters by reading files, without running Python.

use std::path::{Path, PathBuf};

use crate::facts::PathFacts;
use crate::platform::Os;

use super::given::included_home;
pub use super::given::{includes_base_packages, setting};
use super::{linux, windows};

/// Returns the environment of a Python interpreter, and whether it is a virtual environment. The environment is the
/// directory above `bin` (on Windows, the directory of the interpreter or the one above `Scripts`) if that is a virtual
/// environment. Otherwise, symbolic links to the interpreter are followed, as Python itself does.
#[must_use]
pub fn environment_of(python: &Path) -> Option<(PathBuf, bool)> {
    match Os::HOST {
        Os::Linux => linux::environment_of(python),
        Os::Windows => windows::environment_of(python),
    }
}

/// Returns the root of the base Python of a virtual environment, if the environment includes packages of the base
/// Python.
#[must_use]
pub fn base_python(environment: &Path) -> Option<PathBuf> {
    let home = included_home(environment)?;
    match Os::HOST {
        Os::Linux => linux::base_of_home(home),
        Os::Windows => windows::base_of_home(home),
    }
}

/// Returns whether pip has given this directory a temporary name, such as `site-packages/~vidia` or
/// `site-packages/nvidia/cudnn/~ib`. pip does so before it removes a directory, and leaves it if it is killed. It does
/// not rename files in this way.
#[must_use]
pub fn is_left_by_pip(dir: &Path) -> bool {
    let is_packages = |above: &Path| above.ends_with("site-packages") || above.ends_with("dist-packages");
    let is_temporary = dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"~"));
    is_temporary && dir.ancestors().skip(1).any(is_packages) && dir.leads_to_dir()
}
