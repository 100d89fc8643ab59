//! Locates the packages of an environment. On Windows, the Python program, its DLL and `Lib` are in the root, but the
//! program of a virtual environment is in `Scripts`.

use cudnn_probe::facts::{PathFacts, canonicalize, entries_named};
use std::path::{Path, PathBuf};

use cudnn_probe::python::setting;
use cudnn_probe::{Host, Os};

use crate::files::file_name;

pub(super) struct Python {
    pub(super) minor: u32,
    /// The directory name: `python3.12`, `python3.13t` for a free-threaded build, or `Python312` on Windows.
    pub(super) dir_name: String,
}

impl Python {
    /// Finds the Python of the environment at this root, by the settings or the program. Otherwise, this is the newest
    /// Python with a directory.
    pub(super) fn at(root: &Path, os: Os) -> Option<Self> {
        let stated = stated_minor(root);
        if os == Os::Windows {
            // The root of the user's packages names the version: `%APPDATA%\Python\Python312`.
            let of_name = || file_name(root).strip_prefix("Python3")?.parse().ok();
            return Some(Self::on_windows(stated.or_else(|| minor_of_dll(root)).or_else(of_name)?));
        }
        let dirs = ["lib", "lib64", "local/lib"].map(|lib| root.join(lib));
        let pythons = dirs.iter().flat_map(|dir| entries_named(dir, "Python", is_of_python));
        let stated = stated.or_else(|| Some(Self::from_program(&root.join("bin/python3"), os)?.minor));
        // If there are directories for several Pythons, the settings or the link decide.
        let pythons = pythons.filter_map(|dir| Self::named(file_name(&dir)));
        pythons.max_by_key(|python| (Some(python.minor) == stated, python.minor))
    }

    /// Returns the version of a Python program from the name, or on Windows from the DLL next to it.
    pub(super) fn from_program(program: &Path, os: Os) -> Option<Self> {
        let program = cudnn_probe::canonicalize(program).ok()?;
        if os == Os::Windows {
            minor_of_dll(program.parent()?).map(Self::on_windows)
        } else {
            Self::named(file_name(&program))
        }
    }

    fn on_windows(minor: u32) -> Self {
        Python { minor, dir_name: format!("Python3{minor}") }
    }

    fn named(dir_name: &str) -> Option<Self> {
        let minor = dir_name.strip_prefix("python3.")?.trim_end_matches('t').parse().ok()?;
        Some(Python { minor, dir_name: dir_name.to_owned() })
    }
}

/// Returns the name of the directory with the modules of an environment's Python: `python3.12`, or `Python312` on
/// Windows, where it contains only the user's packages.
pub fn python_name(program: &Path, root: &Path) -> Option<String> {
    name_of_program(program).or_else(|| {
        if Os::HOST == Os::Windows {
            return Some(Python::at(root, Os::HOST)?.dir_name);
        }
        let stated = stated_minor(root);
        let pythons: Vec<Python> = python_dirs(root).filter_map(|dir| Python::named(file_name(&dir))).collect();
        // With several versions and no settings, only running the Python would tell them apart.
        let is_alone = pythons.len() == 1;
        Some(pythons.into_iter().find(|python| is_alone || Some(python.minor) == stated)?.dir_name)
    })
}

/// Like [`python_name`], if the name of the program contains the version.
pub fn name_of_program(program: &Path) -> Option<String> {
    Some(Python::from_program(program, Os::HOST)?.dir_name)
}

/// Returns the minor version of Python from the environment's settings.
fn stated_minor(root: &Path) -> Option<u32> {
    let minor = |version: &str| version.strip_prefix("3.")?.split('.').next()?.parse().ok();
    ["version", "version_info"].iter().find_map(|name| minor(setting(root, name)?.to_str()?))
}

/// Returns whether this is the root of a virtual environment.
pub fn is_virtual(root: &Path) -> bool {
    root.join("pyvenv.cfg").leads_to_file()
}

/// Returns the minor version of the newest Python DLL in this directory, such as `python312.dll`. All versions have
/// `python3.dll`.
fn minor_of_dll(dir: &Path) -> Option<u32> {
    let minor = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.strip_prefix("python3")?.strip_suffix(".dll")?.trim_end_matches('t').parse().ok()
    };
    entries_named(dir, "Python DLL", |name| minor(name).is_some())
        .iter()
        .filter_map(|file| minor(file_name(file)))
        .max()
}

/// Returns the operating system of the environment at this root. Under WSL, a Windows environment can be on a mounted
/// disk (`/mnt/c`).
pub fn os_of(root: &Path) -> Os {
    let has_program = || ["Scripts", "python.exe"].iter().any(|part| root.join(part).target_exists());
    if root.join("Lib").join("site-packages").leads_to_dir() && has_program() { Os::Windows } else { Os::HOST }
}

pub(super) fn has_part(root: &Path, os: Os) -> bool {
    let programs = if os == Os::Windows { ["python.exe", "Scripts"] } else { ["bin/python3", "bin/python"] };
    programs.iter().chain(&["pyvenv.cfg", "conda-meta"]).any(|part| root.join(part).target_exists())
}

/// Returns the package directories of this root in Python's order, even if they are missing.
pub(super) fn site_dirs(root: &Path, python: Option<&Python>, os: Os) -> Vec<PathBuf> {
    if os == Os::Windows {
        return vec![root.join("Lib").join("site-packages"), root.join("site-packages")];
    }
    // Debian's directory for all Python versions, which do not use `site-packages`.
    let common = root.join("lib/python3/dist-packages");
    let Some(python) = python else { return vec![common] };
    let dir = |lib: &str, name: &str| root.join(lib).join(&python.dir_name).join(name);
    // Fedora uses lib64, which is a link to lib in most environments. Findings name a directory once.
    let real = |name: &str| canonicalize(root.join(name)).ok();
    let is_same = real("lib64").is_some_and(|dir| Some(dir) == real("lib"));
    let of_fedora = Some(dir("lib64", "site-packages")).filter(|_| !is_same);
    let others = [dir("lib", "site-packages"), dir("local/lib", "dist-packages"), common, dir("lib", "dist-packages")];
    of_fedora.into_iter().chain(others).collect()
}

/// Returns the directory of the user's packages (`pip install --user`) for a Python such as `python3.12`.
pub fn user_site(python_name: &str, host: &Host, os: Os) -> Option<PathBuf> {
    let base = host.user_base(os)?;
    let lib = if os == Os::Windows { base } else { base.join("lib") };
    Some(lib.join(python_name).join("site-packages"))
}

/// Returns whether this is the name of a directory for a Python on Linux, or Debian's for all Pythons.
fn is_of_python(name: &str) -> bool {
    name.starts_with("python3")
}

/// Returns the module directories below the root of an environment for all Pythons: `lib/python3.12`, or `Lib`.
pub fn python_dirs(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let (dirs, is_python): (&[&str], fn(&str) -> bool) = match Os::HOST {
        Os::Windows => (&[""], |name| name.eq_ignore_ascii_case("Lib")),
        // lib64 is often a link to lib.
        _ => (&["lib", "lib64"], is_of_python),
    };
    let dirs = dirs.iter().map(|dir| root.join(dir)).filter(|dir| !dir.is_link());
    dirs.flat_map(|dir| entries_named(&dir, "Python", is_python)).collect::<Vec<_>>().into_iter()
}

/// Returns the package directories below an environment's root, or below the root of a user's packages for one Python.
pub fn site_packages(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let names: &[&str] = match Os::HOST {
        Os::Windows => &["site-packages"],
        _ => &["site-packages", "dist-packages"],
    };
    let of_user = Some(root.join("site-packages")).filter(|dir| Os::HOST == Os::Windows && dir.leads_to_dir());
    of_user.into_iter().chain(python_dirs(root).flat_map(|dir| names.iter().map(move |name| dir.join(name))))
}

#[cfg(test)]
mod tests {
    use cudnn_probe::facts::Facts;

    use super::*;

    #[test]
    fn facts_have_one_answer_about_the_pythons_in_a_directory() -> std::io::Result<()> {
        let root = std::env::temp_dir().join(format!("cudnn-frameworks-pythons-{}", std::process::id()));
        ["python3", "python3.12"].iter().try_for_each(|name| std::fs::create_dir_all(root.join("lib").join(name)))?;
        let look = || (Python::at(&root, Os::Linux).map(|python| python.minor), python_dirs(&root).count());
        let recorder = Facts::recorder();
        let found = recorder.within(look);
        assert_eq!(found, (Some(12), if Os::HOST == Os::Windows { 1 } else { 2 }));
        std::fs::remove_dir_all(&root)?;
        assert!(Facts::from_value(recorder.to_value()).is_ok_and(|saved| saved.within(look) == found));
        Ok(())
    }

    /// Tests the Windows rules on every system.
    #[test]
    fn the_python_version_comes_from_the_settings_or_the_dll() {
        let world = std::env::temp_dir().join(format!("cudnn frameworks größe {}", std::process::id()));
        for (file, text, root, expected) in [
            ("venv/pyvenv.cfg", "home = C:\\Python312\nversion = 3.12.4\n", "venv", Some("Python312")),
            ("base/python313.dll", "", "base", Some("Python313")),
            ("base2/python3.dll", "", "base2", None),
            ("Python311/site-packages/x", "", "Python311", Some("Python311")),
            ("other/x", "", "other", None),
        ] {
            let path = world.join(file);
            std::fs::create_dir_all(path.parent().unwrap_or(&world)).unwrap_or_default();
            std::fs::write(&path, text).unwrap_or_default();
            let found = Python::at(&world.join(root), Os::Windows);
            assert_eq!(found.as_ref().map(|python| python.dir_name.as_str()), expected, "{file}");
        }
        let _ = std::fs::remove_dir_all(&world);
    }
}
