//! What a framework was built for: CUDA, cuDNN, compute capabilities. From its files; what they do not state is in
//! [`facts`](crate::facts).

mod pin;
mod rocm;
mod statements;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cudnn_probe::{GpuCode, Os, ProbeError, Version, dll_search, ld_so, main_gpu_code};

use crate::conda::Record;
use crate::cudnn_name::CudnnName;
use crate::distribution::Distribution;
use crate::facts;
use crate::kind::{Kind, cuda_in_name, first_matching, matching};
use crate::requirement::Pin;
use statements::Statements;
pub(crate) use statements::own_version;

/// Where a statement comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// This file of the package, and what it says there.
    File(PathBuf),
    /// A requirement of the package's metadata.
    Requirement(String),
    /// No file of the package: one of [`FACTS`](facts::FACTS).
    Fact {
        /// Where that was read, and when.
        reading: facts::Reading,
        /// The newest release of the framework that was known then; the package is a newer one.
        is_older_than_package: bool,
    },
}

/// A value, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stated<T> {
    /// The value.
    pub value: T,
    /// Its source.
    pub source: Source,
}

/// What a framework was built for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuiltFor {
    /// Whether it can use a GPU of NVIDIA's: `false` for a build for the CPU alone, or for ROCm.
    pub uses_gpu: Option<Stated<bool>>,
    /// The release of AMD's ROCm that it was built for, empty if that is not stated. `None` if it was not.
    pub rocm: Option<Stated<String>>,
    /// The CUDA release: major, and minor if that is known.
    pub cuda: Option<Stated<(u32, Option<u32>)>>,
    /// The oldest cuDNN that it accepts. Its major is the only major that it accepts.
    pub cudnn: Option<Stated<Version>>,
    /// The compute capabilities of most of its kernels, and the file that contains them.
    pub gpu_code: Option<Stated<BTreeSet<GpuCode>>>,
    /// It compiles kernels for the GPU that it finds (XLA, Triton): no kernel that it contains has to fit.
    pub compiles_at_run_time: bool,
}

/// Reads what a framework was built for.
pub(crate) fn read(
    kind: &Kind,
    of: &Distribution,
    dir: Option<&Path>,
    pins: &[Pin],
    conda: &[&Record],
    os: Os,
    reads_kernels: bool,
) -> BuiltFor {
    let statements = dir.map(|dir| statements::read(kind, dir)).unwrap_or_default();
    if let Some(rocm) = rocm::read(kind, of, dir, &statements) {
        let uses_gpu = Some(Stated { value: false, source: rocm.source.clone() });
        return BuiltFor { uses_gpu, rocm: Some(rocm), ..BuiltFor::default() };
    }
    let uses_gpu = of_conda(conda, Record::uses_cuda).or_else(|| uses_gpu(kind, of, dir, &statements, os));
    if uses_gpu.as_ref().is_some_and(|uses_gpu| !uses_gpu.value) {
        return BuiltFor { uses_gpu, ..BuiltFor::default() };
    }
    let linked = dir.map(|dir| linked(kind, dir, os)).unwrap_or_default();
    let cuda = of_conda(conda, Record::cuda).or_else(|| cuda(of, &statements, &linked));
    let cudnn = cudnn(of, &statements, &linked, pins, cuda.as_ref());
    BuiltFor {
        uses_gpu,
        rocm: None,
        cudnn: of_conda(conda, Record::cudnn).or(cudnn),
        cuda,
        gpu_code: dir.filter(|_| reads_kernels).and_then(|dir| kernels(kind, dir, os)),
        compiles_at_run_time: kind.compiles_at_run_time,
    }
}

/// What the first of conda's records that states it states.
fn of_conda<T>(records: &[&Record], read: impl Fn(&Record) -> Option<T>) -> Option<Stated<T>> {
    records.iter().find_map(|record| Some(Stated { value: read(record)?, source: Source::File(record.file.clone()) }))
}

/// The day on which the documents on builds for Windows were read.
const DATE: &str = "2026-11-22";

/// Whether it uses a GPU: its version file states it, or the name of its package, or its libraries show it.
fn uses_gpu(
    kind: &Kind,
    of: &Distribution,
    dir: Option<&Path>,
    statements: &Statements,
    os: Os,
) -> Option<Stated<bool>> {
    if os == Os::Windows
        && let Some(url) = kind.without_gpu_on_windows(&of.version)
    {
        let reading = facts::Reading { evidence: facts::Evidence::Document, url, date: DATE };
        let source = Source::Fact { reading, is_older_than_package: false };
        return Some(Stated { value: false, source });
    }
    if let (Some(value), Some(file)) = (statements.uses_gpu, &statements.file) {
        return Some(Stated { value, source: Source::File(file.clone()) });
    }
    let metadata = Source::File(of.info_dir.join("METADATA"));
    // The first CUDA wheels of JAX were such a jaxlib: `0.4.26+cuda12.cudnn89`.
    let local = of.version.split_once('+').map_or("", |(_, local)| local);
    if local.starts_with("cu") {
        return Some(Stated { value: true, source: metadata });
    }
    if local.starts_with("cpu") || kind.cpu_packages.contains(&of.name.as_str()) {
        return Some(Stated { value: false, source: metadata });
    }
    let kernels = first_matching(dir?, kind.kernels_on(os)?)?;
    Some(Stated { value: true, source: Source::File(kernels) })
}

/// The libraries of CUDA and cuDNN that its libraries are linked to, and which library is.
fn linked(kind: &Kind, dir: &Path, os: Os) -> Vec<(String, PathBuf)> {
    let patterns = kind.libraries_on(os).into_iter().chain(kind.kernels_on(os));
    let start = if os == Os::Windows { "cu" } else { "libcu" };
    let files = patterns.flat_map(|pattern| matching(dir, pattern));
    files
        .flat_map(|file| {
            let names = needed(&file, os).unwrap_or_default();
            names.into_iter().map(move |name| (name, file.clone()))
        })
        .filter(|(name, _)| name.starts_with(start))
        .collect()
}

/// The names of the libraries that a library for this system is linked to.
pub(crate) fn needed(file: &Path, os: Os) -> Result<Vec<String>, ProbeError> {
    if os == Os::Windows { dll_search::imports(file) } else { ld_so::needed(file) }
}

fn cuda(
    of: &Distribution,
    statements: &Statements,
    linked: &[(String, PathBuf)],
) -> Option<Stated<(u32, Option<u32>)>> {
    let stated = || {
        let value = cuda_release(statements.cuda.as_deref()?)?;
        Some(Stated { value, source: Source::File(statements.file.clone()?) })
    };
    let local = || {
        // `cu128` is 12.8, and `cuda12.cudnn89` is 12.
        let (_, local) = of.version.split_once('+')?;
        let digits: String =
            local.trim_start_matches("cuda").trim_start_matches("cu").chars().map_while(digit).collect();
        let value = (digits.get(..2)?.parse().ok()?, digits.get(2..).and_then(|minor| minor.parse().ok()));
        local.starts_with("cu").then_some(Stated { value, source: Source::File(of.info_dir.join("METADATA")) })
    };
    let name = || {
        let value = (cuda_in_name(&of.name)?, None);
        Some(Stated { value, source: Source::File(of.info_dir.join("METADATA")) })
    };
    let linked = || {
        linked.iter().find_map(|(name, file)| {
            const STARTS: [&str; 4] = ["libcudart.so.", "libcublas.so.", "cudart64_", "cublas64_"];
            let version = STARTS.iter().find_map(|start| name.strip_prefix(start))?;
            // `cudart64_110.dll` is of CUDA 11.0.
            let digits: String = version.chars().map_while(digit).take(2).collect();
            let value = (digits.parse().ok()?, None);
            Some(Stated { value, source: Source::File(file.clone()) })
        })
    };
    let fact = || {
        let (fact, is_newer) = facts::about(&of.name, &of.version)?;
        Some(Stated { value: fact.cuda?, source: document(fact, is_newer) })
    };
    stated().or_else(local).or_else(name).or_else(linked).or_else(fact)
}

fn digit(character: char) -> Option<char> {
    Some(character).filter(char::is_ascii_digit)
}

/// 12.5 of `12.5.1`, and 12 of `12.x`.
fn cuda_release(text: &str) -> Option<(u32, Option<u32>)> {
    let mut numbers = text.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next().and_then(|minor| minor.parse().ok())))
}

/// The cuDNN: the requirement states what it was built with, then the copy that it contains, its version file, and the
/// documents. If its libraries are linked to another major version, that counts.
fn cudnn(
    of: &Distribution,
    statements: &Statements,
    linked: &[(String, PathBuf)],
    pins: &[Pin],
    cuda: Option<&Stated<(u32, Option<u32>)>>,
) -> Option<Stated<Version>> {
    let pinned = || {
        let (version, requirement) =
            pins.iter().find_map(|pin| Some((pin::lower_bound(pin)?, pin.requirement.clone())))?;
        Some(Stated { value: version, source: Source::Requirement(requirement) })
    };
    let names = || linked.iter().filter_map(|(name, file)| Some((CudnnName::parse(name)?, file)));
    let bundled = || {
        let (name, file) = names().find(|(name, _)| name.is_mangled)?;
        Some(Stated { value: name.version?, source: Source::File(file.clone()) })
    };
    let stated = || {
        let text = statements.cudnn.as_deref()?;
        // TensorFlow states the major version only.
        let value = text.parse().ok().or_else(|| Some(Version::new(text.parse().ok()?, 0, 0)))?;
        Some(Stated { value, source: Source::File(statements.file.clone()?) })
    };
    let fact = || {
        let (fact, is_newer) = facts::about(&of.name, &of.version)?;
        let (major, minor, patch) = fact.cudnn?;
        // A build for another CUDA may have another cuDNN.
        let is_other_build = |cuda: &Stated<_>| fact.cuda.is_some_and(|known| !is_same_cuda(known, cuda.value));
        let value = Version::new(major, minor, patch);
        (!cuda.is_some_and(is_other_build)).then(|| Stated { value, source: document(fact, is_newer) })
    };
    let file = stated();
    let linked = names().find_map(|(name, file)| {
        let value = Version::new(name.major?, 0, 0);
        Some(Stated { value, source: Source::File(file.clone()) })
    });
    let best = pinned().or_else(bundled).or_else(|| file.clone().filter(|file| file.value.minor > 0)).or_else(fact);
    match (best, linked.or(file)) {
        (Some(best), Some(major)) if best.value.major != major.value.major => Some(major),
        (best, major) => best.or(major),
    }
}

fn is_same_cuda((major, minor): (u32, Option<u32>), (other, other_minor): (u32, Option<u32>)) -> bool {
    major == other && minor.zip(other_minor).is_none_or(|(minor, other)| minor == other)
}

fn document(fact: &facts::Fact, is_older_than_package: bool) -> Source {
    Source::Fact { reading: fact.source, is_older_than_package }
}

fn kernels(kind: &Kind, dir: &Path, os: Os) -> Option<Stated<BTreeSet<GpuCode>>> {
    let file = first_matching(dir, kind.kernels_on(os)?)?;
    let value = main_gpu_code(&file).ok().filter(|targets| !targets.is_empty())?;
    Some(Stated { value, source: Source::File(file) })
}
