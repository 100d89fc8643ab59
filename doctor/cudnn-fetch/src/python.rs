//! Finds the Python that runs pip.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_os::IS_WINDOWS;

pub(crate) const VARIABLE: &str = "PYTHON";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Python {
    pub(crate) program: OsString,
    pub(crate) arguments: &'static [&'static str],
}

impl Python {
    /// Returns the interpreter in the environment variable, or `python3`, or on Windows the result of [`on_windows`].
    /// The command fails to start if Python is missing.
    pub(crate) fn find() -> Self {
        let named = std::env::var_os(VARIABLE).filter(|python| !python.is_empty());
        if let Some(named) = named {
            return Python { program: absolute(named), arguments: &[] };
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = if IS_WINDOWS {
            on_windows(std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect(), Path::is_file)
        } else {
            None
        };
        let name = if IS_WINDOWS { "python" } else { "python3" };
        found.unwrap_or(Python { program: name.into(), arguments: &[] })
    }
}

/// Makes a path absolute, because the child has another working directory. PATH is searched for bare names.
fn absolute(python: OsString) -> OsString {
    let path = PathBuf::from(&python);
    let is_bare = path.parent().is_none_or(|parent| parent.as_os_str().is_empty());
    if is_bare { python } else { std::path::absolute(&path).unwrap_or(path).into_os_string() }
}

/// Returns the Python that a Windows user has installed in these directories of PATH: `python.exe`, or Python's
/// launcher, which finds all versions. `WindowsApps` comes last, because the `python.exe` in it only opens the Store
/// unless the Store's Python is installed.
fn on_windows(dirs: Vec<PathBuf>, is_file: impl Fn(&Path) -> bool) -> Option<Python> {
    let is_of_store = |dir: &PathBuf| dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case("WindowsApps"));
    let (of_store, others): (Vec<PathBuf>, Vec<PathBuf>) = dirs.into_iter().partition(is_of_store);
    let python = |dirs: &[PathBuf], name: &str, arguments: &'static [&'static str]| {
        let file = dirs.iter().map(|dir| dir.join(name)).find(|file| is_file(file))?;
        Some(Python { program: file.into_os_string(), arguments })
    };
    const NAMES: [&str; 2] = ["python.exe", "python3.exe"];
    NAMES
        .iter()
        .find_map(|name| python(&others, name, &[]))
        .or_else(|| python(&others, "py.exe", &["-3"]))
        .or_else(|| python(&of_store, "py.exe", &["-3"]))
        .or_else(|| NAMES.iter().find_map(|name| python(&of_store, name, &[])))
}

/// Returns the requirements for pip, to follow "this needs".
pub(crate) fn requirement() -> &'static str {
    if IS_WINDOWS {
        "Python 3 with pip (python.exe or its launcher py.exe on PATH, or the path of a python.exe in the environment \
         variable PYTHON)"
    } else {
        "python3 with pip"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_windows_the_stores_placeholder_comes_last() {
        let dirs = || ["tools", "Python312", "Windows", "apps/WINDOWSAPPS"].map(PathBuf::from).to_vec();
        for (files, expected) in [
            (&[][..], None),
            (&["Python312/python.exe", "Windows/py.exe", "apps/WINDOWSAPPS/python.exe"], Some("Python312/python.exe")),
            (&["tools/python3.exe", "Python312/python.exe"], Some("Python312/python.exe")),
            (&["tools/python3.exe", "Windows/py.exe"], Some("tools/python3.exe")),
            (&["apps/WINDOWSAPPS/python.exe", "Windows/py.exe"], Some("Windows/py.exe -3")),
            (&["apps/WINDOWSAPPS/python.exe", "apps/WINDOWSAPPS/py.exe"], Some("apps/WINDOWSAPPS/py.exe -3")),
            (&["apps/WINDOWSAPPS/python.exe", "apps/WINDOWSAPPS/python3.exe"], Some("apps/WINDOWSAPPS/python.exe")),
            (&["apps/WINDOWSAPPS/python3.exe", "tools/python.bat"], Some("apps/WINDOWSAPPS/python3.exe")),
        ] {
            let found = on_windows(dirs(), |file| files.iter().any(|known| Path::new(known) == file));
            let expected =
                expected.map(|line| line.strip_suffix(" -3").map_or((line, &[][..]), |file| (file, &["-3"])));
            let found = found.map(|python| (PathBuf::from(python.program), python.arguments));
            assert_eq!(found, expected.map(|(file, arguments)| (PathBuf::from(file), arguments)), "{files:?}");
        }
    }
}
