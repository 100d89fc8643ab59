use cudnn_probe::DEFAULT_CUDA_MAJOR;
use support::{TempDir, write_program};

use super::*;
use crate::plan::advice_of;
use crate::shell::quoted_path;

#[test]
fn a_python_that_rejects_packages_gets_a_separate_directory() {
    let dir = apart_dir(Component::Cudnn, DEFAULT_CUDA_MAJOR).unwrap_or_default();
    let dir = quoted_path(&dir);
    let wheel = Component::Cudnn.wheel(DEFAULT_CUDA_MAJOR);
    for (file, expected) in [
        ("lib/python3.12/site-packages/pip/x", format!("$/bin/python3 -I -m pip install --target {dir} {wheel}")),
        (
            "lib/python3.12/ensurepip/x",
            format!("$/bin/python3 -I -m venv {dir}\n{dir}/bin/python3 -I -m pip install {wheel}"),
        ),
        // No command installs pip for a Python of the user.
        ("lib/python3.12/x", String::new()),
    ] {
        let root = TempDir::new();
        write_program(root.path().join("bin/python3"), "#!/bin/sh\n");
        write_program(root.path().join(file), "");
        let base = packages::base_python(root.path());
        let help = install_apart(vec![wheel.clone()], DEFAULT_CUDA_MAJOR, Some(root.path()), base);
        let commands = help.map(|remedy| advice_of(&remedy).commands).unwrap_or_default();
        let commands = commands.join("\n").replace("sudo ", "").replace(&root.path().display().to_string(), "$");
        let is_expected = if expected.is_empty() { commands.is_empty() } else { commands.contains("\neval ") };
        assert!(commands.starts_with(&expected) && is_expected, "{file}: {commands}");
    }
}
