//! What no file of a framework states: which release was built for which cuDNN and CUDA. Data with a source and a date.

use std::str::FromStr;

use pep508_rs::pep440_rs;

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
    /// The document.
    pub url: &'static str,
}

/// The day on which the documents were read.
pub const DATE: &str = "2026-11-22";

const fn fact(
    package: &'static str,
    since: &'static str,
    cudnn: Option<(u32, u32, u32)>,
    cuda: Option<(u32, Option<u32>)>,
    url: &'static str,
) -> Fact {
    Fact { package, since, cudnn, cuda, url }
}

const CT2_RELEASES: &str = "https://github.com/OpenNMT/CTranslate2/releases/tag/v4.5.0";
const CT2_WITHOUT: &str = "https://github.com/OpenNMT/CTranslate2/pull/1949";
const CUPY13: &str = "https://docs.cupy.dev/en/v13.2.0/install.html";
const CUPY14: &str = "https://docs.cupy.dev/en/latest/upgrade.html";
const JAX12: &str = "https://pypi.org/project/jax-cuda12-plugin/";
const JAX13: &str = "https://pypi.org/project/jax-cuda13-plugin/";
const ORT: &str = "https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html";
const PADDLE: &str = "https://pypi.org/project/paddlepaddle-gpu/2.6.2/";
const TENSORFLOW: &str = "https://pypi.org/project/tensorflow/";
const TENSORRT: &str = "https://docs.nvidia.com/deeplearning/tensorrt/latest/getting-started/release-notes.html";
const TENSORRT8: &str = "https://docs.nvidia.com/deeplearning/tensorrt/archives/tensorrt-861/support-matrix/index.html";
const TORCH: &str = "https://pypi.org/project/torch/";
const TE: &str = "https://pypi.org/project/transformer-engine-cu12/2.20.2/";

/// All facts, by package, oldest release first.
pub const FACTS: &[Fact] = &[
    // 4.4.0 and 4.5.0 to 4.6.2 contain the shims of these releases.
    fact("ctranslate2", "4.0.0", Some((8, 9, 7)), Some((12, None)), CT2_RELEASES),
    fact("ctranslate2", "4.5.0", Some((9, 1, 0)), Some((12, None)), CT2_RELEASES),
    fact("ctranslate2", "4.6.3", None, Some((12, None)), CT2_WITHOUT),
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
    fact("onnxruntime-gpu", "1.28.0", Some((9, 0, 0)), Some((13, None)), ORT),
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
    fact("transformer-engine-cu13", "2.20.2", Some((9, 12, 0)), Some((13, None)), TE),
];

/// The newest release of each package on [`DATE`]: facts say nothing of later ones.
pub const NEWEST: &[(&str, &str)] = &[
    ("ctranslate2", "4.8.5"),
    ("cupy", "14.2.0"),
    ("cupy-cuda11x", "13.6.0"),
    ("cupy-cuda12x", "14.2.0"),
    ("cupy-cuda13x", "14.2.0"),
    ("jax-cuda12-plugin", "0.12.0.1"),
    ("jax-cuda13-plugin", "0.12.0.1"),
    ("onnxruntime-gpu", "1.31.1"),
    ("paddlepaddle-gpu", "2.6.2"),
    ("tensorflow", "2.21.0"),
    ("tensorrt-cu12-libs", "11.4.0.106"),
    ("tensorrt-cu13-libs", "11.4.0.106"),
    ("tensorrt-libs", "11.4.0.106"),
    ("torch", "2.15.0"),
    ("transformer-engine-cu12", "2.20.2"),
    ("transformer-engine-cu13", "2.20.2"),
];

/// The fact about a release of a package, and whether the release is newer than the newest that was known.
pub(crate) fn about(package: &str, version: &str) -> Option<(&'static Fact, bool)> {
    let version = without_local(version)?;
    let is_since = |fact: &&Fact| fact.package == package && parse(fact.since).is_some_and(|since| since <= version);
    let fact = FACTS.iter().rfind(is_since)?;
    let newest = NEWEST.iter().find(|(known, _)| *known == package).and_then(|(_, newest)| parse(newest));
    Some((fact, newest.is_none_or(|newest| version > newest)))
}

fn parse(version: &str) -> Option<pep440_rs::Version> {
    pep440_rs::Version::from_str(version).ok()
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
            let newest = NEWEST.iter().find(|(package, _)| *package == fact.package);
            assert!(newest.is_some_and(|(_, newest)| parse(newest) >= parse(fact.since)), "{fact:?}");
            assert!(fact.url.starts_with("https://"), "{fact:?}");
        }
        assert!(NEWEST.iter().all(|(package, _)| FACTS.iter().any(|fact| fact.package == *package)));
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
