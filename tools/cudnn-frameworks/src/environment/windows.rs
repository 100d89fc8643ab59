//! The layout of environments on Windows: a Python's program, its DLL and `Lib` lie in its root; a virtual environment has
//! its program in `Scripts`.

use std::path::{Path, PathBuf};

use cudnn_probe::Host;

use super::{Layout, MAX_ENTRIES, Python, stated_minor};

pub(super) const LAYOUT: Layout = Layout {
    parts: &["pyvenv.cfg", "conda-meta", "python.exe", "Scripts"],
    python,
    of_program,
    site_dirs,
    user_dir,
    system: None,
};

/// The Python with this minor version.
fn with_minor(minor: u32) -> Python {
    Python { minor, dir_name: format!("Python3{minor}") }
}

/// The Python whose DLL lies beside this program.
fn of_program(program: &Path) -> Option<Python> {
    beside(cudnn_probe::canonicalize(program).ok()?.parent()?)
}

/// The newest Python whose DLL lies in this directory: `python312.dll`, but `python3.dll` is for all versions.
fn beside(dir: &Path) -> Option<Python> {
    let entries = std::fs::read_dir(dir).ok()?.take(MAX_ENTRIES).flatten();
    let minor = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_str()?.to_ascii_lowercase();
        let minor = name.strip_prefix("python3")?.strip_suffix(".dll")?;
        minor.trim_end_matches('t').parse().ok()
    };
    entries.filter_map(minor).max().map(with_minor)
}

fn python(root: &Path) -> Option<Python> {
    // The root of the user's packages is named after the Python: `%APPDATA%\Python\Python312`.
    let of_name = || Some(with_minor(root.file_name()?.to_str()?.strip_prefix("Python3")?.parse().ok()?));
    stated_minor(root).map(with_minor).or_else(|| beside(root)).or_else(of_name)
}

fn site_dirs(root: &Path, _python: Option<&Python>) -> Vec<PathBuf> {
    vec![root.join("Lib").join("site-packages"), root.join("site-packages")]
}

fn user_dir(python: &Python, host: &Host) -> Option<PathBuf> {
    let base = host.variable("PYTHONUSERBASE").map(PathBuf::from);
    let base = base.or_else(|| Some(Path::new(&host.variable("APPDATA")?).join("Python")))?;
    base.is_absolute().then(|| base.join(&python.dir_name).join("site-packages"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules are those of Windows on any system; the names of these directories have no separators.
    #[test]
    fn the_python_of_an_environment_is_in_its_settings_or_beside_its_program() {
        let world = std::env::temp_dir().join(format!("cudnn frameworks größe {}", std::process::id()));
        for (file, text, root, expected) in [
            ("venv/pyvenv.cfg", "home = C:\\Python312\nversion = 3.12.4\n", "venv", Some(12)),
            ("base/python313.dll", "", "base", Some(13)),
            ("base2/python3.dll", "", "base2", None),
            ("Python311/site-packages/x", "", "Python311", Some(11)),
            ("other/x", "", "other", None),
        ] {
            let path = world.join(file);
            std::fs::create_dir_all(path.parent().unwrap_or(&world)).unwrap_or_default();
            std::fs::write(&path, text).unwrap_or_default();
            let found = python(&world.join(root));
            assert_eq!(found.as_ref().map(|python| python.minor), expected, "{file}");
            assert!(found.is_none_or(|python| python.dir_name == format!("Python3{}", python.minor)), "{file}");
        }
        let _ = std::fs::remove_dir_all(&world);
    }
}
