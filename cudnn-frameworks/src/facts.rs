//! What no file of a framework states: which release was built for which cuDNN and CUDA. Data with a source and a date.

/// The releases of a package from one on, up to the next fact of the same package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fact {
    /// The normalised name of the package.
    pub package: &'static str,
    /// The first release of which it is true.
    pub since: &'static str,
    /// The cuDNN that it was built for, or the oldest that it accepts: major, minor, patch.
    pub cudnn: Option<(u32, u32, u32)>,
    /// The CUDA release: major, and minor if it matters.
    pub cuda: Option<(u32, Option<u32>)>,
    /// The document.
    pub url: &'static str,
}

/// The day on which the documents were read.
pub const DATE: &str = "2026-11-22";

/// All facts, by package, oldest release first.
pub const FACTS: &[Fact] = &[];

/// The newest release of each package on [`DATE`]: facts say nothing of later ones.
pub const NEWEST: &[(&str, &str)] = &[];
