//! Replays graphs in a worker.

use std::path::Path;
use std::process::ExitCode;

use cudnn_cli::child_report::{Work, begin};
use cudnn_cli::programs::doctor;
use cudnn_cli::shell::set_variable;
use cudnn_cli::subprocess::Timeouts;
use cudnn_probe::DIR_VARIABLE;
use cudnn_replay::replay::{Queue, ReplayReport, ReportStatus, Request};

use crate::worker::{Client, Lost, Stop, serve_graphs};

pub(crate) const COMMAND: &str = "internal-replay";

/// The maximum number of graphs that a worker prepares ahead.
const AHEAD: usize = 8;

pub(crate) struct Replayer<'a>(Client<'a>);

impl<'a> Replayer<'a> {
    pub(crate) fn new(cudnn: Option<&'a Path>, timeouts: &'a Timeouts) -> Self {
        Replayer(Client::new(COMMAND, cudnn, timeouts))
    }

    /// Replays the first graph. Later calls must continue with the next graphs. Calls `wait` repeatedly during the
    /// replay. If the worker ends, the report describes that.
    ///
    /// After a failure in a worker that has received other graphs, the graph is replayed again in a new worker.
    pub(crate) fn replay(&mut self, requests: &[Request], wait: &mut dyn FnMut()) -> Result<ReplayReport, Stop> {
        loop {
            let is_new = self.0.is_new();
            let (report, is_intact) = match self.0.ask(requests, if is_new { 1 } else { 1 + AHEAD }, wait)? {
                Ok((report, is_intact)) => (self.explained(report), is_intact),
                Err(lost) => (report_of(lost), false),
            };
            if is_new || is_intact {
                return Ok(report);
            }
        }
    }

    /// Adds the command that names a missing library, which cuDNN's reason does not contain.
    fn explained(&self, mut report: ReplayReport) -> ReplayReport {
        if report.lacks_library() {
            let select = self.0.cudnn.map_or(String::new(), |dir| format!("{}; ", set_variable(DIR_VARIABLE, dir)));
            let reason = report.reason.unwrap_or_default();
            report.reason = Some(format!("{reason}; `{select}{} check` names the missing library", doctor()));
        }
        report
    }
}

fn report_of(Lost { reason, ended }: Lost) -> ReplayReport {
    let is_hang = ended.is_some_and(|ended| ended.end.is_hang());
    let status = if is_hang { ReportStatus::Hung } else { ReportStatus::Crashed };
    ReplayReport { status, reason: Some(reason), ..ReplayReport::default() }
}

pub(crate) fn run_child() -> ExitCode {
    serve_graphs(|queue: &mut Queue, requests: Vec<Request>| {
        requests.into_iter().for_each(|request| queue.push(request));
        let report = queue.replay_next(&mut |text| begin(Work::Compute, text)).ok_or("there is no graph to replay")?;
        Ok((report, queue.is_intact()))
    });
    ExitCode::SUCCESS
}
