//! Where a Python environment has its parts: its Python, its packages, those of the user. Linux and Windows differ in each.
//! Reads directories; runs nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::platform::{Os, below, canonicalize};

/// The Python of the environment at this root: `bin/python3`; on Windows `Scripts\python.exe` of a virtual environment,
/// `python.exe` of any other.
pub(super) fn python(root: &Path) -> PathBuf {
    match Os::HOST {
        Os::Linux => root.join("bin/python3"),
        Os::Windows if root.join("pyvenv.cfg").is_file() => below(root, "Scripts/python.exe"),
        Os::Windows => root.join("python.exe"),
    }
}

/// The root of the environment that this Python belongs to, by its path.
pub(super) fn root_of(python: &Path) -> Option<&Path> {
    let dir = python.parent()?;
    match Os::HOST {
        Os::Windows if !dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case("Scripts")) => Some(dir),
        _ => dir.parent(),
    }
}

/// The root of the Python whose directory of programs `pyvenv.cfg` names.
pub(super) fn root_of_home(home: &Path) -> Option<&Path> {
    match Os::HOST {
        Os::Linux => home.parent(),
        Os::Windows => Some(home),
    }
}

/// The directories of modules below the root of an environment, for each Python: `lib/python3.12`, or `Lib`.
pub(super) fn python_dirs(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let (dirs, is_python): (&[&str], fn(&str) -> bool) = match Os::HOST {
        // In most environments lib64 is a link to lib.
        Os::Linux => (&["lib", "lib64"], |name| name.starts_with("python3")),
        Os::Windows => (&[""], |name| name.eq_ignore_ascii_case("Lib")),
    };
    let dirs = dirs.iter().map(|dir| root.join(dir)).filter(|dir| !dir.is_symlink()).collect::<Vec<_>>();
    let entries = dirs.into_iter().flat_map(std::fs::read_dir).flatten().flatten();
    entries.filter(move |entry| is_python(&entry.file_name().to_string_lossy())).map(|entry| entry.path())
}

/// The directories of packages below the root of an environment, or of the user's packages for one Python.
pub fn site_packages(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let of_user = match Os::HOST {
        Os::Linux => None,
        Os::Windows => Some(root.join("site-packages")).filter(|dir| dir.is_dir()),
    };
    let names: &[&str] = match Os::HOST {
        Os::Linux => &["site-packages", "dist-packages"],
        Os::Windows => &["site-packages"],
    };
    of_user.into_iter().chain(python_dirs(root).flat_map(|dir| names.iter().map(move |name| dir.join(name))))
}

/// The name by which this Python's directories are called: `python3.12`; on Windows, where only those of the user's
/// packages have one, `Python312`.
pub(super) fn version_name(python: &Path, root: &Path) -> Option<OsString> {
    match Os::HOST {
        Os::Linux => version_name_on_linux(python, root),
        Os::Windows => version_name_on_windows(root),
    }
}

fn version_name_on_linux(python: &Path, root: &Path) -> Option<OsString> {
    version_of_program(python).or_else(|| {
        let mut names = python_dirs(root).filter_map(|dir| Some(dir.file_name()?.to_owned())).filter(is_version);
        // Which of several it is shows only when it runs.
        names.next().filter(|_| names.next().is_none())
    })
}

/// The version that the name of this Python's file states: `python3.12`.
pub(super) fn version_of_program(python: &Path) -> Option<OsString> {
    Some(canonicalize(python).ok()?.file_name()?.to_owned()).filter(is_version)
}

fn is_version(name: &OsString) -> bool {
    let minor = name.to_str().and_then(|name| name.strip_prefix("python3."));
    minor.is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()))
}

/// By the version that `pyvenv.cfg` states, or by the name of the Python's DLL: `python312.dll`.
fn version_name_on_windows(root: &Path) -> Option<OsString> {
    let settings = settings(root).unwrap_or_default();
    let stated = setting(&settings, "version").or_else(|| setting(&settings, "version_info"));
    let parts = stated.and_then(|version| version.split_once('.'));
    let of_settings = parts.map(|(major, rest)| format!("{major}{}", rest.split('.').next().unwrap_or_default()));
    let of_dll = || {
        let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
        let mut names = entries.filter_map(|entry| Some(entry.file_name().to_str()?.to_ascii_lowercase()));
        // `python3.dll` is for all versions.
        let version = |name: String| Some(name.strip_prefix("python3")?.strip_suffix(".dll")?.to_owned());
        names.find_map(|name| version(name).filter(|minor| !minor.is_empty())).map(|minor| format!("3{minor}"))
    };
    Some(format!("Python{}", of_settings.or_else(of_dll)?).into())
}

/// The directory of the user's packages for all Pythons: `~/.local`, or `%APPDATA%\Python`.
#[must_use]
pub fn user_base() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    variable("PYTHONUSERBASE").or_else(|| match Os::HOST {
        Os::Linux => Some(variable("HOME")?.join(".local")),
        Os::Windows => Some(variable("APPDATA")?.join("Python")),
    })
}

/// The directory of the user's packages (`pip install --user`) for the Python with this name of its version.
pub(super) fn user_site(version_name: &OsString) -> Option<PathBuf> {
    let base = user_base()?;
    Some(match Os::HOST {
        Os::Linux => base.join("lib").join(version_name).join("site-packages"),
        Os::Windows => base.join(version_name).join("site-packages"),
    })
}

/// The text of `pyvenv.cfg`, which a virtual environment has.
pub(super) fn settings(root: &Path) -> Option<String> {
    std::fs::read_to_string(root.join("pyvenv.cfg")).ok()
}

pub(super) fn setting<'a>(settings: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = settings.lines().filter_map(|line| line.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}
