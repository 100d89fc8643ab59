//! What a framework was built for: CUDA, cuDNN, compute capabilities. From its files; what they do not state is in
//! [`facts`](crate::facts).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cudnn_probe::{GpuCode, Version};

use crate::distribution::Distribution;
use crate::kind::Kind;

/// Where a statement comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// This file of the package, and what it says there.
    File(PathBuf),
    /// A requirement of the package's metadata.
    Requirement(String),
    /// A public document, read on this day (`2026-11-22`).
    Document {
        /// Its address.
        url: &'static str,
        /// The day.
        date: &'static str,
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
    /// Whether it can use a GPU at all: `false` for a CPU-only build.
    pub uses_gpu: Option<Stated<bool>>,
    /// The CUDA release: major, and minor if that is known.
    pub cuda: Option<Stated<(u32, Option<u32>)>>,
    /// The oldest cuDNN that it accepts. Its major is the only major that it accepts.
    pub cudnn: Option<Stated<Version>>,
    /// The compute capabilities of its own kernels, and the file that contains them.
    pub gpu_code: Option<Stated<BTreeSet<GpuCode>>>,
    /// It compiles kernels for the GPU that it finds (XLA, Triton): no kernel of its own has to fit.
    pub compiles_at_run_time: bool,
}

/// Reads what a framework was built for.
pub(crate) fn read(kind: &Kind, of: &Distribution, dir: Option<&Path>, installed: &[Distribution]) -> BuiltFor {
    let _ = (kind, of, dir, installed);
    BuiltFor::default()
}
