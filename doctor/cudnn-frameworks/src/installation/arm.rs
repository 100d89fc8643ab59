//! Detects whether an aarch64 installation was built for Jetson or for servers. Libraries do not contain this, so paths
//! and installers' records are used.

use cudnn_probe::facts::entries_named;
use std::fmt;
use std::path::{Path, PathBuf};

use cudnn_probe::Host;

use super::evidence::Evidence;
use super::package::{Installer, Package};
use crate::files::{file_name, read_text};
use crate::package::conda;

/// The maximum size of apt's copy of a repository index in bytes.
const MAX_INDEX_LEN: u64 = 32 << 20;

/// The kind of aarch64 Linux that NVIDIA built a library for. The libraries have the same file names and processor
/// architecture, but contain kernels for different GPUs.
///
/// Since CUDA 13, Jetson Thor runs builds for servers. JetPack still has separate packages with kernels for Jetson
/// Orin.
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

/// Returns the kind of this aarch64 installation and the evidence. `None` if the kind is unknown or the evidence is
/// contradictory.
pub(super) fn detect(dir: &Path, package: Option<&Package>, host: &Host) -> Option<(ArmVariant, Evidence)> {
    let of_path = || of_path(dir).map(|variant| (variant, dir.display().to_string()));
    let of_package = || package.and_then(|package| of_package(package, host));
    let (variant, source) = of_path().or_else(of_package)?;
    Some((variant, Evidence { value: format!("{variant} build"), source }))
}

/// Recognizes paths such as `/usr/local/cuda-12.6/targets/aarch64-linux/lib`.
fn of_path(dir: &Path) -> Option<ArmVariant> {
    let target = dir.ancestors().find(|above| above.parent().is_some_and(|parent| parent.ends_with("targets")))?;
    match target.file_name()?.to_str()? {
        "aarch64-linux" => Some(ArmVariant::L4t),
        "sbsa-linux" => Some(ArmVariant::Sbsa),
        _ => None,
    }
}

fn of_package(package: &Package, host: &Host) -> Option<(ArmVariant, String)> {
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
        // The package index contains only server builds: see docs/measurements/aarch64-gpu-code.md.
        Installer::Pip => package
            .is_cudnn()
            .then(|| (ArmVariant::Sbsa, format!("{package}: NVIDIA's wheels for aarch64 are server builds"))),
        Installer::Conda => of_conda(package),
        Installer::Dpkg => of_apt(package, host),
        Installer::Rpm | Installer::WindowsInstaller | Installer::Application | Installer::Toolkit => None,
    }
}

/// Returns the kind from a conda package that depends on `arm-variant * tegra` or `arm-variant * sbsa`.
fn of_conda(package: &Package) -> Option<(ArmVariant, String)> {
    let records = conda::records(&package.root, &package.name, |name| name == package.name);
    let record = records.into_iter().find(|record| Some(&record.version) == package.version.as_ref())?;
    let variant = record.depends.iter().find_map(|dependency| {
        match dependency.strip_prefix("arm-variant ")?.split_whitespace().last()? {
            "tegra" => Some(ArmVariant::L4t),
            "sbsa" => Some(ArmVariant::Sbsa),
            _ => None,
        }
    })?;
    Some((variant, record.file.display().to_string()))
}

/// Returns the kind of the repository with this version of the package, based on apt's copies of the indexes. `None` if
/// repositories of both kinds contain it, because some releases have the same number in both.
fn of_apt(package: &Package, host: &Host) -> Option<(ArmVariant, String)> {
    let (name, version) = (format!("Package: {}", package.name), format!("Version: {}", package.version.as_ref()?));
    let has_package = |list: &Path| {
        let text = read_text(list, MAX_INDEX_LEN).unwrap_or_default();
        let has_line = |paragraph: &str, wanted: &str| paragraph.lines().any(|line| line == wanted);
        text.split("\n\n").any(|paragraph| has_line(paragraph, &name) && has_line(paragraph, &version))
    };
    let lists = entries_named(&host.system("/var/lib/apt/lists"), "*_Packages", |file| file.ends_with("_Packages"));
    let lists = lists.into_iter().filter_map(|list| Some((of_repository(file_name(&list))?, list)));
    let found: Vec<(ArmVariant, PathBuf)> = lists.filter(|(_, list)| has_package(list)).collect();
    let (variant, list) = found.first()?;
    let is_only = found.iter().all(|(other, _)| other == variant);
    is_only.then(|| (*variant, list.display().to_string()))
}

/// Returns the kind of packages in an NVIDIA repository, based on the name of apt's copy of the index.
fn of_repository(file: &str) -> Option<ArmVariant> {
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
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn paths_and_records_determine_the_kind_of_aarch64() {
        const JETSON: &str = "repo.download.nvidia.com_jetson_common_dists_r36.4_main_binary-arm64_Packages";
        const SERVER: &str = "developer.download.nvidia.com_compute_cuda_repos_ubuntu2204_sbsa_Packages";
        const ON_JETSON: &str = "developer.download.nvidia.com_compute_cuda_repos_ubuntu2204_arm64_Packages";
        const LOCAL: &str = "_var_cudnn-local-tegra-repo-ubuntu2204-9.3.0_Packages";
        let other =
            "Package: libcudnn9-cuda-13\nVersion: 9.3.0.75-1\n\nPackage: libcudnn9-cuda-12\nVersion: 9.1.0.70-1\n";
        let index = &format!("{other}\nPackage: libcudnn9-cuda-12\nArchitecture: arm64\nVersion: 9.3.0.75-1\n");
        let conda = |variant: &str| {
            format!("{{\"depends\": [\"__glibc >=2.34\", \"arm-variant * {variant}\", \"libcublas\"]}}")
        };
        let (tegra, sbsa) = (&conda("tegra"), &conda("sbsa"));
        let lib = "usr/lib/aarch64-linux-gnu";
        let dpkg = Some((Installer::Dpkg, "libcudnn9-cuda-12", "9.3.0.75-1"));
        let conda = Some((Installer::Conda, "libcudnn", "9.10.2.21"));
        let record = "conda-meta/libcudnn-9.10.2.21-hc3efb29_0.json";
        let lists = |file: &str| format!("var/lib/apt/lists/{file}");
        let (l4t, server) = (Some(ArmVariant::L4t), Some(ArmVariant::Sbsa));
        for (number, (dir, package, files, expected)) in [
            ("usr/local/cuda-12.6/targets/aarch64-linux/lib", None, vec![], l4t),
            ("usr/local/cuda-13.0/targets/sbsa-linux/lib", None, vec![], server),
            ("usr/local/cuda-13.0/targets/x86_64-linux/lib", None, vec![], None),
            (lib, None, vec![], None),
            ("x/lib", Some((Installer::Archive, "cudnn-linux-aarch64-9.12.0.46_cuda12-archive", "9")), vec![], l4t),
            ("x/lib", Some((Installer::Archive, "cudnn-linux-sbsa-9.12.0.46_cuda12-archive", "9")), vec![], server),
            ("x/lib", Some((Installer::Archive, "cudnn-linux-x86_64-9.12.0.46_cuda12-archive", "9")), vec![], None),
            ("x/lib", Some((Installer::Pip, "nvidia-cudnn-cu12", "9.28.0.42")), vec![], server),
            ("x/lib", Some((Installer::Pip, "torch", "2.8.0")), vec![], None),
            (lib, dpkg, vec![(lists(JETSON), index)], l4t),
            (lib, dpkg, vec![(lists(ON_JETSON), index), (lists(LOCAL), index)], l4t),
            (lib, dpkg, vec![(lists(SERVER), index)], server),
            // The version is in both repositories, in neither, or the repository does not belong to NVIDIA.
            (lib, dpkg, vec![(lists(SERVER), index), (lists(JETSON), index)], None),
            (lib, dpkg, vec![(lists(JETSON), &other.to_owned())], None),
            (lib, dpkg, vec![(lists("ports.ubuntu.com_dists_jammy_main_binary-arm64_Packages"), index)], None),
            (lib, conda, vec![(record.to_owned(), tegra)], l4t),
            (lib, conda, vec![(record.to_owned(), sbsa)], server),
            (lib, conda, vec![("conda-meta/libcudnn-dev-9.10.2.21-h_0.json".to_owned(), sbsa)], None),
            (lib, conda, vec![(record.to_owned(), &r#"{"depends": ["arm-variant "]}"#.to_owned())], None),
        ]
        .into_iter()
        .enumerate()
        {
            let root = std::env::temp_dir().join(format!("cudnn-frameworks-arm-{}-{number}", std::process::id()));
            let files: Vec<(String, &String)> = files;
            for (file, text) in &files {
                let file: PathBuf = root.join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text).unwrap();
            }
            let package =
                package.map(|(installer, name, version)| Package::new(installer, name, Some(version), root.clone()));
            let found = detect(&root.join(dir), package.as_ref(), &Host::sandbox(&root));
            let _ = std::fs::remove_dir_all(&root);
            assert_eq!(found.as_ref().map(|(variant, _)| *variant), expected, "{dir} {package:?} {files:?}");
            let value = found.map(|(_, evidence)| evidence.value);
            assert_eq!(value, expected.map(|variant| format!("{variant} build")));
        }
    }
}
