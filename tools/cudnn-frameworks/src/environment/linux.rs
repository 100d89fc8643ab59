//! The layout of environments on Linux.

use std::path::{Path, PathBuf};

use cudnn_probe::Host;

use super::{Layout, MAX_ENTRIES, Python, stated_minor};

pub(super) const LAYOUT: Layout = Layout {
    parts: &["pyvenv.cfg", "conda-meta", "bin/python3", "bin/python"],
    python,
    of_program,
    site_dirs,
    user_dir,
    system: Some("/usr"),
};

/// The Python with this name of a directory or program.
fn named(dir_name: &str) -> Option<Python> {
    let minor = dir_name.strip_prefix("python3.")?.trim_end_matches('t').parse().ok()?;
    Some(Python { minor, dir_name: dir_name.to_owned() })
}

fn of_program(program: &Path) -> Option<Python> {
    named(cudnn_probe::canonicalize(program).ok()?.file_name()?.to_str()?)
}

fn python(root: &Path) -> Option<Python> {
    let dirs = ["lib", "lib64", "local/lib"].map(|lib| root.join(lib));
    let entries = dirs.iter().flat_map(std::fs::read_dir).flat_map(|entries| entries.take(MAX_ENTRIES)).flatten();
    let pythons = entries.filter_map(|entry| named(entry.file_name().to_str()?));
    let of_link = || Some(of_program(&root.join("bin/python3"))?.minor);
    let stated = stated_minor(root).or_else(of_link);
    // A system may have directories of several; the settings or the link decide.
    pythons.max_by_key(|python| (Some(python.minor) == stated, python.minor))
}

fn site_dirs(root: &Path, python: Option<&Python>) -> Vec<PathBuf> {
    // Debian's packages for all versions. Its Python has no `site-packages`.
    let common = root.join("lib/python3/dist-packages");
    let Some(python) = python else { return vec![common] };
    let dir = |lib: &str, name: &str| root.join(lib).join(&python.dir_name).join(name);
    vec![
        // Fedora's. In most environments it is a link to the next.
        dir("lib64", "site-packages"),
        dir("lib", "site-packages"),
        dir("local/lib", "dist-packages"),
        common,
        dir("lib", "dist-packages"),
    ]
}

fn user_dir(python: &Python, host: &Host) -> Option<PathBuf> {
    let base = host.variable("PYTHONUSERBASE").map(PathBuf::from);
    let base = base.or_else(|| Some(Path::new(&host.variable("HOME")?).join(".local")))?;
    base.is_absolute().then(|| base.join("lib").join(&python.dir_name).join("site-packages"))
}
