//! Locates the Python, the packages and the settings of a Python environment on Linux and Windows.

use cudnn_probe::facts::{self, PathFacts};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cudnn_frameworks::PackageRecord;
pub(super) use cudnn_frameworks::installation::is_virtual;
use cudnn_frameworks::installation::{python_dirs, python_name, site_packages};
use cudnn_os::files::below;
use cudnn_probe::Os;
use cudnn_probe::python::includes_base_packages;

/// Returns the path of the environment's Python, even if the file is missing: `bin/python3` on Linux. On Windows,
/// `Scripts\python.exe` in a virtual environment and `python.exe` in all others.
pub fn python_in(root: &Path) -> PathBuf {
    let scripts = below(root, "Scripts/python.exe");
    match Os::HOST {
        Os::Windows if is_virtual(root) || scripts.leads_to_file() => scripts,
        Os::Windows => root.join("python.exe"),
        _ => root.join("bin/python3"),
    }
}

/// Returns whether permissions hide this file, or the target of this link. Such a file is not missing.
pub(super) fn is_closed(file: &Path) -> bool {
    facts::metadata(file).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

pub(crate) fn has_closed_python(root: &Path) -> bool {
    is_closed(&python_in(root))
}

pub(super) fn root_of(python: &Path) -> Option<&Path> {
    let dir = python.parent()?;
    match Os::HOST {
        Os::Windows if !dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case("Scripts")) => Some(dir),
        _ => dir.parent(),
    }
}

/// Returns the directory of packages in a virtual environment that this Python creates. `None` if the version of the
/// Python is not known.
pub(crate) fn site_of_new(environment: &Path, program: &Path) -> Option<PathBuf> {
    let version = python_name(program, root_of(program)?)?;
    Some(environment.join("lib").join(version).join("site-packages"))
}

/// Returns the directory where pip installs packages for this Python if it is Debian's: below `/usr/local` for `/usr`.
pub(super) fn debian_dir(program: &Path, root: &Path) -> Option<PathBuf> {
    let is_of_debian = !is_virtual(root) && root.join("lib/python3/dist-packages").leads_to_dir();
    let version = python_name(program, root).filter(|_| is_of_debian)?;
    Some(root.join("local/lib").join(version).join("dist-packages"))
}

/// Returns whether the Python at this root imports the user's packages. Virtual environments rarely do.
pub fn imports_user_packages(root: &Path) -> bool {
    !is_virtual(root) || includes_base_packages(root)
}

pub(super) fn has_pip(root: &Path) -> bool {
    site_packages(root).any(|dir| dir.join("pip").leads_to_dir())
}

/// Returns whether the distribution forbids pip to change this Python (`EXTERNALLY-MANAGED`).
pub(super) fn is_managed(root: &Path) -> bool {
    let marks = |dir: PathBuf| match Os::HOST {
        Os::Windows => Some(dir.join("EXTERNALLY-MANAGED")),
        _ => Some(root.join("lib").join(dir.file_name()?).join("EXTERNALLY-MANAGED")),
    };
    !is_virtual(root) && python_dirs(root).filter_map(marks).any(|mark| mark.target_exists())
}

pub(crate) fn has_invalid_metadata(record: &PackageRecord) -> bool {
    const MAX_LEN: u64 = 4 << 20;
    let metadata = cudnn_probe::read_bounded(&record.path.join("METADATA"), MAX_LEN);
    metadata.is_ok_and(|metadata| std::str::from_utf8(&metadata).is_err())
}
