//! The options that turn a comparison into a check for CI.

use std::path::PathBuf;

use clap::ValueEnum;
use cudnn_replay::replay::comparison::ComparisonRow;

use super::junit;
use crate::output_file::OutputKind;

pub(super) const JUNIT: OutputKind = OutputKind { name: "a JUnit file of `replay`", is_start: junit::is_junit };

#[derive(clap::Args)]
pub(super) struct Gate {
    /// Compare this cuDNN with an earlier replay of the same capture, whose output with --json is in this file.
    #[arg(long, value_name = "FILE", group = "comparison")]
    pub(super) baseline: Option<PathBuf>,
    /// When a comparison fails: if a graph became worse, or if anything changed.
    #[arg(long, value_enum, default_value_t = FailOn::Worse, requires = "comparison")]
    fail_on: FailOn,
    /// Write the comparison as JUnit XML to this file.
    #[arg(long, value_name = "FILE", requires = "comparison")]
    pub(super) junit: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Worse,
    Changed,
}

impl Gate {
    pub(super) fn fails(&self, row: &ComparisonRow) -> bool {
        row.is_worse() || self.fail_on == FailOn::Changed && !row.changes.is_empty()
    }
}
