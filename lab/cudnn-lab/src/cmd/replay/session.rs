//! Replays the graphs one after the other, with progress, until all are done or the program is interrupted.

use std::path::Path;
use std::time::Instant;

use cudnn_cli::output::{Format, count};
use cudnn_cli::subprocess::{Spinner, Timeouts};
use cudnn_replay::replay::capture::Captured;
use cudnn_replay::replay::{ReplayReport, ReportStatus, Request};
use serde_json::Value;

use super::arguments::Arguments;
use crate::captures::CaptureFiles;
use crate::progress::progress;
use crate::replay_worker::Replayer;
use crate::worker::Stop;

pub(super) struct ReplaySession<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) graphs: &'a [Captured],
    pub(super) file: &'a CaptureFiles,
    pub(super) timeouts: &'a Timeouts,
    pub(super) format: Format,
}

impl<'a> ReplaySession<'a> {
    /// Replays the graphs in turn, each one with every cuDNN: in these directories, or the one that the loader finds.
    /// Only one of them works at a time, because executions would affect each other's times. Stops if this program is
    /// interrupted.
    pub(super) fn each<const COUNT: usize>(
        &self,
        dirs: [Option<&Path>; COUNT],
        finished: &mut dyn FnMut(&'a Captured, [ReplayReport; COUNT]) -> Result<(), String>,
    ) -> Result<(), String> {
        let requests: Vec<Request> =
            self.graphs.iter().filter_map(|graph| self.arguments.request(graph, self.file)).collect();
        let mut requests = requests.as_slice();
        let mut replayers = dirs.map(|dir| Replayer::new(dir, self.timeouts));
        let (start, total, mut spinner) = (Instant::now(), self.graphs.len(), Spinner::new(true));
        for (done, graph) in self.graphs.iter().enumerate() {
            let mut reports = std::array::from_fn(|_| without_engine());
            if self.arguments.engines(graph).is_some() {
                for (report, replayer) in reports.iter_mut().zip(&mut replayers) {
                    let mut wait = || spinner.turn(|| progress(done, total, start.elapsed()));
                    *report = match replayer.replay(requests, &mut wait) {
                        Ok(report) => report,
                        Err(Stop::Interrupted(_)) => return Ok(()),
                        Err(Stop::Failed(reason)) => return Err(reason),
                    };
                }
                requests = requests.get(1..).unwrap_or_default();
            }
            spinner.clear();
            finished(graph, reports)?;
        }
        Ok(())
    }

    /// Adds the number of graphs that were not replayed because of an interruption.
    pub(super) fn with_rest(&self, mut keys: Value, done: usize) -> Value {
        let rest = self.graphs.len() - done;
        if let Some(keys) = keys.as_object_mut().filter(|_| rest > 0) {
            keys.insert("not_replayed".to_owned(), rest.into());
        }
        keys
    }

    /// Describes what is done after this number of graphs.
    pub(super) fn done(&self, done: usize) -> String {
        format!("{done} of {} were replayed", count(self.graphs.len(), "graph"))
    }
}

fn without_engine() -> ReplayReport {
    let reason = Some("the capture contains no engine for this graph".to_owned());
    ReplayReport { status: ReportStatus::Skipped, reason, ..ReplayReport::default() }
}
