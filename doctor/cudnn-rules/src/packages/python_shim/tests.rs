use std::ffi::OsString;
use std::io;

use cudnn_probe::facts::{Changes, Facts};

use super::*;

/// Returns the shim in these directories for a process with these variables in a working directory.
fn found(dirs: Vec<PathBuf>, variables: &[(&str, OsString)], working_dir: PathBuf) -> Option<PythonShim> {
    let mut changes = Changes::default();
    variables.iter().for_each(|(name, value)| changes.set_variable(name, Some(value.clone())));
    changes.set_answer("working directory", "", &io::Result::Ok(working_dir));
    Facts::recorder().after(changes).within(|| find(dirs))
}

#[test]
fn a_shim_starts_the_python_that_the_tool_selects() {
    let world = support::TempDir::new();
    let path = |below: &str| world.path().join(below);
    let pyenv = "#!/usr/bin/env bash\nexec \"/x/.pyenv/libexec/pyenv\" exec \"$program\" \"$@\"\n";
    for (file, text) in [
        ("pyenv/shims/python3", pyenv),
        ("asdf/shims/python3", "#!/usr/bin/env bash\nexec asdf exec \"python3\" \"$@\"\n"),
        ("shims/python3", "#!/bin/sh\nexec python3.11\n"),
        ("pyenv/versions/empty/bin/pip", ""),
        ("usr/bin/python3", ""),
        ("pyenv/version", "3.10.13\n"),
        ("project/.python-version", "# the project's\n3.9.18 # comment\n"),
        ("project/.tool-versions", "nodejs 20\npython 3.9.18 3.10.2\n"),
        ("home/.tool-versions", "python 3.10.2\n"),
        ("project/deep/x", ""),
    ] {
        support::write_program(path(file), text);
    }
    for version in ["3.9.18", "3.10.2", "3.10.13", "venv"] {
        support::write_program(path(&format!("pyenv/versions/{version}/bin/python3")), "");
        support::write_program(path(&format!("asdf/installs/python/{version}/bin/python3")), "");
    }
    for (tool, version, dir, expected) in [
        ("pyenv", "", "", Some("pyenv/versions/3.10.13/bin")),
        ("pyenv", "", "project/deep", Some("pyenv/versions/3.9.18/bin")),
        ("pyenv", "3.10", "project", Some("pyenv/versions/3.10.13/bin")),
        ("pyenv", "empty:venv", "", Some("pyenv/versions/venv/bin")),
        ("pyenv", "python-3.9.18", "", Some("pyenv/versions/3.9.18/bin")),
        ("pyenv", "system", "", Some("usr/bin")),
        ("pyenv", "3", "", Some("pyenv/versions/3.10.13/bin")),
        ("pyenv", "3.1", "", None),
        ("pyenv", "3.99", "", None),
        ("pyenv", "../../usr", "", None),
        ("asdf", "", "", Some("asdf/installs/python/3.10.2/bin")),
        ("asdf", "", "project/deep", Some("asdf/installs/python/3.9.18/bin")),
        ("asdf", "venv", "project", Some("asdf/installs/python/venv/bin")),
    ] {
        let dirs = vec![path(tool).join("shims"), path("usr/bin")];
        let version = || OsString::from(version);
        let variables =
            [("HOME", path("home").into()), ("PYENV_VERSION", version()), ("ASDF_PYTHON_VERSION", version())];
        let found = found(dirs, &variables, path(dir)).map(|shim| (shim.tool, shim.bin));
        assert_eq!(found, Some((tool, expected.map(path))), "{tool} {version:?} {dir}", version = version());
    }
    // An unrelated script and a real Python.
    for dir in ["shims", "usr/bin"] {
        assert_eq!(found(vec![path(dir)], &[], path("")), None, "{dir}");
    }
}
