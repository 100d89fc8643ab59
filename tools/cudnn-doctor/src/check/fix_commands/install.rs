//! A cuDNN where there is none, or beside one that stays: in the active environment, or in a directory apart.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_probe::packages::{self, BasePython, Command, Component, Installer, Package, pip_on_path};
use cudnn_probe::{Origin, Os, Version};

use super::lines::lines;
use super::package_help::with_commands;
use super::places::{apart_dir, no_place};
use crate::check::finding::{Effect, Help};
use crate::check::installers::SystemTools;
use crate::check::limits::Choice;
use crate::check::machine::Machine;
use crate::check::suitable::{Suitable, suitable};
use crate::context::Context;
use crate::platform::python_in;
use crate::python;
use crate::shell::{doctor, prepend_library_path, quoted_path, use_dir};
use crate::system::LOADER;

/// The directory that JetPack's packages install cuDNN in.
const JETPACK_DIR: &str = "/usr/lib/aarch64-linux-gnu";

/// Installs the full cuDNN where there is none, and no framework of the active environment demands one: in the active
/// environment, or in a directory apart where the Python on `PATH` takes no packages.
pub(crate) fn install(context: &Context, machine: &Machine) -> Help {
    match suitable([], machine) {
        Ok(Suitable { cuda_major, requirement, .. }) => {
            let text = "install the full cuDNN in the program's environment:";
            install_wheel(context, text, (&requirement, cuda_major), None, &Choice::default())
        }
        Err(reason) => Help::new(reason),
    }
}

/// Installs the full cuDNN, by this requirement of a wheel, where programs of the active environment find it.
pub(super) fn install_wheel(
    context: &Context,
    text: impl Into<String>,
    (requirement, cuda_major): (&str, u32),
    minimum: Option<Version>,
    choice: &Choice,
) -> Help {
    let environments = context.search.environments();
    let is_active = |origin: &Origin| python::is_active(origin) || root_of_conda(origin).is_some();
    let python = environments.iter().find_map(|origin| match origin {
        Origin::Python(root) if python_in(root).is_file() => Some(root.as_path()),
        _ => None,
    });
    let base = python.map_or(BasePython::Managed { has_pip: false, has_ensurepip: false }, packages::base_python);
    // On Windows, every Python takes packages.
    if Os::HOST != Os::Windows
        && !environments.iter().any(is_active)
        && context.python.is_none()
        && let BasePython::Managed { has_pip, has_ensurepip } = base
        && let Some(help) =
            install_apart((requirement, cuda_major), python, has_pip, has_ensurepip, &SystemTools::here())
    {
        return help;
    }
    match in_environment(context, requirement, minimum, choice) {
        Some(command) => with_commands(text, &[command]),
        None => Help::new(format!("install {requirement} in the program's environment")),
    }
}

/// Installs the full cuDNN in a directory apart, with the pip of this Python or in a virtual environment.
pub(super) fn install_apart(
    (requirement, cuda_major): (&str, u32),
    python: Option<&Path>,
    has_pip: bool,
    has_ensurepip: bool,
    tools: &SystemTools,
) -> Option<Help> {
    let Some(dir) = apart_dir(Component::Cudnn, cuda_major) else { return Some(no_place()) };
    let program = python.map_or(PathBuf::from("python3"), python_in);
    let (why, commands) = if has_pip {
        // pip adds nothing to a directory that it has filled.
        let again = dir.exists().then_some("--upgrade");
        let pip = ["-I", "-m", "pip", "install"].into_iter().chain(again).chain(["--target"]).map(OsString::from);
        let arguments = pip.chain([dir.clone().into_os_string(), requirement.into()]);
        ("the system's Python takes no packages from pip", vec![Command::new(program, arguments)])
    } else {
        let tool = if has_ensurepip { None } else { Some(tools.python()?) };
        let venv = Command::new(program, ["-m".into(), "venv".into(), dir.clone().into_os_string()]);
        let install = Command::new(python_in(&dir), ["-I", "-m", "pip", "install", requirement]);
        ("the system's Python has no pip", tool.into_iter().chain([venv, install]).collect())
    };
    let text =
        format!("no environment is active, and {why}: install the full cuDNN in a directory apart, and use that:");
    let used = use_dir(&dir);
    let help = lines(&commands).into_iter().fold(Help::new(text), Help::command);
    Some(help.command(used).effect(Effect::OtherDir))
}

pub(super) fn requirement(wheel: &str, minimum: Option<Version>, choice: &Choice) -> String {
    match (&choice.exact, minimum) {
        (Some(exact), _) => format!("{wheel}=={exact}"),
        (None, Some(version)) => format!("{wheel}>={version}{}", choice.specifiers),
        (None, None) => wheel.to_owned(),
    }
}

/// The root of an environment of conda, which may be active by `PATH` alone.
fn root_of_conda(origin: &Origin) -> Option<&Path> {
    match origin {
        Origin::Conda(root) => Some(root.as_path()).filter(|root| root.is_dir()),
        Origin::Python(root) => Some(root.as_path()).filter(|root| root.join("conda-meta").is_dir()),
        _ => None,
    }
}

/// Installs a wheel in the active environment, or that release by conda. `None` if no command can do it there.
fn in_environment(context: &Context, requirement: &str, minimum: Option<Version>, choice: &Choice) -> Option<Command> {
    let pip = |root: Option<&Path>| packages::pip(root, "install", [requirement.to_owned()]);
    let by_conda = |root: &Path| {
        let package = Package::new(Installer::Conda, Component::Cudnn.conda_package(), None, root);
        let minimum = minimum.unwrap_or(Version::new(9, 0, 0));
        packages::upgrade(&package, &format!("{minimum}{}", choice.specifiers))
    };
    let environments = context.search.environments();
    let active = environments.iter().find_map(|origin| match origin {
        Origin::VirtualEnvironment(root) if root.is_dir() => Some(pip(Some(root.as_path()))),
        origin => root_of_conda(origin).map(by_conda),
    });
    if let Some(command) = active {
        return command;
    }
    let of_path = || {
        environments.iter().find_map(|origin| match origin {
            Origin::Python(root) if root.join("bin/python3").is_file() => pip(Some(root.as_path())),
            _ => None,
        })
    };
    let of_python = || Some(context.python.as_ref()?.pip("install", &[requirement]));
    of_python().or_else(of_path).or_else(|| pip(None))
}

/// Installs a cuDNN of this older major in a directory apart, and has ld.so search it; `None` if no wheel is of it, from
/// this version on, for this CUDA.
pub(in crate::check) fn install_older(minimum: Version, cuda_major: u32) -> Option<Help> {
    // The last wheel of cuDNN 8 for each CUDA.
    let last = match cuda_major {
        11 => Version::new(8, 9, 6),
        12 => Version::new(8, 9, 7),
        _ => return None,
    };
    if minimum.major != last.major || minimum > last {
        return None;
    }
    let Some(home) = apart_dir(Component::Cudnn, cuda_major) else { return Some(no_place()) };
    let dir = home.with_file_name(format!("cudnn-{}-cuda-{cuda_major}", last.major));
    let requirement = format!("{}>={minimum},<9", Component::Cudnn.wheel(cuda_major));
    // pip adds nothing to a directory that it has filled.
    let again = dir.exists().then_some("--upgrade");
    let pip = pip_on_path();
    let options = ["install"].into_iter().chain(again).chain(["--target"]).map(OsString::from);
    let arguments = options.chain([dir.clone().into_os_string(), requirement.into()]);
    let install = Command::new(pip.program, pip.arguments.into_iter().chain(arguments));
    // cuDNN 8 finds the cuBLAS beside it by ld.so's search alone.
    let cublas = prepend_library_path(&dir.join(Component::Cublas.wheel_dir(cuda_major)))?;
    let cudnn = prepend_library_path(&dir.join(Component::Cudnn.wheel_dir(cuda_major)))?;
    let text = format!("install cuDNN 8 in a directory apart, beside any cuDNN 9, and have {LOADER} search it:");
    Some(with_commands(text, &[install]).command(cublas).command(cudnn).effect(Effect::Other))
}

/// Installs the cuDNN of JetPack's packages, and has programs use it.
pub(in crate::check) fn install_jetpack(cuda_major: u32, product: &str) -> Help {
    let text = format!("install the cuDNN of JetPack, which has kernels for {product}, and use that:");
    let install = packages::install(Component::Cudnn, cuda_major, Installer::Dpkg);
    let used = format!("eval \"$({} env {})\"", doctor(), quoted_path(Path::new(JETPACK_DIR)));
    with_commands(text, install.as_slice()).command(used).effect(Effect::OtherDir)
}

#[cfg(test)]
mod tests {
    use cudnn_probe::packages::DEFAULT_CUDA_MAJOR;

    use super::*;

    #[test]
    fn a_python_that_takes_no_packages_gets_a_directory_apart() {
        let apt = || SystemTools::with(Some(Command::new("apt-get", ["install", "-y", "python3-venv"])), false);
        let dir = apart_dir(Component::Cudnn, DEFAULT_CUDA_MAJOR).unwrap_or_default();
        let dir = quoted_path(&dir);
        let venv =
            |python: &str| format!("{python} -m venv {dir}\n{dir}/bin/python3 -I -m pip install nvidia-cudnn-cu12");
        let python = Path::new("/nonexistent");
        let wheel = Component::Cudnn.wheel(DEFAULT_CUDA_MAJOR);
        for (python, has_pip, has_ensurepip, expected) in [
            (
                Some(python),
                true,
                false,
                format!("/nonexistent/bin/python3 -I -m pip install --target {dir} nvidia-cudnn-cu12"),
            ),
            (Some(python), false, true, venv("/nonexistent/bin/python3")),
            (
                Some(python),
                false,
                false,
                format!("apt-get install -y python3-venv\n{}", venv("/nonexistent/bin/python3")),
            ),
            (None, false, false, format!("apt-get install -y python3-venv\n{}", venv("python3"))),
        ] {
            let help = install_apart((&wheel, DEFAULT_CUDA_MAJOR), python, has_pip, has_ensurepip, &apt());
            let commands = help.map_or(Vec::new(), |help| help.commands).join("\n").replace("sudo ", "");
            assert!(commands.starts_with(&expected) && commands.contains("\neval "), "{commands}");
        }
        assert!(
            install_apart((&wheel, DEFAULT_CUDA_MAJOR), None, false, false, &SystemTools::with(None, false)).is_none()
        );
    }
}
