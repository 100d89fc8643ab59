//! The commands that install, reinstall, upgrade and replace packages, for each installer.

use std::path::{Path, PathBuf};

use super::command::Command;
use super::component::Component;
use super::conda;
use super::package::{Installer, Package};
use super::pip::{is_plain_name, pip, pip_on_path, recorded_version, removals};

/// The command that installs a component into the active environment. `None` for an installer that has no such command
/// or whose package name needs more than the CUDA major version: see [`Component::system_package`].
#[must_use]
pub fn install(component: Component, cuda_major: u32, installer: Installer) -> Option<Command> {
    install_into(component, cuda_major, None, installer, None, None)
}

/// The command that installs a component next to this package: with the same installer, into the same environment. The
/// minor version of CUDA is needed for system packages of CUDA itself.
///
/// If pip has a record of the component, its files are installed again: a plain `install` would do nothing.
#[must_use]
pub fn install_beside(
    package: &Package,
    component: Component,
    cuda_major: u32,
    cuda_minor: Option<u32>,
) -> Option<Command> {
    if package.installer == Installer::Pip {
        let wheel = component.wheel(cuda_major);
        let is_for_this_cuda = |version: &String| {
            wheel.ends_with(&format!("-cu{cuda_major}")) || version.starts_with(&format!("{cuda_major}."))
        };
        if let Some(version) = recorded_version(&package.root, &wheel).filter(is_for_this_cuda) {
            return reinstall(&Package::new(Installer::Pip, &wheel, Some(&version), &package.root));
        }
    }
    install_into(component, cuda_major, cuda_minor, package.installer, Some(&package.root), None)
}

/// The commands that install a component into a directory that pip has not written to yet, and the directory's
/// subdirectory that then contains the libraries. For a cuDNN that no package manager owns. `None` if NVIDIA publishes no
/// such wheel.
#[must_use]
pub fn install_apart(component: Component, cuda_major: u32, target: &Path) -> Option<(Command, PathBuf)> {
    let command =
        pip_on_path().and(["install", "--no-deps", "--target"]).and([target]).and([component.requirement(cuda_major)]);
    component.is_published(cuda_major).then(|| (command, target.join(component.wheel_dir(cuda_major))))
}

fn install_into(
    component: Component,
    cuda_major: u32,
    cuda_minor: Option<u32>,
    installer: Installer,
    root: Option<&Path>,
    version: Option<&str>,
) -> Option<Command> {
    if !component.is_published(cuda_major) {
        return None;
    }
    let pinned = |name: String, separator: &str| match version {
        Some(version) => format!("{name}{separator}{version}"),
        None => name,
    };
    let system = |separator: &str| Some(pinned(component.system_package(cuda_major, cuda_minor)?, separator));
    Some(match installer {
        Installer::Pip => {
            let requirement = match version {
                Some(version) => format!("{}=={version}", component.wheel(cuda_major)),
                None => component.requirement(cuda_major),
            };
            pip(root, "install", [requirement])?
        }
        Installer::Conda => {
            let specs = [pinned(component.conda_package().to_owned(), "="), format!("cuda-version={cuda_major}")];
            conda::install(root, specs)?
        }
        Installer::Dpkg => apt_get("install").and([system("=")?]),
        Installer::Rpm if is_suse(root) => zypper("install").and([system("=")?]),
        Installer::Rpm => dnf("install").and([system("-")?]),
        Installer::Archive | Installer::WindowsInstaller | Installer::Application | Installer::Toolkit => return None,
    })
}

/// Does the system with this root have zypper, and not dnf?
fn is_suse(root: Option<&Path>) -> bool {
    let bin = root.unwrap_or(Path::new("/")).join("usr/bin");
    bin.join("zypper").is_file() && !bin.join("dnf").is_file()
}

/// The command that replaces the files of a package by those of the same version: for damaged or deleted files. A plain
/// `install` would not touch them, since the installer's records list them as present.
///
/// `None` if no command can do it: for an archive or an application, for a package from a private index (a local
/// version such as `2.2.0+cu121`), for one that shares its directory outside of an environment (`pip install --target`),
/// and for a record with a name or version that the installer would not write. If several packages own the files, see [`replace`].
#[must_use]
pub fn reinstall(package: &Package) -> Option<Command> {
    if !is_plain_name(&package.name) {
        return None;
    }
    let pinned = |separator: &str| match &package.version {
        Some(version) if is_plain_name(version) => Some(format!("{}{separator}{version}", package.name)),
        Some(_) => None,
        None => Some(package.name.clone()),
    };
    let is_local = package.version.as_ref().is_some_and(|version| version.contains('+'));
    let root = Some(package.root.as_path());
    Some(match package.installer {
        Installer::Pip if is_local => return None,
        Installer::Pip => {
            let requirement = pinned("==")?;
            let again = reinstall_requirements(&package.root, [requirement.clone()]);
            again.or_else(|| reinstall_into_target(package, requirement))?
        }
        Installer::Conda => conda::reinstall(&package.root, pinned("=")?),
        // Without the version, apt-get installs a newer one that the repository has.
        Installer::Dpkg => {
            let held = package.is_held.then_some("--allow-change-held-packages");
            apt_get("install").and(["--reinstall"]).and(held).and([pinned("=")?])
        }
        Installer::Rpm if is_suse(root) => zypper("install").and(["--force", &pinned("=")?]),
        Installer::Rpm => dnf("reinstall").and([&package.name]),
        Installer::Archive | Installer::WindowsInstaller | Installer::Application | Installer::Toolkit => return None,
    })
}

/// `pip install --target` again. With `--upgrade`, pip removes the directory `nvidia`, which the wheel must have alone.
fn reinstall_into_target(package: &Package, requirement: String) -> Option<Command> {
    let dir = package.component()?.wheel_dir(super::DEFAULT_CUDA_MAJOR);
    let own = dir.parent()?.file_name()?;
    let is_own = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        name == own || name.to_string_lossy().starts_with("__")
    };
    let mut entries = std::fs::read_dir(package.root.join("nvidia")).ok()?.flatten();
    let target = pip_on_path().and(["install", "--target"]).and([&package.root]);
    let options = ["--upgrade", "--force-reinstall", "--no-deps"];
    entries.all(is_own).then(|| target.and(options).and([requirement]))
}

/// The command by which pip installs requirements (`nvidia-cudnn-cu12==9.10.2.21`) into the environment at this root,
/// although its records list the packages as installed. Other packages stay as they are.
#[must_use]
pub fn reinstall_requirements(root: &Path, requirements: impl IntoIterator<Item = String>) -> Option<Command> {
    let options = ["--force-reinstall", "--no-deps"].map(str::to_owned);
    pip(Some(root), "install", options.into_iter().chain(requirements))
}

/// The command that brings a package to this cuDNN version or a newer one: `9.10.2`. `None` if the package is not
/// NVIDIA's: a framework's package decides which cuDNN it ships.
#[must_use]
pub fn upgrade(package: &Package, minimum: &str) -> Option<Command> {
    if !package.is_cudnn() || !is_plain_name(&package.name) {
        return None;
    }
    let root = Some(package.root.as_path());
    let at_least = format!("{}>={minimum}", package.name);
    Some(match package.installer {
        Installer::Pip => pip(root, "install", ["--upgrade".to_owned(), at_least])?,
        Installer::Conda => conda::install(root, [at_least])?,
        Installer::Dpkg => apt_get("install").and(["--only-upgrade", &package.name]),
        Installer::Rpm if is_suse(root) => zypper("update").and([&package.name]),
        Installer::Rpm => dnf("upgrade").and([&package.name]),
        Installer::Archive | Installer::WindowsInstaller | Installer::Application | Installer::Toolkit => return None,
    })
}

/// The command that allows other versions of a package, if the user has forbidden them: apt-get would refuse to change
/// it.
#[must_use]
pub fn lift_hold(package: &Package) -> Option<Command> {
    let is_held = package.is_held && package.installer == Installer::Dpkg && is_plain_name(&package.name);
    is_held.then(|| Command::new("apt-mark", ["unhold", &package.name]))
}

/// The commands that replace these packages, which own the same directory, by one. They repair a mix of two releases or
/// two CUDA versions, and change the CUDA version. pip silently overwrites the files of other packages, so the commands
/// remove all packages first. If the one to install is among them, it keeps its version, which a framework may require.
///
/// Empty if no command can do it.
#[must_use]
pub fn replace(packages: &[Package], component: Component, cuda_major: u32) -> Vec<Command> {
    let wheel = component.wheel(cuda_major);
    let same = packages.iter().filter(|package| package.installer == Installer::Pip && package.name == wheel);
    let version = same.filter_map(|package| package.version.as_deref()).rfind(|version| is_plain_name(version));
    replace_by(packages, component, cuda_major, version)
}

/// Like [`replace`], with the version to install: `9.10.2.21`.
#[must_use]
pub fn replace_by(packages: &[Package], component: Component, cuda_major: u32, version: Option<&str>) -> Vec<Command> {
    let is_plain = |package: &Package| package.is_cudnn() && is_plain_name(&package.name);
    let Some(first) = packages.first().filter(|_| packages.iter().all(is_plain)) else { return Vec::new() };
    let root = Some(first.root.as_path());
    // NVIDIA's packages for Debian and RPM have the version of the wheel, and a release number.
    let system_version = version.map(|version| format!("{version}-1"));
    let version = if first.installer == Installer::Pip || first.installer == Installer::Conda {
        version
    } else {
        system_version.as_deref()
    };
    let install = install_into(component, cuda_major, None, first.installer, root, version);
    let Some(install) = install else { return Vec::new() };
    let names = || packages.iter().map(|package| package.name.clone());
    let removal = match first.installer {
        Installer::Pip => removals(&first.root, names().collect()),
        // conda solves for the environment and removes what does not fit.
        Installer::Conda => Vec::new(),
        Installer::Dpkg => vec![apt_get("remove").and(names())],
        Installer::Rpm if is_suse(root) => vec![zypper("remove").and(names())],
        Installer::Rpm => vec![dnf("remove").and(names())],
        Installer::Archive | Installer::WindowsInstaller | Installer::Application | Installer::Toolkit => {
            return Vec::new();
        }
    };
    // The full wheel and the JIT-only one have no file in common: if the installation fails, the old one is left.
    let dir = |component: Component| component.wheel_dir(cuda_major);
    let mut components = packages.iter().filter_map(Package::component);
    if first.installer == Installer::Pip && components.all(|other| dir(other) != dir(component)) {
        return [install].into_iter().chain(removal).collect();
    }
    removal.into_iter().chain([install]).collect()
}

/// apt-get with this action: it asks nothing, since the next line that is pasted would be the answer.
fn apt_get(action: &str) -> Command {
    Command::new("apt-get", [action, "-y"])
}

fn dnf(action: &str) -> Command {
    Command::new("dnf", [action, "-y"])
}

fn zypper(action: &str) -> Command {
    Command::new("zypper", ["--non-interactive", action])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::command_line;

    fn package(installer: Installer, name: &str, version: &str) -> Package {
        Package::new(installer, name, Some(version), "/env")
    }

    fn line(command: Option<Command>) -> String {
        command.map_or(String::new(), |command| command.to_string())
    }

    #[test]
    #[cfg_attr(windows, ignore = "the commands are those of Linux")]
    fn a_reinstallation_replaces_files_that_the_installer_has_recorded() {
        for (installer, name, expected) in [
            (
                Installer::Pip,
                "nvidia-cudnn-cu12",
                "pip install --force-reinstall --no-deps nvidia-cudnn-cu12==9.28.0.42",
            ),
            (
                Installer::Conda,
                "libcudnn",
                "env CONDA_PKGS_DIRS=/env/pkgs-reinstall conda install --yes --prefix /env --channel conda-forge \
                 --force-reinstall --copy libcudnn=9.28.0.42",
            ),
            (Installer::Dpkg, "libcudnn9-cuda-12", "apt-get install -y --reinstall libcudnn9-cuda-12=9.28.0.42"),
            (Installer::Rpm, "libcudnn9-cuda-12", "dnf reinstall -y libcudnn9-cuda-12"),
            (Installer::Archive, "cudnn-linux-x86_64-9.28.0.42_cuda12-archive", ""),
            (Installer::Application, "koharu", ""),
        ] {
            assert_eq!(line(reinstall(&package(installer, name, "9.28.0.42"))), expected);
        }
        assert_eq!(reinstall(&package(Installer::Pip, "torch", "2.2.0+cu121")), None);
    }

    #[test]
    #[cfg_attr(not(windows), ignore = "the commands are those of Windows")]
    fn commands_on_windows_are_those_of_its_shells() {
        let wheel = package(Installer::Pip, "nvidia-cudnn-cu12", "9.28.0.42");
        assert_eq!(
            line(reinstall(&wheel)),
            "python -m pip install --force-reinstall --no-deps nvidia-cudnn-cu12==9.28.0.42"
        );
        assert_eq!(line(upgrade(&wheel, "9.12")), r#"python -m pip install --upgrade "nvidia-cudnn-cu12>=9.12""#);
        let conda = package(Installer::Conda, "libcudnn", "9.28.0.42");
        assert_eq!(
            line(reinstall(&conda)),
            "conda install --yes --prefix /env --channel conda-forge --force-reinstall --copy libcudnn=9.28.0.42"
        );
        assert_eq!(
            line(install(Component::Cublas, 13, Installer::Pip)),
            r#"python -m pip install "nvidia-cublas==13.*""#
        );
        let apart = install_apart(Component::Cudnn, 13, Path::new(r"C:\a b"));
        let (command, dir) = apart.map_or((String::new(), PathBuf::new()), |(command, dir)| (command.to_string(), dir));
        assert_eq!(command, r#"python -m pip install --no-deps --target "C:\a b" nvidia-cudnn-cu13"#);
        assert_eq!(dir, Path::new(r"C:\a b\nvidia\cudnn\bin"));
        let root = std::env::temp_dir().join(format!("cudnn-probe-recorded-{}", std::process::id()));
        let record = root.join(r"Lib\site-packages\nvidia_cublas_cu12-12.9.1.4.dist-info");
        for dir in [record, root.join(r"Lib\site-packages\pip")] {
            std::fs::create_dir_all(dir).unwrap_or_default();
        }
        std::fs::write(root.join("python.exe"), "").unwrap_or_default();
        let owner = Package::new(Installer::Pip, "nvidia-cudnn-cu12", Some("9.28.0.42"), &root);
        let command = line(install_beside(&owner, Component::Cublas, 12, None));
        let _ = std::fs::remove_dir_all(&root);
        assert!(command.ends_with("--force-reinstall --no-deps nvidia-cublas-cu12==12.9.1.4"), "{command}");
    }

    #[test]
    fn a_hostile_record_gives_no_command() {
        for (name, version) in [
            ("nvidia-cudnn-cu12;touch X;#", "9"),
            ("--index-url=http://x", "9"),
            ("nvidia-cudnn-cu12", "9 --index-url=x"),
            ("", "9"),
        ] {
            let package = package(Installer::Pip, name, version);
            assert_eq!(reinstall(&package), None, "{name} {version}");
            assert!(name == "nvidia-cudnn-cu12" || replace(&[package], Component::Cudnn, 12).is_empty());
        }
    }

    #[test]
    #[cfg_attr(windows, ignore = "the commands are those of Linux")]
    fn packages_that_share_a_directory_are_all_removed_before_one_is_installed() {
        let two = [
            package(Installer::Pip, "nvidia-cudnn-cu12", "9.10"),
            package(Installer::Pip, "nvidia-cudnn-cu13", "9.28"),
        ];
        assert_eq!(
            command_line(&replace(&two, Component::Cudnn, 13)),
            "pip uninstall --yes nvidia-cudnn-cu12 nvidia-cudnn-cu13 && pip install nvidia-cudnn-cu13==9.28"
        );
        // An interrupted upgrade left the record of the older version.
        let twice = [
            package(Installer::Pip, "nvidia-cudnn-cu12", "9.10"),
            package(Installer::Pip, "nvidia-cudnn-cu12", "9.28"),
        ];
        assert_eq!(
            command_line(&replace(&twice, Component::Cudnn, 12)),
            "pip uninstall --yes nvidia-cudnn-cu12 && pip uninstall --yes nvidia-cudnn-cu12 && \
             pip install nvidia-cudnn-cu12==9.28"
        );
        let jit = [package(Installer::Pip, "nvidia-cudnn-jit-cu12", "9.19")];
        assert_eq!(
            command_line(&replace(&jit, Component::Cudnn, 11)),
            "pip install nvidia-cudnn-cu11 && pip uninstall --yes nvidia-cudnn-jit-cu12"
        );
        // NVIDIA publishes neither.
        assert!(replace(&jit, Component::CudnnJit, 11).is_empty() && replace(&jit, Component::Cudnn, 14).is_empty());
        let debian = [package(Installer::Dpkg, "libcudnn9-cuda-13", "9.28.0.42-1")];
        assert_eq!(
            command_line(&replace_by(&debian, Component::Cudnn, 12, Some("9.10.2.21"))),
            "apt-get remove -y libcudnn9-cuda-13 && apt-get install -y libcudnn9-cuda-12=9.10.2.21-1"
        );
        assert!(replace(&[package(Installer::Pip, "torch", "2.2.0")], Component::Cudnn, 13).is_empty());
        assert!(replace(&[], Component::Cudnn, 13).is_empty());
    }

    #[test]
    #[cfg_attr(windows, ignore = "the commands are those of Linux")]
    fn a_system_of_suse_is_served_by_zypper() {
        let root = std::env::temp_dir().join(format!("cudnn-probe-suse-{}", std::process::id()));
        std::fs::create_dir_all(root.join("usr/bin")).unwrap_or_default();
        std::fs::write(root.join("usr/bin/zypper"), "").unwrap_or_default();
        let package = Package::new(Installer::Rpm, "libcudnn9-cuda-12", Some("9.10.2.21-1"), &root);
        let lines = [
            line(reinstall(&package)),
            line(upgrade(&package, "9.12")),
            command_line(&replace_by(&[package], Component::Cudnn, 13, Some("9.19.0.56"))),
        ];
        let _ = std::fs::remove_dir_all(&root);
        assert_eq!(
            lines,
            [
                "zypper --non-interactive install --force libcudnn9-cuda-12=9.10.2.21-1",
                "zypper --non-interactive update libcudnn9-cuda-12",
                "zypper --non-interactive remove libcudnn9-cuda-12 && zypper --non-interactive install libcudnn9-cuda-13=9.19.0.56-1"
            ]
        );
    }

    #[test]
    #[cfg_attr(windows, ignore = "the commands are those of Linux")]
    fn other_libraries_are_installed_where_cudnn_is() {
        let conda = package(Installer::Conda, "libcudnn", "9.10.1.4");
        assert_eq!(
            line(install_beside(&conda, Component::Cublas, 12, None)),
            "conda install --yes --prefix /env --channel conda-forge libcublas cuda-version=12"
        );
        let debian = package(Installer::Dpkg, "libcudnn9-cuda-12", "9.10.1.4-1");
        assert_eq!(install_beside(&debian, Component::Nvrtc, 12, None), None);
        assert_eq!(line(install(Component::Cublas, 13, Installer::Pip)), "pip install 'nvidia-cublas==13.*'");
        assert_eq!(install(Component::Cublas, 13, Installer::Archive), None);
        assert_eq!(line(install_beside(&debian, Component::Nvrtc, 12, Some(9))), "apt-get install -y cuda-nvrtc-12-9");
        assert_eq!(
            line(upgrade(&conda, "9.12")),
            "conda install --yes --prefix /env --channel conda-forge 'libcudnn>=9.12'"
        );
        for name in ["torch", "nvidia-cudnn-cu12 --index-url=x"] {
            assert_eq!(upgrade(&package(Installer::Pip, name, "2.2.0"), "9.12"), None, "{name}");
        }
    }

    #[test]
    #[cfg_attr(windows, ignore = "the commands are those of Linux")]
    fn a_wheel_that_pip_has_recorded_is_installed_again() {
        let root = std::env::temp_dir().join(format!("cudnn-probe-recorded-{}", std::process::id()));
        let packages = root.join("lib/python3.12/site-packages");
        for record in ["nvidia_cublas_cu12-12.9.1.4", "nvidia_cuda_nvrtc-13.0.48", "nvidia_cuda_runtime_cu12-;x"] {
            std::fs::create_dir_all(packages.join(format!("{record}.dist-info"))).unwrap_or_default();
        }
        for file in ["bin/python3", "lib/python3.12/site-packages/pip/x"] {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap_or(&root)).unwrap_or_default();
            std::fs::write(file, "").unwrap_or_default();
        }
        let owner = Package::new(Installer::Pip, "nvidia-cudnn-cu12", Some("9.28.0.42"), &root);
        for (installer, component, cuda_major, expected) in [
            (Installer::Pip, Component::Cublas, 12, "--force-reinstall --no-deps nvidia-cublas-cu12==12.9.1.4"),
            (Installer::Pip, Component::Cublas, 13, "pip install 'nvidia-cublas==13.*'"),
            (Installer::Pip, Component::Nvrtc, 13, "--force-reinstall --no-deps nvidia-cuda-nvrtc==13.0.48"),
            // The record is of CUDA 13.
            (Installer::Pip, Component::Nvrtc, 14, "pip install 'nvidia-cuda-nvrtc==14.*'"),
            (Installer::Pip, Component::Cudart, 12, "pip install nvidia-cuda-runtime-cu12"),
            (Installer::Conda, Component::Cublas, 12, "libcublas cuda-version=12"),
        ] {
            let owner = Package { installer, ..owner.clone() };
            let command = line(install_beside(&owner, component, cuda_major, None));
            assert!(command.ends_with(expected), "{installer} {component} {cuda_major}: {command}");
        }
        let _ = std::fs::remove_dir_all(&root);
    }
}
