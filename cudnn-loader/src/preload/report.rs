//! Reports the steps of a preload with their times and outcomes.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use cudnn_os::escape::one_line;
use cudnn_probe::Library;
use cudnn_sys::types::cudnnStatus_t;

use crate::error::LoadError;

/// A step of a preload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PreloadStep {
    /// Selecting the installation.
    Select,
    /// Making the kernel read this file, or reading this [list of pages](super::pages).
    Read(PathBuf),
    /// Loading a sub-library.
    Load(Library),
    /// Loading and initializing the driver.
    Driver,
    /// Creating the primary context of the device with this number.
    Context(i32),
    /// Registration of cuDNN's engines.
    Engines,
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreloadOutcome {
    /// The step succeeded.
    Done,
    /// The step was skipped for this reason. This does not count as a failure.
    Skipped(String),
    /// The step failed.
    Failed {
        /// The status of cuDNN or of the load error; 1001 for an error of the driver.
        status: cudnnStatus_t,
        /// The load error, cuDNN's last error, or the driver's function with its CUresult.
        reason: String,
    },
}

impl PreloadOutcome {
    /// Returns whether the step failed.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, PreloadOutcome::Failed { .. })
    }

    /// Returns the status of a failure, or 0.
    pub fn status(&self) -> cudnnStatus_t {
        match self {
            PreloadOutcome::Done | PreloadOutcome::Skipped(_) => cudnnStatus_t(0),
            PreloadOutcome::Failed { status, .. } => *status,
        }
    }
}

impl From<LoadError> for PreloadOutcome {
    fn from(error: LoadError) -> Self {
        PreloadOutcome::Failed { status: error.status(), reason: error.to_string() }
    }
}

/// A step with time and outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepReport {
    /// The step.
    pub step: PreloadStep,
    /// The start time, relative to the start of the preload.
    pub start: Duration,
    /// The duration of the step.
    pub duration: Duration,
    /// The outcome of the step.
    pub outcome: PreloadOutcome,
}

/// The finished steps of a preload, in chronological order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreloadReport {
    /// The steps.
    pub steps: Vec<StepReport>,
    /// The duration of the preload.
    pub duration: Duration,
}

impl PreloadReport {
    /// Creates the report of a preload that was skipped for this reason.
    pub(super) fn skipped(reason: &str) -> Self {
        let outcome = PreloadOutcome::Skipped(reason.into());
        let step = StepReport { step: PreloadStep::Select, start: Duration::ZERO, duration: Duration::ZERO, outcome };
        PreloadReport { steps: vec![step], duration: Duration::ZERO }
    }
}

/// A preload with a failed step. Libraries that were loaded remain loaded, and the failed step is retried by a later
/// call or preload.
///
/// `{}` prints one line; `{:#}` and `{:?}` also print all steps.
#[derive(Clone)]
#[non_exhaustive]
pub struct PreloadError {
    /// The first step that failed.
    pub failed: Box<StepReport>,
    /// All steps, including the failed one.
    pub report: PreloadReport,
}

impl fmt::Display for PreloadStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PreloadStep::Select => f.write_str("select cuDNN"),
            PreloadStep::Read(file) => {
                write!(f, "read {}", one_line(&file.file_name().unwrap_or_default().to_string_lossy()))
            }
            PreloadStep::Load(library) => write!(f, "load {library}"),
            PreloadStep::Driver => f.write_str("start the driver"),
            PreloadStep::Context(device) => write!(f, "create the context of device {device}"),
            PreloadStep::Engines => f.write_str("register engines"),
        }
    }
}

impl fmt::Display for PreloadOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PreloadOutcome::Done => f.write_str("done"),
            PreloadOutcome::Skipped(reason) => write!(f, "skipped: {reason}"),
            PreloadOutcome::Failed { status, reason } => write!(f, "failed: {status:?}: {reason}"),
        }
    }
}

/// Prints a line for each step: start, duration and outcome.
impl fmt::Display for PreloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Floating point would make formatting code a significant part of the drop-in.
        let milliseconds = |time: &Duration| {
            let hundredths = time.as_micros() as u64 / 10;
            format!("{:6}.{:02}", hundredths / 100, hundredths % 100)
        };
        for StepReport { step, start, duration, outcome } in &self.steps {
            let (start, duration) = (milliseconds(start), milliseconds(duration));
            writeln!(f, "{start} ms +{duration} ms  {:<44} {outcome}", step.to_string())?;
        }
        write!(f, "{} ms in all", milliseconds(&self.duration))
    }
}

impl fmt::Display for PreloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.failed.step, self.failed.outcome)?;
        if f.alternate() { write!(f, "\n{}", self.report) } else { Ok(()) }
    }
}

/// Prints all steps, because `main` uses `Debug` when it returns the error.
impl fmt::Debug for PreloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl std::error::Error for PreloadError {}
