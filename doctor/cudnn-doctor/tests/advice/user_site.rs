//! Executes commands for packages of `pip install --user`. The user cannot change the system's packages, and modules in
//! the working directory must not be imported.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{TempDir, not_run};

use crate::world::{pack, stand_ins};

const PYTHON: &str = "/usr/bin/python3";
const PIP: &str = "/usr/lib/python3/dist-packages/pip";

/// The user `nobody`, who owns no files.
const USER: u32 = 65534;

struct User {
    home: TempDir,
    find_links: String,
}

impl User {
    fn sh(&self, script: &str) -> String {
        let doctor = Path::new(env!("CARGO_BIN_EXE_cudnn-doctor")).parent().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("set -e\n{script}")]).current_dir(self.home.path()).env_clear();
        command.env("PATH", format!("{}:/usr/bin:/bin", doctor.display())).env("HOME", self.home.path());
        command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", &self.find_links).env("PIP_NO_COMPILE", "1");
        command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        if is_root() {
            command.uid(USER).gid(USER);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn commands(&self, options: &str, code: &str) -> Option<Vec<String>> {
        let json = self.sh(&format!("cudnn-doctor check --json {options} || true"));
        let document: Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        let findings = document["findings"].as_array().unwrap_or_else(|| panic!("{document:#}"));
        let found = findings.iter().find(|finding| finding["code"] == code)?;
        let commands = found["commands"].as_array().unwrap();
        Some(commands.iter().map(|command| command.as_str().unwrap().to_owned()).collect())
    }
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

#[test]
fn commands_change_the_packages_of_a_user() {
    if !Path::new(PIP).is_dir() {
        return not_run("the commands for a user's packages", "/usr/bin/python3 has no pip");
    }
    let wheels = TempDir::new();
    let texts: [(&str, &str, &[&str], &str, &str); 3] = [
        ("torch", "2.8.0", &["nvidia-cudnn-cu12==9.19.0.56"], "torch/version.py", "cuda = '12.8'\n"),
        ("onnxruntime", "1.22.0", &[], "onnxruntime/__init__.py", "get_available_providers = lambda: ['CPU']\n"),
        ("onnxruntime-gpu", "1.22.0", &[], "onnxruntime/x.py", ""),
    ];
    for (name, version, requires, file, text) in texts {
        pack(wheels.path(), name, version, requires, |dir| {
            std::fs::create_dir_all(dir.join(file).parent().unwrap()).unwrap();
            std::fs::write(dir.join(file), text).unwrap();
        });
    }
    let find_links = format!("{} {}", wheels.path().display(), stand_ins().path().display());
    let user = User { home: TempDir::new(), find_links };
    let home = user.home.path();
    for module in ["pip", "runpy", "site", "typing"] {
        std::fs::write(home.join(format!("{module}.py")), "open('IMPORTED', 'w')\n").unwrap();
    }
    if is_root() {
        std::os::unix::fs::chown(home, Some(USER), Some(USER)).unwrap();
        for dir in user.find_links.split(' ').map(Path::new).chain([home]) {
            std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
    }
    let install = format!("{PYTHON} {PIP} install --user --break-system-packages --no-deps");
    user.sh(&format!("{install} torch onnxruntime nvidia-cudnn-cu12==9.18.0.56"));

    let commands = user.commands("--no-load", "C073").unwrap();
    assert!(commands[0].contains(" --user "), "{commands:?}");
    user.sh(&commands.join("\n"));
    assert_eq!(user.commands("--no-load", "C073"), None, "{commands:?}");

    // The command installs cuDNN next to PyTorch.
    user.sh(&format!("{PYTHON} -E {PIP} uninstall --yes --break-system-packages nvidia-cudnn-cu12"));
    let commands = user.commands("--no-load", "C073").unwrap();
    user.sh(&commands.join("\n"));
    assert_eq!(user.commands("--no-load", "C073"), None, "{commands:?}");

    // A plan names the directory that pip changes.
    let base = "export PYTHONUSERBASE=$HOME/base";
    user.sh(&format!("{base}\n{install} torch nvidia-cudnn-cu12==9.18.0.56"));
    let plan = user.sh(&format!("{base}\ncudnn-doctor fix --no-load || true"));
    assert!(plan.contains(" --user ") && plan.contains(" in ~/base ") && !plan.contains("/.local/lib/"), "{plan}");

    // A virtual environment with a framework gets separate packages.
    user.sh(&format!(
        "{PYTHON} -I -m venv --without-pip --system-site-packages env && env/bin/python -I -m pip install --no-deps torch==2.8.0 --ignore-installed"
    ));
    let commands = user.commands("--no-load --python env", "C073").unwrap_or_default();
    assert!(commands.iter().all(|command| !command.contains(" --user ")), "{commands:?}");

    let commands = user.commands("--run onnxruntime", "C091").unwrap();
    assert!(commands.iter().any(|command| command.contains(" --user ")), "{commands:?}");
    user.sh(&commands.join("\n"));
    let packages = user.sh(&format!("{PYTHON} -E {PIP} list --user"));
    let has = |name: &str| packages.lines().any(|line| line.split(' ').next() == Some(name));
    assert!(has("onnxruntime-gpu") && !has("onnxruntime"), "{commands:?}: {packages}");
    assert!(!home.join("IMPORTED").exists());
}
