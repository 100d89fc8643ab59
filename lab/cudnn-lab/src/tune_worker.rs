//! Tunes graphs in a worker, and excludes engines that terminate it.

use std::process::ExitCode;

use cudnn_cli::child_report::{Work, begin_part};
use cudnn_cli::subprocess::Timeouts;
use cudnn_replay::replay::Tuner;
use cudnn_replay::tune::task::{Task, TuneAnswer, TuneReport};

use crate::worker::{Client, Lost, Stop, serve_graphs};

pub(crate) const COMMAND: &str = "internal-tune";

/// The maximum number of graphs that a worker prepares ahead.
const AHEAD: usize = 24;
/// The maximum number of engines per graph that may terminate a worker.
const MAX_FAILED: usize = 8;

pub(crate) struct TuneClient<'a>(Client<'a>);

impl<'a> TuneClient<'a> {
    pub(crate) fn new(timeouts: &'a Timeouts) -> Self {
        TuneClient(Client::new(COMMAND, None, timeouts))
    }

    pub(crate) fn place(&mut self, wait: &mut dyn FnMut()) -> Result<TuneReport, Stop> {
        self.tune(&mut [], wait)
    }

    /// Tunes the first graph. Later calls must continue with the next graphs. Calls `wait` repeatedly during the work.
    ///
    /// If an engine terminates a new worker or breaks its device, the graph is tuned again without this engine. If the
    /// worker has tuned other graphs, one of these may be the cause, and the graph is tuned again in a new worker.
    pub(crate) fn tune(&mut self, tasks: &mut [Task], wait: &mut dyn FnMut()) -> Result<TuneReport, Stop> {
        loop {
            let is_new = self.0.is_new();
            let (part, reason) = match self.0.ask(tasks, 1 + AHEAD, wait)? {
                Ok((TuneAnswer::Tuned(report), _)) => return Ok(report),
                Ok((TuneAnswer::Broke { candidate, reason }, _)) => (Some(candidate), reason),
                Err(Lost { reason, ended }) => match ended {
                    // If all engines together took too long, no single engine is the cause.
                    Some(ended) if ended.end.is_overall_limit(self.0.timeouts) => return Ok(refused(reason)),
                    ended => (ended.and_then(|ended| ended.step?.part), reason),
                },
            };
            if !is_new {
                continue;
            }
            match (part, tasks.first_mut()) {
                (Some(part), Some(task)) if task.failed.len() < MAX_FAILED => {
                    task.failed.insert(part, reason);
                }
                (_, Some(_)) => return Ok(refused(reason)),
                (_, None) => return Err(Stop::Failed(reason)),
            }
        }
    }
}

fn refused(reason: String) -> TuneReport {
    TuneReport { refusal: Some(reason), ..TuneReport::default() }
}

pub(crate) fn run_child() -> ExitCode {
    serve_graphs(|tuner: &mut Tuner, tasks: Vec<Task>| {
        let step = &mut |text: &str, part: Option<usize>| begin_part(Work::Compute, text, part);
        tasks.into_iter().for_each(|task| tuner.push(task));
        let answer = match tuner.tune_next(step) {
            Some(answer) => answer,
            None => TuneAnswer::Tuned(tuner.place(step)),
        };
        Ok((answer, tuner.is_intact()))
    });
    ExitCode::SUCCESS
}
