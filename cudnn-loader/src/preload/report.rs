//! Reports the steps of a preload with their times and outcomes.

use std::fmt;
use std::time::Duration;

use cudnn_sys::types::cudnnStatus_t;

use super::driver::DriverError;
use crate::error::LoadError;
use crate::names::cublas_prefix;
use cudnn_probe::Library;

/// A step of a preload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Selecting the installation.
    Select,
    /// Making the kernel read the pages of a [recorded list](super::pages).
    ReadPages,
    /// Making the kernel read this library's file.
    ReadAhead(Library),
    /// Making the kernel read cuBLASLt's file, which the engines open.
    ReadAheadCublas,
    /// Loading a sub-library.
    Load(Library),
    /// Loading and initializing the driver.
    Driver,
    /// Creating the context of the device with this number, through `cudnnGraphVersionCheck`, as NVIDIA documents.
    Context(i32),
    /// A sub-library's version check, which needs a context.
    Check(Library),
    /// Registration of cuDNN's engines.
    Engines,
}

/// The outcome of a step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StepOutcome {
    /// The step succeeded.
    Done,
    /// The step was skipped for this reason. This does not count as a failure.
    Skipped(String),
    /// A library could not be loaded.
    LoadFailed(LoadError),
    /// The driver reported an error.
    Driver(DriverError),
    /// cuDNN returned this status and last error.
    Status(cudnnStatus_t, String),
}

impl StepOutcome {
    /// Returns whether the step failed.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !matches!(self, StepOutcome::Done | StepOutcome::Skipped(_))
    }

    /// Returns the status of a failure: the load error's or cuDNN's status, or 1001 for a driver error. Returns 0 for
    /// other outcomes.
    pub fn status(&self) -> cudnnStatus_t {
        match self {
            StepOutcome::Done | StepOutcome::Skipped(_) => cudnnStatus_t(0),
            StepOutcome::LoadFailed(error) => error.status(),
            StepOutcome::Driver(_) => cudnnStatus_t(1001),
            StepOutcome::Status(status, _) => *status,
        }
    }
}

/// A step with time and outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepReport {
    /// The step.
    pub step: Step,
    /// The start time, relative to the start of the preload.
    pub start: Duration,
    /// The duration of the step.
    pub duration: Duration,
    /// The outcome of the step.
    pub outcome: StepOutcome,
}

/// The finished steps of a preload, in chronological order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The steps.
    pub steps: Vec<StepReport>,
    /// The duration of the preload.
    pub duration: Duration,
}

impl Report {
    /// Creates the report of a preload that was skipped for this reason.
    pub(super) fn skipped(reason: &str) -> Self {
        let outcome = StepOutcome::Skipped(reason.into());
        let step = StepReport { step: Step::Select, start: Duration::ZERO, duration: Duration::ZERO, outcome };
        Report { steps: vec![step], duration: Duration::ZERO }
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
    pub failed: StepReport,
    /// All steps, including the failed one.
    pub report: Report,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Select => f.write_str("select cuDNN"),
            Step::ReadPages => f.write_str("read the kept pages"),
            Step::ReadAhead(library) => write!(f, "read ahead {library}"),
            Step::ReadAheadCublas => f.write_str(concat!("read ahead ", cublas_prefix!())),
            Step::Load(library) => write!(f, "load {library}"),
            Step::Driver => f.write_str("start the driver"),
            Step::Context(device) => write!(f, "create the context of device {device}"),
            Step::Check(library) => write!(f, "check {library}"),
            Step::Engines => f.write_str("register engines"),
        }
    }
}

impl fmt::Display for StepOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepOutcome::Done => f.write_str("done"),
            StepOutcome::Skipped(reason) => write!(f, "skipped: {reason}"),
            StepOutcome::LoadFailed(error) => write!(f, "failed: {error}"),
            StepOutcome::Driver(error) => write!(f, "failed: {error}"),
            StepOutcome::Status(status, text) => write!(f, "failed: {status:?}: {text}"),
        }
    }
}

/// Prints a line for each step: start, duration and outcome.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for StepReport { step, start, duration, outcome } in &self.steps {
            let (start, duration) = (Milliseconds(*start), Milliseconds(*duration));
            writeln!(f, "{start} ms +{duration} ms  {:<44} {outcome}", step.to_string())?;
        }
        write!(f, "{} ms in all", Milliseconds(self.duration))
    }
}

/// A time with two decimals, right-aligned. Avoids floating point, because the formatting code would be a significant
/// part of the drop-in.
struct Milliseconds(Duration);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = self.0.as_micros() as u64 / 10;
        write!(f, "{:6}.{:02}", hundredths / 100, hundredths % 100)
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

impl std::error::Error for PreloadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.failed.outcome {
            StepOutcome::LoadFailed(error) => Some(error),
            StepOutcome::Driver(error) => Some(error),
            _ => None,
        }
    }
}
