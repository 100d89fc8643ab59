//! The report of a preload: its steps, with their times and outcomes.

use std::fmt;
use std::time::Duration;

use cudnn_probe::Library;
use cudnn_sys::types::cudnnStatus_t;

use super::driver::DriverError;
use crate::error::LoadError;
use crate::names::cublas_prefix;
use crate::sub_library::SubLibrary;

/// A part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Selecting the installation.
    Select,
    /// Making the kernel read the pages of a [kept list](super::pages).
    ReadPages,
    /// Making the kernel read this library's file.
    ReadAhead(Library),
    /// Making the kernel read the file of cuBLASLt, which the engines open.
    ReadAheadCublas,
    /// Loading a sub-library.
    Load(SubLibrary),
    /// Loading and initialising the driver.
    Driver,
    /// Creating the context of the device with this number, through `cudnnGraphVersionCheck`, as NVIDIA documents.
    Context(i32),
    /// A sub-library's version check, which needs a context.
    Check(SubLibrary),
    /// cuDNN's registration of its engines.
    Engines,
}

/// The outcome of a step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StepOutcome {
    /// Done.
    Done,
    /// Skipped, for this reason. That is no failure.
    Skipped(String),
    /// A library could not be loaded.
    LoadFailed(LoadError),
    /// The driver failed.
    Driver(DriverError),
    /// cuDNN failed, with this status and last error.
    Status(cudnnStatus_t, String),
}

impl StepOutcome {
    /// Whether the step was neither done nor skipped.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !matches!(self, StepOutcome::Done | StepOutcome::Skipped(_))
    }

    /// The status that stands for a failure: the load error's or cuDNN's, 1001 for the driver's; 0 if there is none.
    pub fn status(&self) -> cudnnStatus_t {
        match self {
            StepOutcome::Done | StepOutcome::Skipped(_) => cudnnStatus_t(0),
            StepOutcome::LoadFailed(error) => error.status(),
            StepOutcome::Driver(_) => cudnnStatus_t(1001),
            StepOutcome::Status(status, _) => *status,
        }
    }
}

/// One step, with its time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepReport {
    /// The step.
    pub step: Step,
    /// When it started, counted from the start of the preload.
    pub start: Duration,
    /// Its duration.
    pub duration: Duration,
    /// Its outcome.
    pub outcome: StepOutcome,
}

/// A preload's steps, in the order in which they ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The steps.
    pub steps: Vec<StepReport>,
    /// The duration of the preload.
    pub duration: Duration,
}

impl Report {
    /// A report of nothing: the preload was skipped for this reason.
    pub(super) fn skipped(reason: &str) -> Self {
        let outcome = StepOutcome::Skipped(reason.into());
        let step = StepReport { step: Step::Select, start: Duration::ZERO, duration: Duration::ZERO, outcome };
        Report { steps: vec![step], duration: Duration::ZERO }
    }
}

/// A preload in which a step failed. What was loaded stays loaded, and a call or another preload tries again what
/// failed.
///
/// `{}` prints one line, `{:#}` and `{:?}` also all steps.
#[derive(Clone)]
#[non_exhaustive]
pub struct PreloadError {
    /// The first step that failed.
    pub failed: StepReport,
    /// All steps, including that one.
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

/// A line for each step: its start, its duration, its outcome.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for StepReport { step, start, duration, outcome } in &self.steps {
            let (start, duration) = (Milliseconds(*start), Milliseconds(*duration));
            writeln!(f, "{start} ms +{duration} ms  {:<44} {outcome}", step.to_string())?;
        }
        write!(f, "{} ms in all", Milliseconds(self.duration))
    }
}

/// A time with two decimals, right-aligned. Without floating point, whose formatting would be a good part of the
/// drop-in.
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

/// What `main` prints when it returns the error.
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
