//! Describes a package that owns a cuDNN, with the installer that manages it.

use std::fmt;
use std::path::PathBuf;

use cudnn_probe::Component;

/// The tool, or the way, by which a cuDNN was installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Installer {
    /// A wheel: pip, uv and others.
    Pip,
    /// conda, mamba or pixi.
    Conda,
    /// Debian's and Ubuntu's packages.
    Dpkg,
    /// RPM packages: Fedora, RHEL, SUSE.
    Rpm,
    /// NVIDIA's archive, unpacked by hand.
    Archive,
    /// NVIDIA's installer for Windows.
    WindowsInstaller,
    /// An application that ships its own cuDNN.
    Application,
    /// Files copied into a CUDA toolkit, which comes without cuDNN.
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

/// The package that a cuDNN belongs to, by its installer's records. Displayed as `pip nvidia-cudnn-cu12 9.28.0.42`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The tool that installed it.
    pub installer: Installer,
    /// The package's name: `nvidia-cudnn-cu12`.
    pub name: String,
    /// The package's full version: `9.28.0.42`. Some records have none.
    pub version: Option<String>,
    /// The environment that it is installed in, or the root of the system or application.
    pub root: PathBuf,
    /// Did the user forbid other versions (`apt-mark hold`)?
    pub is_held: bool,
}

impl Package {
    /// A package, by its installer's records.
    pub fn new(installer: Installer, name: &str, version: Option<&str>, root: impl Into<PathBuf>) -> Self {
        let (name, version) = (name.to_owned(), version.map(str::to_owned));
        Package { installer, name, version, root: root.into(), is_held: false }
    }

    /// Is this NVIDIA's package of cuDNN, and not a framework or an application that ships it?
    pub fn is_cudnn(&self) -> bool {
        match self.installer {
            Installer::Pip => self.name.starts_with("nvidia-cudnn"),
            Installer::Conda | Installer::Dpkg | Installer::Rpm => self.name.contains("cudnn"),
            Installer::Archive | Installer::WindowsInstaller | Installer::Application | Installer::Toolkit => false,
        }
    }

    /// The part of cuDNN that this package contains, if it is NVIDIA's package of cuDNN.
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
