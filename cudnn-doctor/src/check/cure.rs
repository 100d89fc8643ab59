//! What to run to have an installation whole again: the command of whoever installed it.

use cudnn_probe::{InstallationReport, Installer, Package};

use crate::shell::quoted;

/// Installs the same release again.
pub(super) fn reinstall(report: &InstallationReport) -> String {
    let version = |separator: &str, package: &Package| {
        package.version.as_ref().map_or(String::new(), |version| format!("{separator}{version}"))
    };
    match &report.package {
        Some(package) if package.installer == Installer::Pip && package.name.starts_with("nvidia-cudnn") => {
            format!("pip install --force-reinstall --no-deps {}{}", package.name, version("==", package))
        }
        Some(package) if package.installer == Installer::Conda => {
            format!("conda install --force-reinstall {}{}", package.name, version("=", package))
        }
        Some(package) if package.installer == Installer::Dpkg => format!("apt install --reinstall {}", package.name),
        Some(package) if package.installer == Installer::Rpm => format!("dnf reinstall {}", package.name),
        Some(package) if matches!(package.installer, Installer::Pip | Installer::Application) => {
            format!("install {} again, which brings this cuDNN", package.name)
        }
        _ => format!("put all files of one release into {}", quoted(&report.dir.to_string_lossy())),
    }
}

/// Removes cuDNN's files, and nothing else that is in the folder, then installs one release.
pub(super) fn clean_reinstall(report: &InstallationReport) -> String {
    let folder = quoted(&report.dir.to_string_lossy());
    format!("rm {folder}/libcudnn*, then {}", reinstall(report))
}

/// The wheel to install: the one that is there in another version, unless it is to be for another CUDA major.
pub(super) fn wheel(report: &InstallationReport, cuda: Option<u32>) -> String {
    let is_cudnns =
        |package: &&Package| package.installer == Installer::Pip && package.name.starts_with("nvidia-cudnn");
    let here = report.package.as_ref().filter(is_cudnns);
    match here.filter(|_| cuda.is_none() || cuda == report.cuda_major) {
        Some(package) => package.name.clone(),
        None => format!("nvidia-cudnn-cu{}", cuda.or(report.cuda_major).unwrap_or(12)),
    }
}
