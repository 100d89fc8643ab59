//! Creates real virtual environments with pip. Installing pip takes seconds, so its files are kept for later tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::profile_dir;
use crate::program_file::write_program;

/// Creates a virtual environment with the pip of the `python3` on `PATH`.
pub fn venv_with_pip(root: &Path) {
    let pip = installed_pip();
    python(["-m", "venv", "--without-pip"], root);
    let copy = Command::new("cp").arg("-a").arg(pip.join(".")).arg(site_packages(root)).output().unwrap();
    assert!(copy.status.success(), "{copy:?}");
    let python = root.join("bin/python3");
    let script = "import sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n";
    write_program(root.join("bin/pip"), format!("#!{}\n{script}", python.display()));
}

/// Returns the directory with the packages of an environment.
#[must_use]
pub fn site_packages(environment: &Path) -> PathBuf {
    let mut pythons = std::fs::read_dir(environment.join("lib")).unwrap();
    let is_python = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("python3");
    pythons.find_map(|entry| entry.ok().filter(is_python)).unwrap().path().join("site-packages")
}

/// Returns a directory with the packages of a new virtual environment, which must not be changed.
fn installed_pip() -> PathBuf {
    let release = "import ensurepip, sys; print(ensurepip.version(), 'for', *sys.version_info[:3], end='')";
    let output = Command::new("python3").args(["-I", "-c", release]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let dir = profile_dir().join("compiled");
    let kept = dir.join(format!("pip {}", String::from_utf8_lossy(&output.stdout)));
    if !kept.exists() {
        std::fs::create_dir_all(&dir).unwrap();
        let unfinished = tempfile::tempdir_in(&dir).unwrap();
        python(["-m", "venv"], unfinished.path());
        // Another program may have finished first.
        let renamed = std::fs::rename(site_packages(unfinished.path()), &kept);
        assert!(kept.exists(), "{renamed:?}");
    }
    kept
}

fn python<const N: usize>(arguments: [&str; N], environment: &Path) {
    let output = Command::new("python3").args(arguments).arg(environment).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
