//! What no file of a framework states: which release was built for which cuDNN and CUDA. Data with a source and a date.

use std::str::FromStr;

/// The releases of a package from one on, up to the next fact of the same package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fact {
    /// The normalised name of the package.
    pub package: &'static str,
    /// The first release of which it is true.
    pub since: &'static str,
    /// The cuDNN that it was built for, or the oldest that it accepts: major, minor, patch. `None` if it needs none.
    pub cudnn: Option<(u32, u32, u32)>,
    /// The CUDA release: major, and minor if it matters.
    pub cuda: Option<(u32, Option<u32>)>,
    /// Where it was read.
    pub source: Reading,
}

/// What was read, where, and when. Rows that are read again later get a reading of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// What states it.
    pub evidence: Evidence,
    /// The document, or the page of the package.
    pub url: &'static str,
    /// The day: `2026-11-22`.
    pub date: &'static str,
}

/// What states a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// The metadata of releases in the package index (`Requires-Dist`).
    Metadata,
    /// The files in wheels of releases: a library that they contain, what theirs are linked to.
    Wheel,
    /// A document of the project or of NVIDIA.
    Document,
}

impl Evidence {
    /// In a word, for programs: `metadata`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Evidence::Metadata => "metadata",
            Evidence::Wheel => "wheel",
            Evidence::Document => "document",
        }
    }
}

const fn fact(
    package: &'static str,
    since: &'static str,
    cudnn: Option<(u32, u32, u32)>,
    cuda: Option<(u32, Option<u32>)>,
    source: Reading,
) -> Fact {
    Fact { package, since, cudnn, cuda, source }
}

const fn metadata(url: &'static str, date: &'static str) -> Reading {
    Reading { evidence: Evidence::Metadata, url, date }
}

const fn wheel(url: &'static str, date: &'static str) -> Reading {
    Reading { evidence: Evidence::Wheel, url, date }
}

const fn document(url: &'static str, date: &'static str) -> Reading {
    Reading { evidence: Evidence::Document, url, date }
}

// In the wheels of 4.4.0, 4.5.0, 4.6.0, 4.6.2, 4.6.3, 4.7.2 and 4.8.5.
const CT2: Reading = wheel("https://pypi.org/project/ctranslate2/", "2026-11-22");
const CUPY13: Reading = document("https://docs.cupy.dev/en/v13.2.0/install.html", "2026-11-22");
const CUPY14: Reading = document("https://docs.cupy.dev/en/latest/upgrade.html", "2026-11-22");
const JAX12: Reading = metadata("https://pypi.org/project/jax-cuda12-plugin/", "2026-11-22");
const JAX13: Reading = metadata("https://pypi.org/project/jax-cuda13-plugin/", "2026-11-22");
const ORT: Reading =
    document("https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html", "2026-11-22");
const ORT_EXTRAS: Reading = metadata("https://pypi.org/project/onnxruntime-gpu/", "2026-11-22");
const PADDLE: Reading = wheel("https://pypi.org/project/paddlepaddle-gpu/2.6.2/", "2026-11-22");
const TENSORFLOW: Reading = metadata("https://pypi.org/project/tensorflow/", "2026-11-22");
const TENSORRT: Reading =
    document("https://docs.nvidia.com/deeplearning/tensorrt/latest/getting-started/release-notes.html", "2026-11-22");
const TENSORRT8: Reading = document(
    "https://docs.nvidia.com/deeplearning/tensorrt/archives/tensorrt-861/support-matrix/index.html",
    "2026-11-22",
);
const TORCH: Reading = metadata("https://pypi.org/project/torch/", "2026-11-22");
const TE: Reading = wheel("https://pypi.org/project/transformer-engine-cu12/2.20.2/", "2026-11-22");
const TE13: Reading = wheel("https://pypi.org/project/transformer-engine-cu13/2.20.2/", "2026-11-22");

/// All facts, by package, oldest release first.
pub const FACTS: &[Fact] = &[
    // 4.4.0 and 4.5.0 to 4.6.2 contain the shims of these releases.
    fact("ctranslate2", "4.0.0", Some((8, 9, 7)), Some((12, None)), CT2),
    fact("ctranslate2", "4.5.0", Some((9, 1, 0)), Some((12, None)), CT2),
    fact("ctranslate2", "4.6.3", None, Some((12, None)), CT2),
    fact("cupy", "13.0.0", Some((8, 8, 0)), None, CUPY13),
    fact("cupy", "14.0.0", None, None, CUPY14),
    fact("cupy-cuda11x", "13.0.0", Some((8, 8, 0)), Some((11, None)), CUPY13),
    fact("cupy-cuda12x", "13.0.0", Some((8, 8, 0)), Some((12, None)), CUPY13),
    fact("cupy-cuda12x", "14.0.0", None, Some((12, None)), CUPY14),
    fact("cupy-cuda13x", "14.0.0", None, Some((13, None)), CUPY14),
    fact("jax-cuda12-plugin", "0.4.30", Some((9, 0, 0)), Some((12, None)), JAX12),
    fact("jax-cuda12-plugin", "0.4.31", Some((9, 1, 0)), Some((12, None)), JAX12),
    fact("jax-cuda12-plugin", "0.6.2", Some((9, 8, 0)), Some((12, None)), JAX12),
    fact("jax-cuda12-plugin", "0.12.0", Some((9, 10, 2)), Some((12, None)), JAX12),
    fact("jax-cuda13-plugin", "0.7.2", Some((9, 12, 0)), Some((13, None)), JAX13),
    // These are the builds of the Python package index. Microsoft's index has others for the same releases.
    fact("onnxruntime-gpu", "1.17.0", Some((8, 0, 0)), Some((11, Some(8))), ORT),
    fact("onnxruntime-gpu", "1.19.0", Some((9, 0, 0)), Some((12, None)), ORT),
    fact("onnxruntime-gpu", "1.28.0", Some((9, 0, 0)), Some((13, None)), ORT_EXTRAS),
    fact("paddlepaddle-gpu", "2.6.2", Some((8, 6, 0)), Some((11, Some(8))), PADDLE),
    fact("tensorflow", "2.14.0", Some((8, 7, 0)), Some((11, Some(8))), TENSORFLOW),
    fact("tensorflow", "2.15.0", Some((8, 9, 4)), Some((12, Some(2))), TENSORFLOW),
    fact("tensorflow", "2.16.0", Some((8, 9, 7)), Some((12, Some(3))), TENSORFLOW),
    fact("tensorflow", "2.18.0", Some((9, 3, 0)), Some((12, Some(5))), TENSORFLOW),
    fact("tensorrt-cu12-libs", "10.0.0", None, Some((12, None)), TENSORRT),
    fact("tensorrt-cu13-libs", "10.0.0", None, Some((13, None)), TENSORRT),
    fact("tensorrt-libs", "8.6.0", Some((8, 9, 0)), None, TENSORRT8),
    fact("tensorrt-libs", "10.0.0", None, None, TENSORRT),
    fact("torch", "2.0.0", Some((8, 5, 0)), Some((11, Some(7))), TORCH),
    fact("torch", "2.1.0", Some((8, 9, 2)), Some((12, Some(1))), TORCH),
    fact("torch", "2.4.0", Some((9, 1, 0)), Some((12, Some(1))), TORCH),
    fact("torch", "2.5.0", Some((9, 1, 0)), Some((12, Some(4))), TORCH),
    fact("torch", "2.7.0", Some((9, 5, 1)), Some((12, Some(6))), TORCH),
    fact("torch", "2.8.0", Some((9, 10, 2)), Some((12, Some(8))), TORCH),
    fact("torch", "2.11.0", Some((9, 19, 0)), Some((13, Some(0))), TORCH),
    fact("torch", "2.12.0", Some((9, 20, 0)), Some((13, Some(0))), TORCH),
    fact("torch", "2.14.0", Some((9, 24, 0)), Some((13, Some(0))), TORCH),
    fact("torch", "2.15.0", Some((9, 26, 0)), Some((13, Some(2))), TORCH),
    fact("transformer-engine-cu12", "2.20.2", Some((9, 12, 0)), Some((12, None)), TE),
    fact("transformer-engine-cu13", "2.20.2", Some((9, 12, 0)), Some((13, None)), TE13),
];

/// The newest release of each package in the package index, and the day on which it was the newest: facts say nothing of
/// later ones.
pub const NEWEST: &[(&str, &str, &str)] = &[
    ("ctranslate2", "4.8.5", "2026-11-22"),
    ("cupy", "14.2.0", "2026-11-22"),
    ("cupy-cuda11x", "13.6.0", "2026-11-22"),
    ("cupy-cuda12x", "14.2.0", "2026-11-22"),
    ("cupy-cuda13x", "14.2.0", "2026-11-22"),
    ("jax-cuda12-plugin", "0.12.0.1", "2026-11-22"),
    ("jax-cuda13-plugin", "0.12.0.1", "2026-11-22"),
    ("onnxruntime-gpu", "1.31.1", "2026-11-22"),
    ("paddlepaddle-gpu", "2.6.2", "2026-11-22"),
    ("tensorflow", "2.21.0", "2026-11-22"),
    ("tensorrt-cu12-libs", "11.4.0.106", "2026-11-22"),
    ("tensorrt-cu13-libs", "11.4.0.106", "2026-11-22"),
    ("tensorrt-libs", "11.4.0.106", "2026-11-22"),
    ("torch", "2.15.0", "2026-11-22"),
    ("transformer-engine-cu12", "2.20.2", "2026-11-22"),
    ("transformer-engine-cu13", "2.20.2", "2026-11-22"),
];

/// The fact about a release of a package, and whether the release is newer than the newest that was known.
pub(crate) fn about(package: &str, version: &str) -> Option<(&'static Fact, bool)> {
    let version = without_local(version)?;
    let is_since = |fact: &&Fact| fact.package == package && parse(fact.since).is_some_and(|since| since <= version);
    let fact = FACTS.iter().rfind(is_since)?;
    let newest = NEWEST.iter().find(|(known, ..)| *known == package).and_then(|(_, newest, _)| parse(newest));
    Some((fact, newest.is_none_or(|newest| version > newest)))
}

fn parse(version: &str) -> Option<pep440_rs::Version> {
    pep440_rs::Version::from_str(version).ok()
}

/// Is this version of a package that one, or a newer one?
#[must_use]
pub fn is_since(version: &str, since: &str) -> bool {
    without_local(version).is_some_and(|version| parse(since).is_some_and(|since| version >= since))
}

/// The version without `+cu128`.
fn without_local(version: &str) -> Option<pep440_rs::Version> {
    parse(version.split('+').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_in_order_and_each_package_has_a_newest_release() {
        for pair in FACTS.windows(2) {
            let [first, second] = pair else { continue };
            assert!(first.package <= second.package, "{first:?} {second:?}");
            if first.package == second.package {
                assert!(parse(first.since) < parse(second.since), "{first:?} {second:?}");
            }
        }
        for fact in FACTS {
            let newest = NEWEST.iter().find(|(package, ..)| *package == fact.package);
            assert!(newest.is_some_and(|(_, newest, _)| parse(newest) >= parse(fact.since)), "{fact:?}");
            assert!(fact.source.url.starts_with("https://") && is_day(fact.source.date), "{fact:?}");
            // Metadata and wheels are those of this package.
            let is_of_index = fact.source.url.starts_with(&format!("https://pypi.org/project/{}/", fact.package));
            assert_eq!(is_of_index, fact.source.evidence != Evidence::Document, "{fact:?}");
        }
        assert!(NEWEST.iter().all(|(package, ..)| FACTS.iter().any(|fact| fact.package == *package)));
        assert!(NEWEST.iter().all(|(.., date)| is_day(date)));
    }

    /// `2026-11-22`.
    fn is_day(text: &str) -> bool {
        let numbers: Vec<u32> = text.split('-').filter_map(|number| number.parse().ok()).collect();
        text.len() == 10 && matches!(numbers[..], [year, 1..=12, 1..=31] if year >= 2026)
    }

    #[test]
    fn the_fact_of_a_release_is_that_of_the_last_release_before_it() {
        let cudnn = |package, version| about(package, version).map(|(fact, is_newer)| (fact.cudnn, is_newer));
        for (package, version, expected) in [
            ("ctranslate2", "4.4.0", Some((Some((8, 9, 7)), false))),
            ("ctranslate2", "4.6.2", Some((Some((9, 1, 0)), false))),
            ("ctranslate2", "4.8.5", Some((None, false))),
            ("ctranslate2", "4.9.0", Some((None, true))),
            ("ctranslate2", "3.24.0", None),
            ("torch", "2.10.0+cu128", Some((Some((9, 10, 2)), false))),
            ("torch", "2.16.0.dev20261122+cu132", Some((Some((9, 26, 0)), true))),
            ("torch", "not a version", None),
            ("none", "1.0", None),
        ] {
            assert_eq!(cudnn(package, version), expected, "{package} {version}");
        }
    }
}
