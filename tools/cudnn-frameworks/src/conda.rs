//! conda's records of what it installed: `conda-meta/NAME-VERSION-BUILD.json`. Their build strings and dependencies state
//! what a framework was built for, which the metadata for Python (`.dist-info`) beside them does not.

mod build;
mod spec;

use std::path::{Path, PathBuf};

use cudnn_probe::{Version, read_bounded};
use serde::Deserialize;

use crate::distribution::Distribution;
use crate::environment::Environment;
use crate::kind::Kind;
use crate::requirement::{Pin, PinState};

pub(crate) use spec::lower_bound;

/// The most entries of `conda-meta` that are read, records, and bytes of one: most of them are a list of files.
const MAX_ENTRIES: usize = 20_000;
const MAX_RECORDS: usize = 256;
const MAX_LEN: u64 = 32 << 20;
/// The most dependencies of a record that are read.
const MAX_DEPENDENCIES: usize = 1_000;

/// A record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) version: String,
    build: String,
    /// As written: `cudnn >=9.10.1.4,<10.0a0`.
    dependencies: Vec<String>,
    pub(crate) file: PathBuf,
}

/// What the file of a record states; it has much more.
#[derive(Deserialize)]
struct Stated {
    name: String,
    version: String,
    #[serde(default)]
    build: String,
    #[serde(default)]
    depends: Vec<String>,
}

impl Record {
    /// Whether it is a build for CUDA. `None` if the record does not say so.
    pub(crate) fn uses_cuda(&self) -> Option<bool> {
        let names = || self.dependencies.iter().map(|dependency| spec::name(dependency));
        build::uses_cuda(&self.build)
            .or_else(|| names().any(|name| name == "cuda-version" || name == "__cuda").then_some(true))
    }

    /// The CUDA release that it was built for: that of the build string, or of the package that pins it.
    pub(crate) fn cuda(&self) -> Option<(u32, Option<u32>)> {
        let pinned = || {
            let pin = self.dependencies.iter().find(|dependency| spec::name(dependency) == "cuda-version")?;
            let bound = spec::lower_bound(pin)?;
            Some((*bound.first()?, bound.get(1).copied()))
        };
        build::cuda(&self.build).or_else(pinned)
    }

    /// The release of cuDNN in its build string: `py3.11_cuda12.1_cudnn8.9.2_0`.
    pub(crate) fn cudnn(&self) -> Option<Version> {
        build::cudnn(&self.build)
    }
}

/// The records of an environment that matter to frameworks. None if it is not one of conda's.
pub(crate) fn records(environment: &Environment) -> Vec<Record> {
    let entries = std::fs::read_dir(environment.root.join("conda-meta")).into_iter().flatten().take(MAX_ENTRIES);
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_wanted))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files.truncate(MAX_RECORDS);
    files.into_iter().filter_map(read).collect()
}

/// Whether the record with this file name is of a framework, or of a library of CUDA.
fn is_wanted(file: &str) -> bool {
    let name = file.strip_suffix(".json").and_then(|stem| stem.rsplitn(3, '-').nth(2)).unwrap_or_default();
    is_cuda(name) || crate::KINDS.iter().any(|kind| kind.conda_packages.contains(&name))
}

/// Whether a package of conda concerns CUDA: its name at build time, or that of one of its libraries.
fn is_cuda(name: &str) -> bool {
    const NAMES: [&str; 4] = ["cudatoolkit", "cudnn", "pytorch-cuda", "nccl"];
    const PREFIXES: [&str; 8] =
        ["cuda-", "libcudnn", "libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnvjitlink"];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn read(file: PathBuf) -> Option<Record> {
    let bytes = read_bounded(&file, MAX_LEN).ok()?;
    let Stated { name, version, build, mut depends } = serde_json::from_slice(&bytes).ok()?;
    depends.truncate(MAX_DEPENDENCIES);
    Some(Record { name, version, build, dependencies: depends, file })
}

/// The records of a framework's packages: those of the version that Python's metadata states, since pip may have
/// installed another over it.
pub(crate) fn of<'a>(kind: &Kind, distribution: &Distribution, records: &'a [Record], root: &Path) -> Vec<&'a Record> {
    let version = distribution.version.split('+').next().unwrap_or_default();
    let is_of = |record: &&Record| kind.conda_packages.contains(&record.name.as_str()) && record.version == version;
    let is_here = distribution.import_dir.starts_with(root);
    records.iter().filter(|record| is_here && is_of(record)).collect()
}

/// The dependencies of these records that concern CUDA, each once.
pub(crate) fn pins(of: &[&Record], records: &[Record]) -> Vec<Pin> {
    let mut pins: Vec<Pin> = Vec::new();
    for dependency in of.iter().flat_map(|record| &record.dependencies) {
        let package = spec::name(dependency);
        if !is_cuda(package) || pins.iter().any(|pin| pin.requirement == *dependency) {
            continue;
        }
        let installed = records.iter().find(|record| record.name == package);
        let state = installed.map_or(PinState::Missing, |record| {
            let found = || record.version.clone();
            match spec::accepts(dependency, &record.version, &record.build) {
                Ok(true) => PinState::Met(found()),
                Ok(false) => PinState::OtherVersion(found()),
                Err(reason) => PinState::Unknown(reason),
            }
        });
        pins.push(Pin {
            requirement: dependency.clone(),
            package: package.to_owned(),
            state,
            extra: None,
            through: None,
        });
    }
    pins
}
