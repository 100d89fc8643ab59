//! Provides the GPUs that the builds of a framework for different CUDA releases have kernels for. Each row in
//! `data/builds.json` has a source and a date. No row contains PTX, which the driver compiles for newer GPUs.

use std::collections::HashSet;
use std::sync::LazyLock;

use cudnn_probe::{Architecture, GpuCode};
use serde::Deserialize;

use super::kind::release_of;
use super::releases::{Citation, is_since};

/// The parsed file. A test checks that it is valid; if parsing failed, there would be no builds.
static BUILDS: LazyLock<Vec<Build>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/builds.json")).unwrap_or_default());

/// The builds of a range of releases for one CUDA release and one processor architecture.
#[derive(Debug, Deserialize)]
pub struct Build {
    /// The normalized name of the package.
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

/// The builds with kernels for a set of GPUs, as seen from one release of the package.
#[derive(Debug)]
pub enum Builds {
    /// The release has these builds.
    OfRelease(Vec<&'static Build>),
    /// Only older releases have builds. This is the last one.
    Older(&'static Build),
    /// Only newer releases have builds: these, the first release first, and one for each CUDA release.
    Newer(Vec<&'static Build>),
}

impl Build {
    /// Returns the CUDA major version.
    pub fn cuda_major(&self) -> Option<u32> {
        Some(release_of(self.cuda)?.0)
    }

    /// Returns the name that the version of the build contains, and its package index: `cu126`.
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

/// Returns the builds of a package for this processor that have kernels for all of these GPUs, whose compute
/// capabilities are in tenths. `is_usable` says whether the machine can use a CUDA major version.
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
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_builds_is_complete_and_in_order() {
        let builds: Vec<Build> = serde_json::from_str(include_str!("../../data/builds.json")).unwrap();
        assert!(!builds.is_empty() && builds.len() == BUILDS.len());
        for build in &builds {
            let capabilities = || build.kernels.split(' ').map(release_of);
            assert!(capabilities().all(|capability| capability.is_some()) && capabilities().is_sorted(), "{build:?}");
            assert!(build.before.is_none_or(|before| !is_since(build.since, before)), "{build:?}");
            assert!(build.source.url.starts_with("https://"), "{build:?}");
        }
        for architecture in ["x86-64", "aarch64"] {
            let of_it = || builds.iter().filter(|build| build.architecture == architecture);
            assert!(of_it().count() > 0 && of_it().is_sorted_by_key(|build| release_of(build.since)), "{architecture}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn builds_are_those_of_the_release_or_of_the_nearest_one() {
        let tags = |builds: &[&Build]| builds.iter().map(|build| build.tag()).collect::<Vec<_>>().join(" ");
        let names = |version: &str, gpus: &[u32], newest: u32| {
            for_gpus("torch", version, gpus, |major| major <= newest).map(|builds| match builds {
                Builds::OfRelease(builds) => tags(&builds),
                Builds::Older(build) => format!("{} before {}", build.tag(), build.before.unwrap_or_default()),
                Builds::Newer(builds) => format!("{} since {}", tags(&builds), builds[0].since),
            })
        };
        for (version, gpus, newest, expected) in [
            // Pascal, Maxwell and Volta.
            ("2.9.1+cu130", &[61][..], 13, Some("cu126")),
            ("2.12.0", &[52], 13, Some("cu126")),
            ("2.10.0", &[70], 13, Some("cu126 cu128")),
            ("2.15.0+cu132", &[70], 13, Some("cu126 before 2.15")),
            // Blackwell.
            ("2.6.0+cu124", &[120], 13, Some("cu128 cu129 cu130 cu132 since 2.7")),
            ("2.6.0+cu124", &[120], 12, Some("cu128 cu129 since 2.7")),
            ("2.9.1+cu126", &[120], 13, Some("cu128 cu130")),
            ("2.9.1+cu126", &[120], 12, Some("cu128")),
            ("2.13.0+cu126", &[103], 12, Some("cu128 before 2.12")),
            // Two GPUs.
            ("2.9.1+cu130", &[75, 61], 13, Some("cu126")),
            ("2.9.1+cu130", &[61, 120], 13, None),
            ("2.9.1+cu130", &[35], 13, None),
            // A version of a fork, and a driver that is too old for all builds.
            ("unknown", &[120], 13, None),
            ("2.6.0+cu118", &[120], 11, None),
        ] {
            assert_eq!(names(version, gpus, newest).as_deref(), expected, "{version} {gpus:?} {newest}");
        }
        assert!(for_gpus("tensorflow", "2.21.0", &[90], |_| true).is_none());
    }
}
