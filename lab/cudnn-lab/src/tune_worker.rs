//! Tunes graphs in a worker, and excludes engines that terminate it.

use std::process::ExitCode;

use cudnn_cli::child_report::{Work, begin_part};
use cudnn_cli::subprocess::Timeouts;
use cudnn_replay::replay::Tuner;
use cudnn_replay::tune::task::{Task, TuneAnswer, TuneReport};

use crate::worker::{Client, Stop, WorkerAnswer, reason_of, serve_graphs};

pub(crate) const COMMAND: &str = "internal-tune";

/// The maximum number of graphs that a worker prepares ahead.
const AHEAD: usize = 24;
/// The maximum number of engines per graph that may terminate a worker.
const MAX_FAILED: usize = 8;

pub(crate) struct TuneClient<'a> {
    timeouts: &'a Timeouts,
    client: Client<'a>,
}

impl<'a> TuneClient<'a> {
    pub(crate) fn new(timeouts: &'a Timeouts) -> Self {
        TuneClient { timeouts, client: Client::new(COMMAND, None, timeouts) }
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
            let is_new = self.client.is_new();
            let (part, reason) = match self.client.ask(tasks, 1 + AHEAD, wait)? {
                WorkerAnswer::Message { answer: TuneAnswer::Tuned(report), .. } => return Ok(report),
                WorkerAnswer::Message { answer: TuneAnswer::Broke { candidate, reason }, .. } => {
                    (Some(candidate), reason)
                }
                // If all engines together took too long, no single engine is the cause.
                WorkerAnswer::Ended(ended) if ended.end.is_overall_limit(self.timeouts) => {
                    return Ok(refused(reason_of(&ended)));
                }
                WorkerAnswer::Ended(ended) => (ended.step.as_ref().and_then(|step| step.part), reason_of(&ended)),
                WorkerAnswer::Unknown(reason) => (None, reason),
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
