//! Where a Python environment has its parts: its Python, its packages, its settings. Linux and Windows differ in each.

use cudnn_probe::facts::{self, PathFacts};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{python_dirs, site_packages};
use cudnn_os::files::below;
use cudnn_probe::{Os, canonicalize};

use super::dirs::{entries, user_base};

/// The Python of the environment at this root, whether it is there or not: `bin/python3`; on Windows `Scripts\python.exe` of
/// a virtual environment, `python.exe` of any other.
pub(crate) fn python_in(root: &Path) -> PathBuf {
    let scripts = below(root, "Scripts/python.exe");
    match Os::HOST {
        Os::Windows if root.join("pyvenv.cfg").leads_to_file() || scripts.leads_to_file() => scripts,
        Os::Windows => root.join("python.exe"),
        _ => root.join("bin/python3"),
    }
}

/// Is this file, or what it is a link to, where this user may not enter? It is not missing.
pub(super) fn is_closed(file: &Path) -> bool {
    facts::metadata(file).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// Does the environment at this root have a Python that this user may not read?
pub(crate) fn has_closed_python(root: &Path) -> bool {
    is_closed(&python_in(root))
}

/// The root of the environment that this Python belongs to, by its path.
pub(super) fn root_of(python: &Path) -> Option<&Path> {
    let dir = python.parent()?;
    match Os::HOST {
        Os::Windows if !dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case("Scripts")) => Some(dir),
        _ => dir.parent(),
    }
}

/// The name by which a Python's directories are called: `python3.12`; on Windows, where only those of the user's packages
/// have one, `Python312`.
pub(super) fn version_name(python: &Path, root: &Path) -> Option<OsString> {
    if Os::HOST == Os::Windows {
        return version_name_on_windows(root);
    }
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
    let stated = setting(root, "version").or_else(|| setting(root, "version_info"));
    let of_settings = stated.map(|version| version.split('.').take(2).collect::<String>());
    let of_dll = || {
        let names = entries(root).filter_map(|file| Some(file.file_name()?.to_str()?.to_ascii_lowercase()));
        // `python3.dll` is for all versions.
        let minor = |name: String| Some(name.strip_prefix("python3")?.strip_suffix(".dll")?.to_owned());
        names.filter_map(minor).find(|minor| !minor.is_empty()).map(|minor| format!("3{minor}"))
    };
    Some(format!("Python{}", of_settings.or_else(of_dll)?).into())
}

/// The directory of the user's packages (`pip install --user`) for the Python with this name of its version.
pub(super) fn user_site(version_name: &OsStr) -> Option<PathBuf> {
    let lib = if Os::HOST == Os::Windows { user_base()? } else { user_base()?.join("lib") };
    Some(lib.join(version_name).join("site-packages"))
}

/// Is this the root of a virtual environment?
pub(super) fn is_virtual(root: &Path) -> bool {
    root.join("pyvenv.cfg").leads_to_file()
}

/// The longest `pyvenv.cfg` that is read.
const MAX_SETTINGS_LEN: u64 = 64 << 10;

/// A setting in the `pyvenv.cfg` of a virtual environment.
pub(super) fn setting(root: &Path, name: &str) -> Option<String> {
    let settings =
        String::from_utf8(cudnn_probe::read_bounded(&root.join("pyvenv.cfg"), MAX_SETTINGS_LEN).ok()?).ok()?;
    let mut pairs = settings.lines().filter_map(|line| line.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// Is pip among the packages of the environment at this root?
pub(super) fn has_pip(root: &Path) -> bool {
    site_packages(root).any(|dir| dir.join("pip").leads_to_dir())
}

/// Can the Python of this environment install its pip? Debian's does so in virtual environments alone.
pub(super) fn has_ensurepip(root: &Path) -> bool {
    let base = match setting(root, "home").map(PathBuf::from) {
        Some(home) if Os::HOST == Os::Windows => Some(home),
        Some(home) => home.parent().map(Path::to_owned),
        None => (!is_virtual(root) && !is_managed(root)).then(|| root.to_owned()),
    };
    let of_base = |base: &Path, dir: PathBuf| match Os::HOST {
        Os::Windows => Some(below(base, "Lib/ensurepip")),
        _ => Some(base.join("lib").join(dir.file_name()?).join("ensurepip")),
    };
    base.is_some_and(|base| python_dirs(root).filter_map(|dir| of_base(&base, dir)).any(|dir| dir.leads_to_dir()))
}

/// Does the distribution forbid pip to change the Python with this root?
pub(super) fn is_managed(root: &Path) -> bool {
    let marks = |dir: PathBuf| match Os::HOST {
        Os::Windows => Some(dir.join("EXTERNALLY-MANAGED")),
        _ => Some(root.join("lib").join(dir.file_name()?).join("EXTERNALLY-MANAGED")),
    };
    !is_virtual(root) && python_dirs(root).filter_map(marks).any(|mark| mark.target_exists())
}

/// What a Python that is no virtual environment lets pip do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BasePython {
    /// Its pip may install packages for it.
    pub(crate) takes_packages: bool,
    /// It has a pip, which can at least fill other directories.
    pub(crate) has_pip: bool,
    /// It can make virtual environments with a pip.
    pub(crate) has_ensurepip: bool,
}

/// What the Python with this root lets pip do.
pub(crate) fn base_python(root: &Path) -> BasePython {
    let (has_pip, has_ensurepip) = (has_pip(root), python_dirs(root).any(|dir| dir.join("ensurepip").leads_to_dir()));
    BasePython { takes_packages: has_pip && !is_managed(root), has_pip, has_ensurepip }
}

/// Is this Debian's Python without the package for its virtual environments?
pub(super) fn lacks_venv(python: &Path) -> bool {
    let root = root_of(python).filter(|root| root.join("lib/python3/dist-packages").leads_to_dir());
    root.is_some_and(|root| {
        let base = base_python(root);
        !base.takes_packages && !base.has_ensurepip
    })
}

/// pip's record of a package.
pub(crate) struct Record {
    /// Normalized: `nvidia-cudnn-cu12`.
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) dir: PathBuf,
}

/// pip's records in a directory of packages, by name.
pub(crate) fn records(dir: &Path) -> Vec<Record> {
    let record = |dir: PathBuf| {
        let (name, version) = dir.file_name()?.to_str()?.strip_suffix(".dist-info")?.rsplit_once('-')?;
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+!".contains(&byte));
        let (name, version) = (is_plain(name) && is_plain(version)).then_some((name, version))?;
        Some(Record { name: normalized(name), version: version.to_owned(), dir: dir.clone() })
    };
    let mut records: Vec<Record> = entries(dir).filter_map(record).collect();
    records.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    records
}

/// The name of a package as requirements have it, whatever form of it a record has.
pub(crate) fn normalized(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}
