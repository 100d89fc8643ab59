//! Detects whether an aarch64 installation is for Jetson or for servers. Libraries do not contain this, so paths and
//! records are used.

use cudnn_probe::facts::entries_named;
use std::fmt;
use std::path::{Path, PathBuf};

use cudnn_probe::Host;

use super::evidence::Evidence;
use super::package::{Installer, Package};
use crate::files::{file_name, read_text};
use crate::package::conda;

/// The maximum size of apt's copy of an index in bytes.
const MAX_INDEX_LEN: u64 = 32 << 20;

/// The kind of aarch64 Linux that NVIDIA built a library for. File names and architecture are the same, but not the
/// GPUs that kernels are for.
///
/// Since CUDA 13, Jetson Thor runs builds for servers, but JetPack has separate packages for Jetson Orin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ArmVariant {
    /// L4T, the Linux of Jetson. NVIDIA's names are `linux-aarch64`, `aarch64-jetson` and `tegra`.
    L4t,
    /// Servers such as Grace that follow Arm's Server Base System Architecture. NVIDIA's name is `linux-sbsa`.
    Sbsa,
}

impl fmt::Display for ArmVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArmVariant::L4t => "Jetson (L4T)",
            ArmVariant::Sbsa => "server (SBSA)",
        })
    }
}

/// Returns the kind of an aarch64 installation and the evidence. `None` if the kind is unknown or contradictory.
pub(super) fn detect(dir: &Path, package: Option<&Package>, host: &Host) -> Option<(ArmVariant, Evidence)> {
    let of_path = || variant_in_path(dir).map(|variant| (variant, dir.display().to_string()));
    let of_package = || package.and_then(|package| variant_from_package(package, host));
    let (variant, source) = of_path().or_else(of_package)?;
    Some((variant, Evidence { value: format!("{variant} build"), source }))
}

/// Recognizes paths such as `/usr/local/cuda-12.6/targets/aarch64-linux/lib`.
fn variant_in_path(dir: &Path) -> Option<ArmVariant> {
    let target = dir.ancestors().find(|above| above.parent().is_some_and(|parent| parent.ends_with("targets")))?;
    match target.file_name()?.to_str()? {
        "aarch64-linux" => Some(ArmVariant::L4t),
        "sbsa-linux" => Some(ArmVariant::Sbsa),
        _ => None,
    }
}

fn variant_from_package(package: &Package, host: &Host) -> Option<(ArmVariant, String)> {
    let name = &package.name;
    match package.installer {
        Installer::Archive => {
            let variant = if name.starts_with("cudnn-linux-sbsa-") {
                ArmVariant::Sbsa
            } else {
                name.starts_with("cudnn-linux-aarch64-").then_some(ArmVariant::L4t)?
            };
            Some((variant, format!("the name of the directory {name}")))
        }
        // The index contains only server builds: see docs/measurements/aarch64-gpu-code.md.
        Installer::Pip => package
            .is_cudnn()
            .then(|| (ArmVariant::Sbsa, format!("{package}: NVIDIA's wheels for aarch64 are server builds"))),
        Installer::Conda => variant_from_conda(package),
        Installer::Dpkg => variant_from_apt(package, host),
        Installer::Rpm | Installer::WindowsInstaller | Installer::Application | Installer::Toolkit => None,
    }
}

/// Reads the dependency `arm-variant * tegra` or `arm-variant * sbsa` of a conda package.
fn variant_from_conda(package: &Package) -> Option<(ArmVariant, String)> {
    let records = conda::records(&package.root, &package.name, |name| name == package.name);
    let is_of_package =
        |record: &conda::CondaRecord| record.name == package.name && Some(&record.version) == package.version.as_ref();
    let record = records.into_iter().find(is_of_package)?;
    let variant = record.depends.iter().find_map(|dependency| {
        match dependency.strip_prefix("arm-variant ")?.split_whitespace().last()? {
            "tegra" => Some(ArmVariant::L4t),
            "sbsa" => Some(ArmVariant::Sbsa),
            _ => None,
        }
    })?;
    Some((variant, record.file.display().to_string()))
}

/// Returns the kind of the repository with this package, by apt's copies of indexes. `None` if both kinds contain it,
/// because some releases have the same number.
fn variant_from_apt(package: &Package, host: &Host) -> Option<(ArmVariant, String)> {
    let (name, version) = (format!("Package: {}", package.name), format!("Version: {}", package.version.as_ref()?));
    let has_package = |list: &Path| {
        let text = read_text(list, MAX_INDEX_LEN).unwrap_or_default();
        let has_line = |paragraph: &str, wanted: &str| paragraph.lines().any(|line| line == wanted);
        text.split("\n\n").any(|paragraph| has_line(paragraph, &name) && has_line(paragraph, &version))
    };
    let lists = entries_named(&host.system("/var/lib/apt/lists"), "*_Packages", |file| file.ends_with("_Packages"));
    let lists = lists.into_iter().filter_map(|list| Some((variant_from_repository(file_name(&list))?, list)));
    let found: Vec<(ArmVariant, PathBuf)> = lists.filter(|(_, list)| has_package(list)).collect();
    let (variant, list) = found.first()?;
    let is_only = found.iter().all(|(other, _)| other == variant);
    is_only.then(|| (*variant, list.display().to_string()))
}

/// Returns the kind of an NVIDIA repository, by the name of apt's copy of the index.
fn variant_from_repository(file: &str) -> Option<ArmVariant> {
    let of_cuda = |end: &str| file.contains("_compute_cuda_repos_") && file.contains(end);
    let is_local = |repository: &str| file.contains(repository);
    if file.starts_with("repo.download.nvidia.com_jetson_")
        || is_local("_cudnn-local-tegra-repo-")
        || of_cuda("_arm64_")
    {
        Some(ArmVariant::L4t)
    } else {
        (of_cuda("_sbsa_") || is_local("_cudnn-local-repo-")).then_some(ArmVariant::Sbsa)
    }
}

#[cfg(test)]
mod tests;
