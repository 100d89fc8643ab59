//! Packages that contain cuDNN, and their installers.

use std::fmt;
use std::path::PathBuf;

use cudnn_probe::{Component, Version, dir_of_wheel};

/// The tool or method that installed a cuDNN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Installer {
    /// A wheel, installed by pip, uv or another tool.
    Pip,
    /// conda, mamba or pixi.
    Conda,
    /// A Debian or Ubuntu package.
    Dpkg,
    /// An RPM package on Fedora, RHEL or SUSE.
    Rpm,
    /// NVIDIA's archive, unpacked by hand.
    Archive,
    /// NVIDIA's installer for Windows.
    WindowsInstaller,
    /// An application that ships cuDNN.
    Application,
    /// Files copied into a CUDA toolkit, which does not include cuDNN.
    Toolkit,
}

impl fmt::Display for Installer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Installer::Pip => "pip",
            Installer::Conda => "conda",
            Installer::Dpkg => "dpkg",
            Installer::Rpm => "rpm",
            Installer::Archive => "archive",
            Installer::WindowsInstaller => "NVIDIA's installer",
            Installer::Application => "application",
            Installer::Toolkit => "CUDA toolkit directory",
        })
    }
}

/// The package that a cuDNN belongs to, displayed as `pip nvidia-cudnn-cu12 9.28.0.42`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The tool that installed the package.
    pub installer: Installer,
    /// The package name: `nvidia-cudnn-cu12`.
    pub name: String,
    /// The full version: `9.28.0.42`. Some records do not contain a version.
    pub version: Option<String>,
    /// The environment with the package, or the root of the system or application.
    pub root: PathBuf,
    /// Whether the user put the package on hold (`apt-mark hold`).
    pub is_held: bool,
}

impl Package {
    /// Creates a package from an installer's records.
    pub fn new(installer: Installer, name: &str, version: Option<&str>, root: impl Into<PathBuf>) -> Self {
        let (name, version) = (name.to_owned(), version.map(str::to_owned));
        Package { installer, name, version, root: root.into(), is_held: false }
    }

    /// Returns the release in the version: 9.28.0 for `9.28.0.42`.
    pub fn release(&self) -> Option<Version> {
        let numbers: Vec<&str> = self.version.as_ref()?.split(['.', '-']).take(3).collect();
        numbers.join(".").parse().ok()
    }

    /// Returns whether this is NVIDIA's cuDNN package, and not a framework or an application.
    pub fn is_cudnn(&self) -> bool {
        match self.installer {
            // Not `nvidia-cudnn-frontend`.
            Installer::Pip => matches!(dir_of_wheel(&self.name).as_deref(), Some("cudnn" | "cudnn_jit")),
            Installer::Conda | Installer::Dpkg | Installer::Rpm => {
                self.name.contains("cudnn") && !self.name.contains("frontend")
            }
            Installer::Archive | Installer::WindowsInstaller | Installer::Application | Installer::Toolkit => false,
        }
    }

    /// Returns the cuDNN component in this package, if this is NVIDIA's cuDNN package.
    pub fn component(&self) -> Option<Component> {
        let component = if self.name.contains("-jit") { Component::CudnnJit } else { Component::Cudnn };
        self.is_cudnn().then_some(component)
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.installer, self.name)?;
        match &self.version {
            Some(version) => write!(f, " {version}"),
            None => Ok(()),
        }
    }
}
