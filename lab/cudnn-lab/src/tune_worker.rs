//! Tunes graphs in a worker, a child process that loads cuDNN once, because engines may crash or hang.

use std::process::ExitCode;

use cudnn_cli::child_report::{Work, begin, begin_part, receive, send};
use cudnn_cli::subprocess::{Answer as Ended, Timeouts, Worker};
use cudnn_replay::replay::Tuner;
use cudnn_replay::tune::task::{Answer, Report, Task};
use serde_json::{Value, json};

use crate::replay_worker::{Stop, cannot_start, message, reason_of, start};

/// The hidden subcommand of the child.
pub(crate) const COMMAND: &str = "internal-tune";

/// The maximum number of graphs that the worker prepares while it tunes another one.
const AHEAD: usize = 24;
/// The maximum number of engines of a graph that may end a worker.
const MAX_FAILED: usize = 8;

/// Tunes graphs with the cuDNN that the loader finds.
pub(crate) struct Client<'a> {
    timeouts: &'a Timeouts,
    /// A worker that has answered, and can tune other graphs.
    worker: Option<Worker<'a>>,
    /// The number of graphs that the worker prepares.
    ahead: usize,
}

impl<'a> Client<'a> {
    pub(crate) fn new(timeouts: &'a Timeouts) -> Self {
        Client { timeouts, worker: None, ahead: 0 }
    }

    /// Returns a report about the GPU and the release of cuDNN.
    pub(crate) fn place(&mut self, wait: &mut dyn FnMut()) -> Result<Report, Stop> {
        self.tune(&mut [], wait)
    }

    /// Tunes the first of these graphs. The next calls must be for the other ones, in this order. `wait` is called again
    /// and again until the graph is tuned.
    ///
    /// An engine that ends a new worker, or breaks its device, counts as failed, and the graph is tuned again without it.
    /// In a worker that has tuned other graphs, one of them may be the cause, and the graph is tuned again in a new one.
    pub(crate) fn tune(&mut self, tasks: &mut [Task], wait: &mut dyn FnMut()) -> Result<Report, Stop> {
        loop {
            let is_new = self.worker.is_none();
            let worker = match self.worker.take() {
                Some(worker) => worker,
                None => start(COMMAND, None, self.timeouts)?,
            };
            let received = if is_new { 0 } else { self.ahead };
            let (message, received) = message(tasks, received.min(tasks.len()), tasks.len().min(1 + AHEAD))?;
            let (part, reason) = match worker.ask(&message, &mut |_| wait()).map_err(cannot_start)? {
                Ended::Interrupted(signal) => return Err(Stop::Interrupted(signal)),
                Ended::Ended(ended) => (ended.step.as_ref().and_then(|step| step.part), reason_of(&ended)),
                Ended::Message(answer, worker) => {
                    let (answer, is_intact) = parse(answer)?;
                    if is_intact {
                        (self.worker, self.ahead) = (Some(worker), received.saturating_sub(1));
                    } else {
                        worker.end().map_err(cannot_start)?;
                    }
                    match answer {
                        Answer::Tuned(report) => return Ok(report),
                        Answer::Broke { candidate, reason } => (Some(candidate), reason),
                    }
                }
            };
            if !is_new {
                continue;
            }
            match (part, tasks.first_mut()) {
                (Some(part), Some(task)) if task.failed.len() < MAX_FAILED => {
                    task.failed.insert(part, reason);
                }
                (_, Some(_)) => return Ok(Report { refusal: Some(reason), ..Report::default() }),
                (_, None) => return Err(Stop::Failed(reason)),
            }
        }
    }
}

/// Returns the answer of a worker, and whether it can tune other graphs.
fn parse(mut message: Value) -> Result<(Answer, bool), Stop> {
    if let Some(reason) = message.get("error").and_then(Value::as_str) {
        return Err(Stop::Failed(reason.to_owned()));
    }
    let answer = message.get_mut("answer").map(Value::take).unwrap_or_default();
    let answer = serde_json::from_value(answer).map_err(|error| Stop::Failed(error.to_string()))?;
    Ok((answer, message.get("intact").and_then(Value::as_bool) == Some(true)))
}

/// Runs the child process.
pub(crate) fn run_child() -> ExitCode {
    let mut tuner = None;
    while let Some(message) = receive() {
        let tuned = tune_next(&mut tuner, &message);
        let may_continue = matches!(tuned, Ok((_, true)));
        send(&match tuned {
            Ok((answer, is_intact)) => json!({ "answer": answer, "intact": is_intact }),
            Err(reason) => json!({ "error": reason }),
        });
        if !may_continue {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// Appends the graphs in a message to those that wait, and tunes the first one.
fn tune_next(tuner: &mut Option<Tuner>, message: &[u8]) -> Result<(Answer, bool), String> {
    let step = &mut |text: &str, part: Option<usize>| begin_part(Work::Compute, text, part);
    let tuner = match tuner {
        Some(tuner) => tuner,
        None => {
            begin(Work::Load, "loaded cuDNN");
            cudnn_loader::load().map_err(|error| error.to_string())?;
            tuner.insert(Tuner::default())
        }
    };
    let tasks: Vec<Task> = serde_json::from_slice(message).map_err(|error| error.to_string())?;
    tasks.into_iter().for_each(|task| tuner.push(task));
    let answer = match tuner.tune_next(step) {
        Some(answer) => answer,
        None => Answer::Tuned(tuner.place(step)),
    };
    Ok((answer, tuner.is_intact()))
}
