//! The commands that repair or replace an installation: those of whoever installed it.

use cudnn_probe::{InstallationReport, Installer, Package, Version};

use super::finding::Help;
use crate::escape::Printable;
use crate::shell::{quoted, quoted_path};

/// Replaces damaged or missing files by those of the same release.
pub(super) fn reinstall(report: &InstallationReport) -> Help {
    let spec = |separator: &str, package: &Package| {
        let version = package.version.as_ref().map_or(String::new(), |version| format!("{separator}{version}"));
        quoted(&format!("{}{version}", package.name))
    };
    let Some(package) = &report.package else { return by_hand(report) };
    let help = Help::new(format!("reinstall {}, which owns these files:", package.name));
    match package.installer {
        Installer::Pip if package.name.starts_with("nvidia-cudnn") => {
            help.command(format!("pip install --force-reinstall --no-deps {}", spec("==", package)))
        }
        Installer::Conda => help.command(format!("conda install --force-reinstall {}", spec("=", package))),
        Installer::Dpkg => help.command(format!("apt-get install --reinstall {}", quoted(&package.name))),
        Installer::Rpm => help.command(format!("dnf reinstall {}", quoted(&package.name))),
        Installer::Pip | Installer::Application => {
            Help::new(format!("reinstall {}, which ships this cuDNN", package.name))
        }
        _ => by_hand(report),
    }
}

fn by_hand(report: &InstallationReport) -> Help {
    Help::new(format!("copy all files of one release to {}", report.dir.printable()))
}

/// Removes the files of cuDNN 9 and nothing else, then installs one release.
pub(super) fn clean_reinstall(report: &InstallationReport) -> Help {
    let dir = quoted_path(&report.dir);
    let mut help = reinstall(report);
    help.text = format!("remove the files of cuDNN 9 from the directory; then {}", help.text);
    help.commands.insert(0, format!("rm {dir}/libcudnn.so.9* {dir}/libcudnn_*.so.9*"));
    help
}

/// Installs the full cuDNN, for the same CUDA major as this installation if there is one.
pub(super) fn install(report: Option<&InstallationReport>) -> Help {
    let cuda = report.and_then(|report| report.cuda_major).unwrap_or(12);
    Help::new("install the full cuDNN into the program's environment:")
        .command(format!("pip install nvidia-cudnn-cu{cuda}"))
}

/// Installs a newer release, or one for another CUDA major.
pub(super) fn upgrade(report: &InstallationReport, minimum: Option<Version>, cuda_major: Option<u32>) -> Help {
    let is_wheel = |package: &&Package| package.installer == Installer::Pip && package.name.starts_with("nvidia-cudnn");
    let wheel = report.package.as_ref().filter(is_wheel);
    let wheel = match wheel.filter(|_| cuda_major.is_none() || cuda_major == report.cuda_major) {
        Some(package) => package.name.clone(),
        None => format!("nvidia-cudnn-cu{}", cuda_major.or(report.cuda_major).unwrap_or(12)),
    };
    let version = minimum.map_or(String::new(), |version| format!(">={version}"));
    Help::new("install it into the program's environment:")
        .command(format!("pip install {}", quoted(&format!("{wheel}{version}"))))
}

/// Installs a library of CUDA where cuDNN finds it.
pub(super) fn cuda_library(_report: &InstallationReport, name: &str, cuda_major: u32) -> Help {
    let package = if name.starts_with("libcublas") { "nvidia-cublas" } else { "nvidia-cuda-nvrtc" };
    let package = if cuda_major >= 13 { package.to_owned() } else { format!("{package}-cu{cuda_major}") };
    Help::new(format!("install it, or put the library directory of CUDA {cuda_major} on LD_LIBRARY_PATH:"))
        .command(format!("pip install {package}"))
}
