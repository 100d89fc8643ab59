//! The outcome of a replay.

use std::fmt;

use cudnn_loader::cudnnStatus_t;
use cudnn_store::captures::Status;
use serde::{Deserialize, Serialize};

/// The outcome of a replay, with its name in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ReportStatus {
    /// cuDNN returned this status, such as `SUCCESS`.
    Returned(Status),
    /// `SKIPPED`: the capture is incomplete.
    #[default]
    Skipped,
    /// `CRASHED`: the process has ended.
    Crashed,
    /// `HUNG`: the process made no progress.
    Hung,
}

impl ReportStatus {
    /// Success.
    pub const SUCCESS: ReportStatus = ReportStatus::Returned(Status::SUCCESS);

    /// Returns whether the process has crashed or hung.
    pub fn has_ended_process(self) -> bool {
        matches!(self, ReportStatus::Crashed | ReportStatus::Hung)
    }
}

impl From<cudnnStatus_t> for ReportStatus {
    fn from(status: cudnnStatus_t) -> Self {
        ReportStatus::Returned(status.into())
    }
}

impl fmt::Display for ReportStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportStatus::Returned(status) => status.fmt(f),
            ReportStatus::Skipped => f.pad("SKIPPED"),
            ReportStatus::Crashed => f.pad("CRASHED"),
            ReportStatus::Hung => f.pad("HUNG"),
        }
    }
}

impl From<ReportStatus> for String {
    fn from(status: ReportStatus) -> Self {
        status.to_string()
    }
}

impl TryFrom<String> for ReportStatus {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let own = [ReportStatus::Skipped, ReportStatus::Crashed, ReportStatus::Hung];
        match own.into_iter().find(|status| status.to_string() == name) {
            Some(status) => Ok(status),
            None => name.parse().map(ReportStatus::Returned),
        }
    }
}
