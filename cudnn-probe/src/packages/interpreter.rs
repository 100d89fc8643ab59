//! Which files are Python interpreters, judged by their names and first bytes. Runs nothing.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::layout::{python_dirs, root_of};
use crate::platform::{Opened, Os, canonicalize, is_executable, open_regular};

/// What interpreters are called, before their version: `python3.12`, `pypy3`.
const NAMES: [&str; 2] = ["python", "pypy"];

/// The first bytes of programs: ELF, and Windows' PE.
const MAGICS: [&[u8]; 2] = [b"\x7fELF", b"MZ"];

/// The directories in which pyenv and asdf install Pythons, next to the directory of their scripts.
const VERSIONS: [&str; 2] = ["versions", "installs/python"];

/// Returns whether this file starts a Python: a native program with the name of an interpreter, or a script of that name
/// in an environment. Reads the file, and does not run it.
#[must_use]
pub fn is_python(file: &Path) -> bool {
    let is_environment = |root: &Path| {
        let has_mark = ["pyvenv.cfg", "conda-meta"].iter().any(|mark| root.join(mark).exists());
        has_mark || python_dirs(root).next().is_some()
    };
    is_interpreter(file) || file.is_file() && is_named(file) && root_of(file).is_some_and(is_environment)
}

/// Returns whether this file, or the file that it links to, is a native program with the name of an interpreter. The
/// scripts that pyenv, asdf and others put on `PATH` are not, because which Python they start, if any, depends on the
/// directory and the variables of the caller.
fn is_interpreter(file: &Path) -> bool {
    let real = || canonicalize(file).is_ok_and(|real| is_named(&real));
    is_executable(file) && (is_named(file) || real()) && is_native(file)
}

fn is_named(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    // Debian's interpreters for debugging: `python3.11-dbg`.
    let name = name.strip_suffix("-dbg").unwrap_or(name);
    // `python3.14t`, `python3.7m`, `pythonw`
    let is_of_version = |c: char| c.is_ascii_digit() || ".tdmuw".contains(c);
    NAMES.iter().any(|start| name.strip_prefix(start).is_some_and(|rest| rest.chars().all(is_of_version)))
}

fn is_native(file: &Path) -> bool {
    let mut magic = [0; 4];
    let read = open_regular(file).and_then(|opened| match opened {
        Opened::Regular(mut file, _) => file.read_exact(&mut magic),
        Opened::Other(_) => Ok(()),
    });
    read.is_ok() && MAGICS.iter().any(|start| magic.starts_with(start))
}

/// The interpreters with this name on `PATH`, the first one first. A script of pyenv or asdf stands for the newest Python of
/// that name that the tool has installed, and a Python of a virtual environment for the one that it was made with.
pub(super) fn interpreters_on_path(name: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
    let name = name.to_owned();
    dirs.into_iter().filter_map(move |dir| {
        let file = dir.join(&name);
        if is_interpreter(&file) {
            let is_virtual = dir.parent().is_some_and(|root| root.join("pyvenv.cfg").is_file());
            return if is_virtual { canonicalize(&file).ok() } else { Some(file) };
        }
        (dir.ends_with("shims") && is_executable(&file)).then(|| installed_by_tool(dir.parent()?, &name)).flatten()
    })
}

/// The newest interpreter with this name below the root of pyenv or asdf.
fn installed_by_tool(root: &Path, name: &str) -> Option<PathBuf> {
    let dirs = VERSIONS.iter().map(|dir| root.join(dir)).flat_map(std::fs::read_dir).flatten().flatten();
    let numbers = |version: &Path| -> Vec<u32> {
        let version = version.file_name().unwrap_or_default().to_string_lossy();
        version.split('.').map_while(|number| number.parse().ok()).collect()
    };
    let programs = dirs.map(|entry| (numbers(&entry.path()), entry.path().join("bin").join(name)));
    programs.filter(|(_, program)| is_interpreter(program)).max().map(|(_, program)| program)
}

/// Returns whether the Python of this environment is a link to a file of the container image that the environment is part
/// of, which is unpacked below a directory of this system: it works in a container, and must not be replaced here.
pub(super) fn is_in_unpacked_image(python: &Path) -> bool {
    const MAX_LINKS: usize = 40;
    if Os::HOST == Os::Windows {
        return false;
    }
    let mut file = python.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = std::fs::read_link(&file) else { return false };
        if let Ok(below_root) = target.strip_prefix("/") {
            let mut above = python.ancestors().filter(|dir| dir.parent().is_some());
            return above.any(|dir| dir.join(below_root).symlink_metadata().is_ok());
        }
        let Some(dir) = file.parent() else { return false };
        file = dir.join(target);
    }
    false
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "it writes files")]
    fn an_interpreter_is_a_native_program_with_a_pythons_name() {
        let dir = std::env::temp_dir().join(format!("cudnn-probe-interpreter-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (name, text, mode, expected) in [
            ("python3.12", "\x7fELF..", 0o755, true),
            ("python3.14t", "\x7fELF..", 0o755, true),
            ("pypy3", "\x7fELF..", 0o755, true),
            ("python3-dbg", "\x7fELF..", 0o755, true),
            ("python3.11-dbg", "\x7fELF..", 0o755, true),
            ("python", "MZ..", 0o755, true),
            // Not executable, empty, a script, another program.
            ("python3.11", "\x7fELF..", 0o644, false),
            ("python3.10", "", 0o755, false),
            ("python3.9", "#!/usr/bin/env bash\n", 0o755, false),
            ("ls", "\x7fELF..", 0o755, false),
            ("python3.12-config", "\x7fELF..", 0o755, false),
        ] {
            let file = dir.join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(is_interpreter(&file), expected, "{name}");
        }
        std::os::unix::fs::symlink(dir.join("python3.12"), dir.join("my-interpreter")).unwrap();
        assert!(is_interpreter(&dir.join("my-interpreter")));
        assert!(!is_interpreter(&dir) && !is_interpreter(&dir.join("nothing")));
        // A script is one in an environment, under a Python's name.
        let script = |name: &str| {
            let file = dir.join("env/bin").join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "#!/bin/sh\n").unwrap();
            file
        };
        assert!(!is_python(&script("python3")));
        std::fs::write(dir.join("env/pyvenv.cfg"), "").unwrap();
        assert!(is_python(&script("python3")) && !is_python(&script("python3-config")));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "it writes files")]
    fn a_python_of_an_unpacked_image_is_not_that_of_this_system() {
        let world = std::env::temp_dir().join(format!("cudnn-probe-image-{}", std::process::id()));
        let bin = world.join("image/opt/env/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(world.join("image/usr/bin")).unwrap();
        std::os::unix::fs::symlink("/usr/bin/python3.99", bin.join("python3.99")).unwrap();
        std::os::unix::fs::symlink("python3.99", bin.join("python3")).unwrap();
        assert!(!is_in_unpacked_image(&bin.join("python3")), "the image has no such file");
        std::fs::write(world.join("image/usr/bin/python3.99"), "").unwrap();
        assert!(is_in_unpacked_image(&bin.join("python3")));
        std::fs::remove_dir_all(&world).unwrap();
    }
}
