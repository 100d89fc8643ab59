//! Defines the options of a check.

use std::path::PathBuf;

use cudnn_loader::Function;
use cudnn_probe::Version;

use super::finding::{
    CHECK_FAILED, CRASHED, DRIVER_CRASHED, Finding, FindingKind, NO_BUILTINS, NO_CONVOLUTION, NO_CUBLAS, NO_DRIVER,
    NO_MEMORY, NO_NVRTC, NOT_LOADED, NOT_TESTED, OLD_DRIVER,
};
use crate::runnable::RunnableFramework;

/// The options of a check.
#[derive(Clone)]
pub struct Requested {
    /// The oldest cuDNN that the program can use.
    pub minimum: Option<Version>,
    /// The CUDA major that the program is built for.
    pub cuda_major: Option<u32>,
    /// The functions that the program calls.
    pub functions: Vec<Function>,
    /// Load cuDNN in a child process.
    pub load: bool,
    /// Run a convolution in the child process.
    pub convolution: bool,
    /// Compare the sha256 of the libraries with package records.
    pub verify: bool,
    /// A program to examine.
    pub program: Option<PathBuf>,
    /// Run these frameworks.
    pub frameworks: Vec<RunnableFramework>,
    /// Report only findings with these codes. Empty reports all findings.
    pub only: Vec<&'static str>,
}

/// The findings that may require loading the libraries of cuDNN and CUDA.
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
    /// Returns whether the check is about the machine in general, rather than a program that uses cuDNN.
    pub(super) fn is_about_machine(&self) -> bool {
        let Requested { minimum, cuda_major, functions, convolution, verify, program, .. } = self;
        let has_requirement = minimum.is_some() || cuda_major.is_some() || !functions.is_empty();
        !has_requirement && !convolution && !verify && program.is_none()
    }

    pub(super) fn is_load_needed(&self) -> bool {
        let is_selected = SHOWN_BY_LOADING.iter().any(|kind| self.only.contains(&kind.code));
        self.load && (self.only.is_empty() || is_selected || self.convolution)
    }

    /// Returns whether this finding is reported. Failures of the doctor itself always are, because a check that could
    /// not run would otherwise look like a success.
    pub(super) fn is_reported(&self, finding: &Finding) -> bool {
        let is_own = finding.is_of_doctor() && (self.is_load_needed() || !self.frameworks.is_empty());
        self.only.is_empty() || is_own || self.only.contains(&finding.kind.code)
    }
}
