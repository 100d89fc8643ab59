//! Determines the CUDA, cuDNN and compute capabilities that a framework was built for, first from files and then from
//! [`releases`](crate::releases).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cudnn_probe::image::main_gpu_code;
use cudnn_probe::{GpuCode, Os, Version};

use super::kind::{FrameworkKind, cuda_in_name, needed};
use super::releases;
use super::version_file::{self, Statements};
use crate::files::{first_matching, matching};
use crate::library_names::CudnnName;
use crate::package::conda::CondaRecord;
use crate::package::distribution::Distribution;
use crate::package::requirement::{Pin, lower_bound};

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueSource {
    /// A file of the package.
    File(PathBuf),
    /// A requirement in the package's metadata.
    Requirement(String),
    /// An entry in [`releases`], if no file contains the value.
    Fact {
        /// The source and date of the entry.
        citation: releases::Citation,
        /// The package is newer than all releases that were known at that date.
        is_older_than_package: bool,
    },
}

/// A value with a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated<T> {
    /// The value.
    pub value: T,
    /// The source of the value.
    pub source: ValueSource,
}

/// The build targets of a framework.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltFor {
    /// Whether the framework supports NVIDIA GPUs. `false` for CPU-only and ROCm builds.
    pub uses_gpu: Option<Stated<bool>>,
    /// The AMD ROCm release of a ROCm build. Empty if the release is unknown.
    pub rocm: Option<Stated<String>>,
    /// The CUDA release: the major version, and the minor version if known.
    pub cuda: Option<Stated<(u32, Option<u32>)>>,
    /// The oldest cuDNN that the framework accepts. Newer releases must have the same major version.
    pub cudnn: Option<Stated<Version>>,
    /// The compute capabilities of most kernels, and the file that contains them.
    pub gpu_code: Option<Stated<BTreeSet<GpuCode>>>,
    /// The framework compiles kernels for the present GPU (XLA, Triton), so prebuilt kernels need not match it.
    pub compiles_at_run_time: bool,
}

type Cuda = (u32, Option<u32>);

impl<T> Stated<T> {
    fn by_file(value: T, file: &Path) -> Option<Self> {
        Some(Stated { value, source: ValueSource::File(file.to_owned()) })
    }

    fn by_fact(value: T, fact: &releases::Fact, is_older_than_package: bool) -> Option<Self> {
        Some(Stated { value, source: ValueSource::Fact { citation: fact.source, is_older_than_package } })
    }
}

pub(crate) fn read(
    kind: &FrameworkKind,
    of: &Distribution,
    dir: Option<&Path>,
    pins: &[Pin],
    conda: &[&CondaRecord],
    os: Os,
    reads_kernels: bool,
) -> BuiltFor {
    let statements = dir.map(|dir| version_file::read(kind, dir)).unwrap_or_default();
    let linked = dir.map(|dir| linked(kind, dir, os)).unwrap_or_default();
    let files = FrameworkFiles { kind, of, metadata: of.info_dir.join("METADATA"), dir, statements, linked, os };
    if let Some(rocm) = files.rocm() {
        let uses_gpu = Some(Stated { value: false, source: rocm.source.clone() });
        return BuiltFor { uses_gpu, rocm: Some(rocm), ..BuiltFor::default() };
    }
    let uses_gpu = from_conda(conda, CondaRecord::uses_cuda).or_else(|| files.uses_gpu());
    if uses_gpu.as_ref().is_some_and(|uses_gpu| !uses_gpu.value) {
        return BuiltFor { uses_gpu, ..BuiltFor::default() };
    }
    let cuda = from_conda(conda, CondaRecord::cuda).or_else(|| files.cuda());
    BuiltFor {
        uses_gpu,
        rocm: None,
        cudnn: from_conda(conda, CondaRecord::cudnn).or_else(|| files.cudnn(pins, cuda.as_ref())),
        cuda,
        gpu_code: files.kernels().filter(|_| reads_kernels).and_then(|file| {
            let code = main_gpu_code(&file).ok().filter(|code| !code.is_empty())?;
            Stated::by_file(code, &file)
        }),
        compiles_at_run_time: kind.compiles_at_run_time,
    }
}

fn from_conda<T>(records: &[&CondaRecord], read: impl Fn(&CondaRecord) -> Option<T>) -> Option<Stated<T>> {
    records.iter().find_map(|record| Stated::by_file(read(record)?, &record.file))
}

/// Returns the CUDA and cuDNN libraries that the framework's libraries are linked to, each with the linked library.
fn linked(kind: &FrameworkKind, dir: &Path, os: Os) -> Vec<(String, PathBuf)> {
    let patterns = kind.on(os).into_iter().flat_map(|binaries| binaries.libraries.iter().chain(&binaries.kernels));
    let start = if os == Os::Windows { "cu" } else { "libcu" };
    let names = |file: PathBuf| {
        let names = needed(&file, os).unwrap_or_default();
        names.into_iter().filter(|name| name.starts_with(start)).map(move |name| (name, file.clone()))
    };
    patterns.flat_map(|pattern| matching(dir, pattern)).flat_map(names).collect()
}

struct FrameworkFiles<'a> {
    kind: &'a FrameworkKind,
    of: &'a Distribution,
    metadata: PathBuf,
    dir: Option<&'a Path>,
    statements: Statements,
    linked: Vec<(String, PathBuf)>,
    os: Os,
}

impl FrameworkFiles<'_> {
    /// Returns the part of the version after `+`: `cu128`, `rocm6.2`, or an empty string.
    fn local(&self) -> &str {
        self.of.version.split_once('+').map_or("", |(_, local)| local)
    }

    /// Attributes a value to the version file.
    fn stated<T>(&self, value: Option<T>) -> Option<Stated<T>> {
        Stated::by_file(value?, self.statements.file.as_ref()?)
    }

    /// Returns the ROCm release of a ROCm build. Empty if the release is unknown.
    fn rocm(&self) -> Option<Stated<String>> {
        // Accepts `6` from `rocm6`, and `2`, but not a suffix such as `.git1a2b3c4`.
        let parts = self.local().split('.').map(|part| part.strip_prefix("rocm").unwrap_or(part));
        let numbers = parts.take_while(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        let release = numbers.collect::<Vec<_>>().join(".");
        let is_stated = self.local().starts_with("rocm") || self.kind.is_rocm_package(&self.of.name);
        let release = Some(release).filter(|_| is_stated).and_then(|release| Stated::by_file(release, &self.metadata));
        let library = || Stated::by_file(String::new(), &first_matching(self.dir?, self.kind.rocm_library?)?);
        self.stated(self.statements.rocm.clone()).or(release).or_else(library)
    }

    /// Returns whether the framework uses a GPU, by the version file, the package name or the libraries.
    fn uses_gpu(&self) -> Option<Stated<bool>> {
        if self.os == Os::Windows
            && let Some(citation) = self.kind.without_gpu_on_windows(&self.of.version)
        {
            let source = ValueSource::Fact { citation, is_older_than_package: false };
            return Some(Stated { value: false, source });
        }
        let metadata = || match self.local() {
            // JAX's first CUDA wheels were jaxlib builds with versions such as `0.4.26+cuda12.cudnn89`.
            local if local.starts_with("cu") => Stated::by_file(true, &self.metadata),
            local if local.starts_with("cpu") => Stated::by_file(false, &self.metadata),
            _ if self.kind.is_cpu_package(&self.of.name) => Stated::by_file(false, &self.metadata),
            _ => None,
        };
        let library = || Stated::by_file(true, &self.kernels()?);
        self.stated(self.statements.uses_gpu).or_else(metadata).or_else(library)
    }

    fn kernels(&self) -> Option<PathBuf> {
        first_matching(self.dir?, self.kind.on(self.os)?.kernels?)
    }

    fn cuda(&self) -> Option<Stated<Cuda>> {
        let local = || {
            // `cu128` is 12.8, and `cuda12.cudnn89` is 12.
            let digits = digits(self.local().strip_prefix("cu")?.trim_start_matches("da"));
            let value = (digits.get(..2)?.parse().ok()?, digits.get(2..).and_then(|minor| minor.parse().ok()));
            Stated::by_file(value, &self.metadata)
        };
        let linked = |(name, file): &(String, PathBuf)| {
            const STARTS: [&str; 4] = ["libcudart.so.", "libcublas.so.", "cudart64_", "cublas64_"];
            let version = digits(STARTS.iter().find_map(|start| name.strip_prefix(start))?);
            // `cudart64_110.dll` belongs to CUDA 11.0.
            Stated::by_file((version.get(..2).unwrap_or(version).parse().ok()?, None), file)
        };
        let fact = || {
            let (fact, is_newer) = releases::about(&self.of.name, &self.of.version)?;
            Stated::by_fact(fact.cuda?, fact, is_newer)
        };
        self.stated(self.statements.cuda.as_deref().and_then(cuda_release))
            .or_else(local)
            .or_else(|| Stated::by_file((cuda_in_name(&self.of.name)?, None), &self.metadata))
            .or_else(|| self.linked.iter().find_map(linked))
            .or_else(fact)
    }

    /// Returns the cuDNN version from the first of these sources: requirement, bundled copy, version file, facts. A
    /// dependency on a different major version overrides them.
    fn cudnn(&self, pins: &[Pin], cuda: Option<&Stated<Cuda>>) -> Option<Stated<Version>> {
        let pinned = |pin: &Pin| {
            let source = ValueSource::Requirement(pin.requirement.clone());
            Some(Stated { value: oldest_cudnn(pin)?, source })
        };
        let names = || self.linked.iter().filter_map(|(name, file)| Some((CudnnName::parse(name)?, file)));
        let bundled = || names().filter(|(name, _)| name.is_mangled);
        let fact = || {
            let (fact, is_newer) = releases::about(&self.of.name, &self.of.version)?;
            // A build for a different CUDA may use a different cuDNN.
            let is_other_build = fact.cuda.zip(cuda).is_some_and(|(known, cuda)| !is_same_cuda(known, cuda.value));
            Stated::by_fact(fact.cudnn.filter(|_| !is_other_build)?, fact, is_newer)
        };
        // TensorFlow records only a major version.
        let parse = |text: &str| text.parse().ok().or_else(|| Some(Version::new(text.parse().ok()?, 0, 0)));
        let file = self.stated(self.statements.cudnn.as_deref().and_then(parse));
        let best = pins.iter().find_map(pinned);
        let best = best.or_else(|| bundled().find_map(|(name, file)| Stated::by_file(name.version?, file)));
        let best = best.or_else(|| file.clone().filter(|file| file.value.minor > 0)).or_else(fact);
        let linked = names().find_map(|(name, file)| Stated::by_file(Version::new(name.major?, 0, 0), file));
        match (best, linked.or(file)) {
            (Some(best), Some(major)) if best.value.major != major.value.major => Some(major),
            (best, major) => best.or(major),
        }
    }
}

/// Returns the oldest cuDNN that a requirement accepts. Frameworks require at least the version that they were built
/// with.
fn oldest_cudnn(pin: &Pin) -> Option<Version> {
    let of_wheel = pin.package.strip_prefix("nvidia-cudnn-cu").is_some_and(|cuda| cuda.parse::<u32>().is_ok());
    let is_cudnn = of_wheel || matches!(pin.package.as_str(), "cudnn" | "libcudnn");
    let numbers = lower_bound(&pin.requirement).filter(|_| is_cudnn)?;
    let number = |index: usize| numbers.get(index).copied().unwrap_or(0);
    Some(Version::new(number(0), number(1), number(2)))
}

fn digits(text: &str) -> &str {
    text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default()
}

/// Parses 12.5 from `12.5.1`, and 12 from `12.x`.
fn cuda_release(text: &str) -> Option<Cuda> {
    let mut numbers = text.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next().and_then(|minor| minor.parse().ok())))
}

fn is_same_cuda((major, minor): Cuda, (other, other_minor): Cuda) -> bool {
    major == other && minor.zip(other_minor).is_none_or(|(minor, other)| minor == other)
}
