//! The options of a check.

use std::path::PathBuf;

use cudnn_loader::Function;
use cudnn_probe::Version;

use super::finding::{
    CHECK_FAILED, CRASHED, DRIVER_CRASHED, Finding, FindingKind, NO_BUILTINS, NO_CONVOLUTION, NO_CUBLAS, NO_DRIVER,
    NO_MEMORY, NO_NVRTC, NOT_LOADED, NOT_TESTED, OLD_DRIVER,
};
use crate::framework_run::Framework;

/// The checks that were requested, besides those of the machine itself.
pub(crate) struct Requested {
    /// The oldest cuDNN that the program can use.
    pub(crate) minimum: Option<Version>,
    /// The CUDA major that the program is built for.
    pub(crate) cuda_major: Option<u32>,
    /// The functions that the program calls.
    pub(crate) functions: Vec<Function>,
    /// Load cuDNN in a child process.
    pub(crate) load: bool,
    /// Run a convolution there.
    pub(crate) convolution: bool,
    /// Hash the libraries.
    pub(crate) verify: bool,
    /// A program that must find what it needs.
    pub(crate) program: Option<PathBuf>,
    /// Run these frameworks.
    pub(crate) frameworks: Vec<Framework>,
    /// Report findings with these codes alone; empty for all.
    pub(crate) only: Vec<&'static str>,
}

/// The codes of findings that only loading cuDNN and CUDA's libraries can show, or that it may show.
const SHOWN_BY_LOADING: [FindingKind; 12] = [
    NO_DRIVER,
    OLD_DRIVER,
    DRIVER_CRASHED,
    NO_CUBLAS,
    NO_NVRTC,
    NO_BUILTINS,
    CRASHED,
    NOT_LOADED,
    CHECK_FAILED,
    NO_CONVOLUTION,
    NO_MEMORY,
    NOT_TESTED,
];

impl Requested {
    /// Whether nothing states that a program uses cuDNN.
    pub(super) fn is_about_machine(&self) -> bool {
        let Requested { minimum, cuda_major, functions, convolution, verify, program, .. } = self;
        let has_requirement = minimum.is_some() || cuda_major.is_some() || !functions.is_empty();
        !has_requirement && !convolution && !verify && program.is_none()
    }

    /// Whether cuDNN has to be loaded for what is reported.
    pub(super) fn is_load_needed(&self) -> bool {
        let is_selected = SHOWN_BY_LOADING.iter().any(|kind| self.only.contains(&kind.code));
        self.load && (self.only.is_empty() || is_selected || self.convolution)
    }

    /// Whether the checks of this kind of finding are needed.
    pub(super) fn includes(&self, kind: &FindingKind) -> bool {
        self.only.is_empty() || kind.code == NOT_TESTED.code || self.only.contains(&kind.code)
    }

    /// Whether this finding is reported. Without the doctor's own failure, a check that it could not do would look like
    /// one that found nothing.
    pub(super) fn is_reported(&self, finding: &Finding) -> bool {
        let is_own = finding.is_of_doctor() && (self.is_load_needed() || !self.frameworks.is_empty());
        self.only.is_empty() || is_own || self.only.contains(&finding.kind.code)
    }
}
