//! Reads conda's records of packages (`conda-meta/NAME-VERSION-BUILD.json`). Unlike Python's metadata, build strings
//! and dependencies show what a framework was built for.

use cudnn_probe::facts::entries_named;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cudnn_probe::{Version, read_bounded};
use pep440_rs::VersionSpecifiers;
use serde::Deserialize;

use super::distribution::Distribution;
use super::names::PackageRecord;
use super::requirement::{Pin, PinState, clause, installed_version, lower_bound, name};
use crate::files::{file_name, fits};
use crate::framework::kind::{FrameworkKind, KINDS};

/// The maximum number of records, and of bytes and dependencies in a record.
const MAX_RECORDS: usize = 256;
const MAX_LEN: u64 = 32 << 20;
const MAX_DEPENDENCIES: usize = 1_000;

/// conda's record of an installed package.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct CondaRecord {
    /// The name of the package.
    #[serde(skip)]
    pub name: String,
    /// The version: `9.10.1.4`.
    #[serde(skip)]
    pub version: String,
    #[serde(skip)]
    build: String,
    /// The dependencies as written: `cudnn >=9.10.1.4,<10.0a0`.
    #[serde(default)]
    pub(crate) depends: Vec<String>,
    /// Paths below the root of the environment.
    #[serde(default)]
    pub files: Vec<String>,
    /// The path of the record.
    #[serde(skip)]
    pub file: PathBuf,
}

/// Returns the records of wanted packages. Empty if this is not a conda environment.
pub(crate) fn records(root: &Path, what: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<CondaRecord> {
    let is_wanted = |file: &str| parts(file).is_some_and(|[_, _, name]| is_wanted(name));
    let mut files = entries_named(&root.join("conda-meta"), what, is_wanted);
    files.truncate(MAX_RECORDS);
    files.into_iter().filter_map(read).collect()
}

/// Returns the records of all packages, without reading them.
pub fn conda_packages(root: &Path) -> Vec<PackageRecord> {
    let record = |path: PathBuf| {
        let [_, version, name] = parts(file_name(&path))?.map(str::to_owned);
        Some(PackageRecord { name, version: Some(version), path })
    };
    let files = entries_named(&root.join("conda-meta"), "*.json", |file| parts(file).is_some());
    files.into_iter().filter_map(record).collect()
}

/// Splits a record's file name into build, version and name of the package.
fn parts(file: &str) -> Option<[&str; 3]> {
    file.strip_suffix(".json")?.rsplitn(3, '-').collect::<Vec<_>>().try_into().ok()
}

fn read(file: PathBuf) -> Option<CondaRecord> {
    let mut record: CondaRecord = serde_json::from_slice(&read_bounded(&file, MAX_LEN).ok()?).ok()?;
    record.depends.truncate(MAX_DEPENDENCIES);
    let [build, version, name] = parts(file_name(&file))?.map(str::to_owned);
    Some(CondaRecord { name, version, build, file, ..record })
}

/// Returns the records of frameworks and CUDA libraries in an environment.
pub fn records_of_cuda(root: &Path) -> Vec<CondaRecord> {
    records(root, "frameworks", |name| is_cuda(name) || KINDS.iter().any(|kind| kind.conda_packages.contains(&name)))
}

fn is_cuda(name: &str) -> bool {
    const NAMES: [&str; 4] = ["cudatoolkit", "cudnn", "pytorch-cuda", "nccl"];
    const PREFIXES: [&str; 8] =
        ["cuda-", "libcudnn", "libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnvjitlink"];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl CondaRecord {
    /// Returns whether this is a CUDA build. `None` if the record does not show it.
    pub(crate) fn uses_cuda(&self) -> Option<bool> {
        let of_build = self.build.split('_').find_map(|part| match part {
            _ if part.starts_with("cuda") => Some(true),
            _ if part.starts_with("cpu") || part.starts_with("rocm") => Some(false),
            _ => None,
        });
        let mut names = self.depends.iter().map(|dependency| name(dependency));
        of_build.or_else(|| names.any(|name| name == "cuda-version" || name == "__cuda").then_some(true))
    }

    /// Returns the CUDA release in the build string, or in the requirement that pins it.
    pub fn cuda(&self) -> Option<(u32, Option<u32>)> {
        // 12.6 for `cuda126`, and 12.1 for `cuda12.1`.
        let of_build = self.build.split('_').find_map(|part| {
            let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
            let text = part.strip_prefix("cuda")?;
            let (major, minor) = match text.split_once('.') {
                Some((major, minor)) => (major.to_owned(), digits(minor)),
                None => (digits(text).get(..2)?.to_owned(), digits(text).get(2..)?.to_owned()),
            };
            Some((major.parse().ok()?, minor.parse().ok()))
        });
        let pinned = || {
            let pin = self.depends.iter().find(|dependency| name(dependency) == "cuda-version")?;
            let bound = lower_bound(pin)?;
            Some((*bound.first()?, bound.get(1).copied()))
        };
        of_build.or_else(pinned)
    }

    /// Returns the cuDNN release in the build string: `py3.11_cuda12.1_cudnn8.9.2_0`.
    pub(crate) fn cudnn(&self) -> Option<Version> {
        self.build.split('_').find_map(|part| part.strip_prefix("cudnn")?.parse().ok())
    }
}

/// Returns the records of a framework's packages with the version in Python's metadata, because pip may have installed
/// a different version over them.
pub(crate) fn of<'a>(
    kind: &FrameworkKind,
    distribution: &Distribution,
    records: &'a [CondaRecord],
    root: &Path,
) -> Vec<&'a CondaRecord> {
    let version = distribution.version.split('+').next().unwrap_or_default();
    let is_of =
        |record: &&CondaRecord| kind.conda_packages.contains(&record.name.as_str()) && record.version == version;
    let is_here = distribution.import_dir.starts_with(root);
    records.iter().filter(|record| is_here && is_of(record)).collect()
}

/// Returns the CUDA dependencies of these records without duplicates.
pub(crate) fn pins(of: &[&CondaRecord], records: &[CondaRecord]) -> Vec<Pin> {
    let mut pins: Vec<Pin> = Vec::new();
    for dependency in of.iter().flat_map(|record| &record.depends) {
        let package = name(dependency);
        if is_cuda(package) && !pins.iter().any(|pin| pin.requirement == *dependency) {
            let found = records.iter().find(|record| record.name == package);
            let state =
                |found: &CondaRecord| PinState::of(&found.version, accepts(dependency, &found.version, &found.build));
            pins.push(Pin::new(dependency.clone(), package.to_owned(), found.map_or(PinState::Missing, state)));
        }
    }
    pins
}

/// Returns the dependencies of these records that conflict with recorded packages.
pub fn unmet(records: &[CondaRecord]) -> Vec<String> {
    let is_unmet = |dependency: &&String| {
        let found = records.iter().find(|record| record.name == name(dependency));
        found.is_some_and(|found| accepts(dependency, &found.version, &found.build) != Ok(true))
    };
    let of = |record: &CondaRecord| record.depends.iter().filter(is_unmet).cloned().collect::<Vec<_>>();
    records.iter().flat_map(of).collect()
}

/// Returns whether a specification such as `cudatoolkit 11.8.* h1a2b3c4_0` accepts a version and a build, or the reason
/// why this is unknown.
fn accepts(spec: &str, version: &str, build: &str) -> Result<bool, String> {
    let mut words = spec.strip_prefix(name(spec)).unwrap_or_default().split_whitespace();
    let (wanted, wanted_build) = (words.next().unwrap_or("*"), words.next().unwrap_or("*"));
    if words.next().is_some() || wanted.contains(['|', '(', '[']) {
        return Err("the dependency has alternatives".into());
    }
    let clauses: Vec<String> = wanted.split(',').filter(|clause| *clause != "*").map(clause).collect();
    let specifiers = VersionSpecifiers::from_str(&clauses.join(",")).map_err(|_| "the dependency cannot be parsed")?;
    Ok(specifiers.contains(&installed_version(version)?) && fits(wanted_build, build))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_strings_of_all_channels_are_parsed() {
        for (build, expected) in [
            ("cuda126_mkl_py312_h1a2b3c4_300", (Some(true), Some((12, Some(6))), None)),
            ("cuda129_py312h1a2b3c4_200", (Some(true), Some((12, Some(9))), None)),
            ("cuda126py312h1a2b3c4_1", (Some(true), Some((12, Some(6))), None)),
            ("cuda12_py312h1a2b3c4_1", (Some(true), Some((12, None)), None)),
            ("py312h1a2b3c4_200_cuda", (Some(true), None, None)),
            ("py3.11_cuda12.1_cudnn8.9.2_0", (Some(true), Some((12, Some(1))), Some(Version::new(8, 9, 2)))),
            ("cpu_mkl_py312_h1a2b3c4_100", (Some(false), None, None)),
            ("py3.11_cpu_0", (Some(false), None, None)),
            ("py312h1a2b3c4_0", (None, None, None)),
            ("", (None, None, None)),
            ("cuda", (Some(true), None, None)),
            ("cudnn_cudaß", (Some(true), None, None)),
        ] {
            let record = CondaRecord { build: build.into(), ..CondaRecord::default() };
            assert_eq!((record.uses_cuda(), record.cuda(), record.cudnn()), expected, "{build}");
        }
    }

    #[test]
    fn specifications_are_compared_like_in_conda() {
        for (spec, version, expected) in [
            ("cudnn >=9.10.1.4,<10.0a0", "9.10.1.4", Some(true)),
            ("cudnn >=9.10.1.4,<10.0a0", "9.8.0.87", Some(false)),
            ("cudnn >=9.10.1.4,<10.0a0", "10.0.0.1", Some(false)),
            ("cudnn", "9.8.0.87", Some(true)),
            ("cudnn *", "9.8.0.87", Some(true)),
            ("cudnn 8.9.*", "8.9.7.29", Some(true)),
            ("cudnn 8.9*", "8.10.7.29", Some(false)),
            ("cudnn =8.9", "8.9.7.29", Some(true)),
            ("cudnn 8.9.7.29 h1_*", "8.9.7.29", Some(true)),
            ("cudnn 8.9.7.29 h2_*", "8.9.7.29", Some(false)),
            ("cudnn 8.9|9.0", "9.0", None),
            ("cudnn >=x", "9.0", None),
            ("cudnn >=9", "x", None),
        ] {
            assert_eq!(accepts(spec, version, "h1_0").ok(), expected, "{spec} {version}");
        }
    }
}
