//! Sends graphs to a worker: a child process that loads cuDNN once and may crash, hang or abort.

use std::path::Path;

use cudnn_cli::child_report::{MAX_MESSAGE_LEN, Work, begin, receive, send};
use cudnn_cli::platform::{CAN_LOAD, STATIC, STATIC_HELP};
use cudnn_cli::shell::SEARCH_PATH;
use cudnn_cli::subprocess::{self, Ended, Timeouts, Worker};
use cudnn_os::interruption::Signal;
use cudnn_probe::DIR_VARIABLE;
use cudnn_probe::layers::LAYERS_VARIABLE;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::cuda_dirs;

/// The reason why no more graphs can be sent to a worker.
pub(crate) enum Stop {
    /// This program was interrupted.
    Interrupted(Signal),
    /// cuDNN cannot be loaded, or no process can be started.
    Failed(String),
}

/// Why a worker has not answered.
pub(crate) struct Lost {
    pub(crate) reason: String,
    /// How the worker has ended, or `None` if its state is unknown.
    pub(crate) ended: Option<Ended>,
}

/// Sends graphs to a worker, and replaces it if it has ended or is not intact.
pub(crate) struct Client<'a> {
    command: &'static str,
    /// The directory of cuDNN, or `None` for the one that the loader finds.
    pub(crate) cudnn: Option<&'a Path>,
    pub(crate) timeouts: &'a Timeouts,
    /// A worker that has answered and can receive other graphs.
    worker: Option<Worker<'a>>,
    /// The number of graphs that the worker prepares ahead.
    ahead: usize,
}

impl<'a> Client<'a> {
    pub(crate) fn new(command: &'static str, cudnn: Option<&'a Path>, timeouts: &'a Timeouts) -> Self {
        Client { command, cudnn, timeouts, worker: None, ahead: 0 }
    }

    /// Returns whether the worker has received no earlier graphs, which could be the cause if it exits.
    pub(crate) fn is_new(&self) -> bool {
        self.worker.is_none()
    }

    /// Sends the first `end` graphs, and waits for the answer about the first one. Calls `wait` repeatedly until then.
    /// Also returns whether the worker is intact. An intact worker receives the next graphs; later calls must continue
    /// with them.
    pub(crate) fn ask<T: DeserializeOwned>(
        &mut self,
        graphs: &[impl Serialize],
        end: usize,
        wait: &mut dyn FnMut(),
    ) -> Result<Result<(T, bool), Lost>, Stop> {
        let (worker, received) = match self.worker.take() {
            Some(worker) => (worker, self.ahead.min(graphs.len())),
            None => (start(self.command, self.cudnn, self.timeouts)?, 0),
        };
        let (message, received) = message(graphs, received, end.min(graphs.len()))?;
        Ok(match worker.ask(&message, &mut |_| wait()) {
            Err(error) => Err(Lost { reason: format!("the state of the process is unknown: {error}"), ended: None }),
            Ok(subprocess::Answer::Interrupted(signal)) => return Err(Stop::Interrupted(signal)),
            Ok(subprocess::Answer::Ended(ended)) => {
                let reason = reason_of(&ended);
                if ended.step.as_ref().is_some_and(|step| step.work == Work::Load) {
                    return Err(Stop::Failed(format!("cuDNN cannot be loaded: {reason}")));
                }
                Err(Lost { reason, ended: Some(ended) })
            }
            Ok(subprocess::Answer::Message(message, worker)) => {
                let answer = serde_json::from_value(message).unwrap_or_else(|error| Err(error.to_string()));
                let (answer, is_intact): (T, bool) = answer.map_err(Stop::Failed)?;
                if is_intact {
                    (self.worker, self.ahead) = (Some(worker), received.saturating_sub(1));
                } else {
                    // The answer is complete.
                    let _ = worker.end();
                }
                Ok((answer, is_intact))
            }
        })
    }
}

/// Starts the lab itself with the worker's command and the cuDNN in this directory.
fn start<'a>(command: &str, cudnn: Option<&Path>, timeouts: &'a Timeouts) -> Result<Worker<'a>, Stop> {
    if !CAN_LOAD {
        return Err(Stop::Failed(format!("{STATIC}; {STATIC_HELP}")));
    }
    let mut command = subprocess::again(&[command.as_ref()]).map_err(cannot_start)?;
    // A layer could change the results, and `capture` would replace the capture.
    command.env_remove(LAYERS_VARIABLE);
    if let Some(dir) = cudnn {
        command.env(DIR_VARIABLE, dir);
        if let Some(path) = cuda_dirs::search_path() {
            command.env(SEARCH_PATH, path);
        }
    }
    Worker::start(command, timeouts).map_err(cannot_start)
}

fn cannot_start(error: std::io::Error) -> Stop {
    Stop::Failed(format!("cannot start a process: {error}"))
}

/// Returns a message with the graphs that the worker has not received, and the total number received after it. If the
/// message would be too long, it contains only the next graph.
fn message<T: Serialize>(requests: &[T], received: usize, end: usize) -> Result<(Vec<u8>, usize), Stop> {
    let up_to = |end: usize| {
        let new = requests.get(received..end).unwrap_or_default();
        serde_json::to_vec(new)
            .map(|message| (message, received.max(end)))
            .map_err(|error| Stop::Failed(error.to_string()))
    };
    let all = up_to(end)?;
    if all.0.len() < MAX_MESSAGE_LEN { Ok(all) } else { up_to(1) }
}

fn reason_of(ended: &Ended) -> String {
    let failure = ended.end.failure().unwrap_or_else(|| "ended without a report".to_owned());
    let last = ended.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let last = if last.is_empty() { String::new() } else { format!(": {last}") };
    format!("the process {failure}{}{last}", ended.during())
}

/// Runs a worker that loads cuDNN for the first message. `answer` adds the graphs of a message to the worker's state.
/// It returns the answer about the first waiting graph, and whether the worker is intact.
pub(crate) fn serve_graphs<S: Default, G: DeserializeOwned, T: Serialize>(
    mut answer: impl FnMut(&mut S, Vec<G>) -> Result<(T, bool), String>,
) {
    let mut loaded = None;
    serve(|message| {
        let state = match &mut loaded {
            Some(state) => state,
            None => {
                begin(Work::Load, "loaded cuDNN");
                cudnn_loader::load().map_err(|error| error.to_string())?;
                loaded.insert(S::default())
            }
        };
        answer(state, serde_json::from_slice(message).map_err(|error| error.to_string())?)
    });
}

/// Runs a worker. `answer` returns the answer to a message, and whether the worker is intact.
pub(crate) fn serve<T: Serialize>(mut answer: impl FnMut(&[u8]) -> Result<(T, bool), String>) {
    while let Some(message) = receive() {
        let answer = answer(&message);
        send(&json!(answer));
        if !matches!(answer, Ok((_, true))) {
            break;
        }
    }
}
