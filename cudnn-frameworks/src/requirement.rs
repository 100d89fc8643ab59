//! The packages that a package requires (`Requires-Dist`), and whether what is installed meets that.

use crate::distribution::Distribution;
use crate::environment::Environment;

/// A requirement of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pin {
    /// As its metadata states it: `nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux"`.
    pub requirement: String,
    /// The normalised name of the required package.
    pub package: String,
    /// What is installed.
    pub state: PinState,
    /// The extra that it belongs to (`tensorflow[and-cuda]`); such a package is required only if one was asked for.
    pub extra: Option<String>,
}

/// Whether a requirement is met.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinState {
    /// By this version.
    Met(String),
    /// The package is installed in this version, which does not meet it.
    OtherVersion(String),
    /// The package is not installed.
    Missing,
}

/// The requirements of a package that concern CUDA.
pub(crate) fn pins(of: &Distribution, installed: &[Distribution], environment: &Environment) -> Vec<Pin> {
    let _ = (of, installed, environment);
    Vec::new()
}
