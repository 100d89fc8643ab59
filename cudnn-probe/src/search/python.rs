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
    let is_temporary = dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"~"));
    is_temporary && dir.ancestors().skip(1).any(is_package_dir) && dir.leads_to_dir()
}

/// Returns whether this is the directory of packages in an environment, according to the name.
#[must_use]
pub fn is_package_dir(dir: &Path) -> bool {
    let name = dir.file_name().unwrap_or_default();
    name.eq_ignore_ascii_case("site-packages") || name == "dist-packages"
}

/// Returns the root of the environment with this directory of packages: `ROOT/lib/python3.12/site-packages`, on Windows
/// `ROOT/Lib/site-packages`, or `ROOT/site-packages` for the packages of a user.
#[must_use]
pub fn root_of_packages(dir: &Path, os: Os) -> Option<&Path> {
    let is_lib = |dir: &Path| dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case("Lib"));
    let levels = if os == Os::Linux { 3 } else { 1 + usize::from(dir.parent().is_some_and(is_lib)) };
    dir.ancestors().nth(levels)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn settings_of_an_environment_are_read_like_python_does() {
        let root = std::env::temp_dir().join(format!("cudnn probe settings {}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        for (text, home, is_included) in [
            ("home = /usr/bin\r\ninclude-system-site-packages = true\r\n", Some("/usr/bin"), true),
            ("Home=/a = b\nINCLUDE-SYSTEM-SITE-PACKAGES=True\n", Some("/a = b"), true),
            ("home = /a\nhome = /b\ninclude-system-site-packages = false", Some("/b"), false),
            ("homes = /a\n home \n", None, false),
            ("", None, false),
        ] {
            std::fs::write(root.join("pyvenv.cfg"), text).unwrap();
            let found = (setting(&root, "home"), includes_base_packages(&root));
            assert_eq!(found, (home.map(Into::into), is_included), "{text:?}");
        }
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(setting(&root, "home"), None);
    }

    #[test]
    fn packages_have_another_depth_on_windows() {
        for (dir, os, root) in [
            ("env/lib/python3.12/site-packages", Os::Linux, Some("env")),
            ("env/Lib/site-packages", Os::Windows, Some("env")),
            ("Python/Python312/site-packages", Os::Windows, Some("Python/Python312")),
            ("site-packages", Os::Linux, None),
        ] {
            let dir = Path::new(dir);
            assert_eq!((is_package_dir(dir), root_of_packages(dir, os)), (true, root.map(Path::new)), "{dir:?}");
        }
        assert!(!is_package_dir(Path::new("env/lib/python3.12")) && !is_package_dir(Path::new("/")));
    }
}
