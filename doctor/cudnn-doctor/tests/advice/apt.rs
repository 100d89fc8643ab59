//! Checks that apt-get accepts the printed commands, with a test repository and the simulation mode.

use std::path::Path;
use std::process::Command;

use cudnn_frameworks::installation::{Installer, Package};
use cudnn_probe::Component;
use cudnn_rules::packages;
use support::{TempDir, not_run};

fn dpkg_deb(repository: &Path, name: &str, version: &str) {
    let staging = TempDir::new();
    let control = staging.path().join("DEBIAN");
    std::fs::create_dir(&control).unwrap();
    let text = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n"
    );
    std::fs::write(control.join("control"), text).unwrap();
    let file = repository.join(format!("{name}_{version}_all.deb"));
    let output = Command::new("dpkg-deb").arg("--build").arg(staging.path()).arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Returns a line such as `Inst libcublas-12-9 ...` for every package to install, remove or configure.
fn simulate(root: &Path, command: &cudnn_cli::command::Command) -> String {
    let output = Command::new("sh")
        .args(["-c", &command.to_string()])
        .env("APT_CONFIG", root.join("apt.conf"))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn apt_get_accepts_the_commands_for_system_packages() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("apt-get") || !has("dpkg-deb") {
        return not_run("the commands of apt-get", "this system has no apt-get");
    }
    let root = TempDir::new();
    let path = |below: &str| root.path().join(below);
    for dir in ["repository", "state/lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d"] {
        std::fs::create_dir_all(path(dir)).unwrap();
    }
    let packages = [
        ("libcudnn9-cuda-12", "9.10.2.21-1"),
        ("libcudnn9-cuda-12", "9.19.0.56-1"),
        ("libcudnn9-cuda-13", "9.19.0.56-1"),
        ("libcublas-12-9", "12.9.1.4-1"),
        ("cuda-nvrtc-12-9", "12.9.86-1"),
    ];
    let mut index = String::new();
    for (name, version) in packages {
        dpkg_deb(&path("repository"), name, version);
        let file = format!("{name}_{version}_all.deb");
        let size = std::fs::metadata(path("repository").join(&file)).unwrap().len();
        let sum = Command::new("sha256sum").arg(path("repository").join(&file)).output().unwrap().stdout;
        let sum = String::from_utf8(sum).unwrap();
        let sum = sum.split(' ').next().unwrap();
        index += &format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@example.org>\nFilename: ./{file}\n\
             Size: {size}\nSHA256: {sum}\nDescription: x\n\n"
        );
    }
    std::fs::write(path("repository/Packages"), index).unwrap();
    let installed = |name: &str, version: &str| {
        format!(
            "Package: {name}\nStatus: install ok installed\nVersion: {version}\nArchitecture: all\n\
             Maintainer: x <x@example.org>\nDescription: x\n\n"
        )
    };
    let status = installed("libcudnn9-cuda-12", "9.10.2.21-1") + &installed("libcudnn9-cuda-13", "9.19.0.56-1");
    std::fs::write(path("status"), &status).unwrap();
    let source = format!("deb [trusted=yes] file:{} ./\n", path("repository").display());
    std::fs::write(path("sources.list"), source).unwrap();
    let conf = format!(
        "APT::Architecture \"amd64\";\nAPT::Sandbox::User \"\";\nDir::State \"{0}/state\";\n\
         Dir::State::status \"{0}/status\";\nDir::Cache \"{0}/cache\";\nDir::Etc::sourcelist \"{0}/sources.list\";\n\
         Dir::Etc::sourceparts \"{0}/none\";\nDir::Etc::parts \"{0}/etc/apt.conf.d\";\n\
         Dir::Etc::preferencesparts \"{0}/etc/preferences.d\";\n",
        root.path().display()
    );
    std::fs::write(path("apt.conf"), &conf).unwrap();
    let update = Command::new("apt-get").arg("update").env("APT_CONFIG", path("apt.conf")).output().unwrap();
    assert!(update.status.success(), "{update:?}");
    let package = |name: &str, version: &str| Package::new(Installer::Dpkg, name, Some(version), "/");
    let (old, cu13) = (package("libcudnn9-cuda-12", "9.10.2.21-1"), package("libcudnn9-cuda-13", "9.19.0.56-1"));
    // The command must not prompt, because there may be no terminal.
    let dpkg = format!("{conf}Dir::Bin::dpkg \"/bin/true\";\nDebug::NoLocking \"true\";\n");
    std::fs::write(path("apt.conf"), dpkg).unwrap();
    let commands = |change: Option<packages::PackageChange>| change.unwrap().commands().unwrap();
    for command in commands(packages::replace_by(std::slice::from_ref(&cu13), Component::Cudnn, 12, Some("9.19.0.56")))
    {
        simulate(root.path(), &command);
    }
    // From here on, apt-get only simulates.
    std::fs::write(path("apt.conf"), conf + "APT::Get::Simulate \"true\";\n").unwrap();
    let again = "Inst libcudnn9-cuda-12 [9.10.2.21-1] (9.10.2.21-1";
    let cases = [
        // The repository also offers a newer release.
        (commands(packages::reinstall(&old)), again),
        (commands(packages::upgrade(&old, "9.19")), "Inst libcudnn9-cuda-12 [9.10.2.21-1] (9.19.0.56-1"),
        (commands(packages::install_for_system(Component::Cudnn, 13)), ""),
        (commands(packages::install_beside(&old, Component::Cublas, 12, Some(9))), "Inst libcublas-12-9"),
        (commands(packages::install_beside(&old, Component::Nvrtc, 12, Some(9))), "Inst cuda-nvrtc-12-9"),
        (commands(packages::replace_by(&[cu13], Component::Cudnn, 12, Some("9.10.2.21"))), "Remv libcudnn9-cuda-13"),
    ];
    for (commands, expected) in cases {
        assert!(commands.iter().all(cudnn_cli::command::Command::needs_root), "{commands:?}");
        let output: String = commands.iter().map(|command| simulate(root.path(), command)).collect();
        assert!(output.contains(expected), "{}: {output}", cudnn_cli::command::command_line(&commands));
    }
}
