//! The GPUs that a framework's builds for different CUDA releases have kernels for. Each row in `data/builds.json` has
//! a source and a date. No row contains PTX, which the driver compiles for newer GPUs.

use std::collections::HashSet;
use std::sync::LazyLock;

use cudnn_probe::{Architecture, GpuCode};
use serde::Deserialize;

use super::kind::release_of;
use super::releases::{Citation, is_since};

/// The parsed file. A test checks that it is valid.
static BUILDS: LazyLock<Vec<Build>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/builds.json")).unwrap_or_default());

/// The builds of a range of releases for one CUDA release and one processor architecture.
#[derive(Debug, Deserialize)]
pub struct Build {
    package: &'static str,
    architecture: &'static str,
    /// The CUDA release: `12.6`.
    pub cuda: &'static str,
    /// The first release of the package with this build.
    pub since: &'static str,
    /// The first later release without it.
    pub before: Option<&'static str>,
    /// The compute capabilities, separated by blanks.
    kernels: &'static str,
    /// The source of the row.
    #[serde(flatten)]
    pub source: Citation,
}

/// The builds with kernels for a set of GPUs, relative to one release.
#[derive(Debug)]
pub enum Builds {
    /// The release has these builds.
    OfRelease(Vec<&'static Build>),
    /// Only older releases have builds. This is the newest.
    Older(&'static Build),
    /// Only newer releases have builds: the first one for each CUDA release.
    Newer(Vec<&'static Build>),
}

impl Build {
    /// Returns the CUDA major version.
    pub fn cuda_major(&self) -> Option<u32> {
        Some(release_of(self.cuda)?.0)
    }

    /// Returns the tag of the build, as in versions and package indexes: `cu126`.
    pub fn tag(&self) -> String {
        format!("cu{}", self.cuda.replace('.', ""))
    }

    fn runs_on(&self, compute_capability: u32) -> bool {
        let number = |text: &str| release_of(text).map(|(major, minor)| major * 10 + minor);
        let mut code = self.kernels.split(' ').filter_map(number);
        code.any(|code| GpuCode { compute_capability: code, is_ptx: false }.runs_on(compute_capability))
    }

    fn includes(&self, version: &str) -> bool {
        is_since(version, self.since) && !self.is_older_than(version)
    }

    fn is_newer_than(&self, version: &str) -> bool {
        is_since(self.since, version)
    }

    fn is_older_than(&self, version: &str) -> bool {
        self.before.is_some_and(|before| is_since(version, before))
    }
}

/// Returns a package's builds for this processor with kernels for these GPUs (compute capabilities in tenths).
/// `is_usable` says whether the machine can use a CUDA major version.
pub fn for_gpus(
    package: &str,
    version: &str,
    compute_capabilities: &[u32],
    is_usable: impl Fn(u32) -> bool,
) -> Option<Builds> {
    let architecture = Architecture::HOST.to_string();
    let suits = |build: &&Build| {
        build.package == package
            && build.architecture == architecture
            && compute_capabilities.iter().all(|gpu| build.runs_on(*gpu))
            && build.cuda_major().is_some_and(&is_usable)
    };
    let builds: Vec<&Build> = BUILDS.iter().filter(suits).collect();
    let of_release: Vec<&Build> = builds.iter().copied().filter(|build| build.includes(version)).collect();
    if !of_release.is_empty() {
        return Some(Builds::OfRelease(of_release));
    }
    let older = builds.iter().filter(|build| build.is_older_than(version));
    if let Some(last) = older.max_by_key(|build| build.before.and_then(release_of)) {
        return Some(Builds::Older(last));
    }
    let mut cuda = HashSet::new();
    let newer = builds.iter().copied().filter(|build| build.is_newer_than(version) && cuda.insert(build.cuda));
    let newer: Vec<&Build> = newer.collect();
    (!newer.is_empty()).then_some(Builds::Newer(newer))
}

#[cfg(test)]
mod tests;
