//! Replays graphs in a worker, a child process that loads cuDNN once, because cuDNN may crash, hang or abort.

use std::path::Path;
use std::process::ExitCode;

use cudnn_cli::child_report::{MAX_MESSAGE_LEN, Work, begin, receive, send};
use cudnn_cli::platform::{CAN_LOAD, STATIC, STATIC_HELP};
use cudnn_cli::programs::doctor;
use cudnn_cli::shell::{SEARCH_PATH, set_variable};
use cudnn_cli::subprocess::{self, Answer, Ended, Timeouts, Worker};
use cudnn_os::interruption::Signal;
use cudnn_probe::DIR_VARIABLE;
use cudnn_probe::layers::LAYERS_VARIABLE;
use cudnn_replay::replay::{Queue, Report, Request};
use serde_json::{Value, json};

use crate::cuda_dirs;

/// The hidden subcommand of the child.
pub(crate) const COMMAND: &str = "internal-replay";

/// The maximum number of graphs that the worker prepares while it replays another one.
const AHEAD: usize = 8;

/// Why a replay stopped.
pub(crate) enum Stop {
    /// This program was interrupted.
    Interrupted(Signal),
    /// cuDNN cannot be loaded, or no process can be started, for this reason.
    Failed(String),
}

/// Replays graphs with one cuDNN.
pub(crate) struct Replayer<'a> {
    /// The directory of cuDNN. `None` for the one that the loader finds.
    cudnn: Option<&'a Path>,
    timeouts: &'a Timeouts,
    /// A worker that has replayed a graph, and can replay others.
    worker: Option<Worker<'a>>,
    /// The number of graphs that the worker prepares.
    ahead: usize,
}

impl<'a> Replayer<'a> {
    pub(crate) fn new(cudnn: Option<&'a Path>, timeouts: &'a Timeouts) -> Self {
        Replayer { cudnn, timeouts, worker: None, ahead: 0 }
    }

    /// Replays the first of these graphs. The next calls must be for the other ones, in this order. `wait` is called again
    /// and again until the graph is replayed. The end of the worker becomes a report too.
    ///
    /// A bad end counts only from a new worker, which has received no other graph. Otherwise another graph may be the cause,
    /// and the graph is replayed again in a new worker.
    pub(crate) fn replay(&mut self, requests: &[Request], wait: &mut dyn FnMut()) -> Result<Report, Stop> {
        loop {
            let is_new = self.worker.is_none();
            let worker = match self.worker.take() {
                Some(worker) => worker,
                None => self.start()?,
            };
            let end = if is_new { 1 } else { requests.len().min(1 + AHEAD) };
            let (message, received) = message(requests, if is_new { 0 } else { self.ahead }, end)?;
            let report = match worker.ask(&message, &mut |_| wait()) {
                Err(error) => crashed(format!("the state of the process is unknown: {error}")),
                Ok(Answer::Interrupted(signal)) => return Err(Stop::Interrupted(signal)),
                Ok(Answer::Ended(ended)) if ended.step.as_ref().is_some_and(|step| matches!(step.work, Work::Load)) => {
                    return Err(Stop::Failed(format!("cuDNN cannot be loaded: {}", description(&ended))));
                }
                Ok(Answer::Ended(ended)) => report_of(&ended),
                Ok(Answer::Message(answer, worker)) => {
                    let (report, is_intact) = parse(answer)?;
                    let report = self.explained(report);
                    if is_intact {
                        (self.worker, self.ahead) = (Some(worker), received - 1);
                        return Ok(report);
                    }
                    // The report is complete.
                    let _ = worker.end();
                    report
                }
            };
            if is_new {
                return Ok(report);
            }
        }
    }

    fn start(&self) -> Result<Worker<'a>, Stop> {
        if !CAN_LOAD {
            return Err(Stop::Failed(format!("{STATIC}; {STATIC_HELP}")));
        }
        let mut command = subprocess::again(&[COMMAND.as_ref()]).map_err(cannot_start)?;
        // A layer could change the results, and `capture` would replace the capture.
        command.env_remove(LAYERS_VARIABLE);
        if let Some(dir) = self.cudnn {
            command.env(DIR_VARIABLE, dir);
            if let Some(path) = cuda_dirs::search_path() {
                command.env(SEARCH_PATH, path);
            }
        }
        Worker::start(command, self.timeouts).map_err(cannot_start)
    }

    /// Adds the command that names a missing library, because cuDNN's reason does not.
    fn explained(&self, mut report: Report) -> Report {
        if report.status == "SUBLIBRARY_LOADING_FAILED" {
            let select = self.cudnn.map_or(String::new(), |dir| format!("{}; ", set_variable(DIR_VARIABLE, dir)));
            let reason = report.reason.unwrap_or_default();
            report.reason = Some(format!("{reason}; `{select}{} check` names the missing library", doctor()));
        }
        report
    }
}

fn cannot_start(error: std::io::Error) -> Stop {
    Stop::Failed(format!("cannot start a process: {error}"))
}

/// Returns a message with the graphs that the worker has not received, and the number of graphs that it has then received.
/// If the message were too long, it contains only the graph to replay.
fn message(requests: &[Request], received: usize, end: usize) -> Result<(Vec<u8>, usize), Stop> {
    let up_to = |end: usize| {
        let new = requests.get(received..end).unwrap_or_default();
        serde_json::to_vec(new)
            .map(|message| (message, received.max(end)))
            .map_err(|error| Stop::Failed(error.to_string()))
    };
    let all = up_to(end)?;
    if all.0.len() < MAX_MESSAGE_LEN { Ok(all) } else { up_to(1) }
}

/// Returns the report in an answer, and whether the worker can replay other graphs.
fn parse(mut answer: Value) -> Result<(Report, bool), Stop> {
    if let Some(reason) = answer.get("error").and_then(Value::as_str) {
        return Err(Stop::Failed(reason.to_owned()));
    }
    let report = answer.get_mut("report").map(Value::take).unwrap_or_default();
    let report = serde_json::from_value(report).map_err(|error| Stop::Failed(error.to_string()))?;
    Ok((report, answer.get("intact").and_then(Value::as_bool) == Some(true)))
}

fn crashed(reason: String) -> Report {
    Report { status: "CRASHED".to_owned(), reason: Some(reason), ..Report::default() }
}

/// Describes the end of a worker.
fn description(ended: &Ended) -> String {
    let failure = ended.end.failure().unwrap_or_else(|| "ended without a report".to_owned());
    let last = ended.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let last = if last.is_empty() { String::new() } else { format!(": {last}") };
    format!("the process {failure}{}{last}", ended.during())
}

/// Describes the end of a worker as a report.
fn report_of(ended: &Ended) -> Report {
    let report = crashed(description(ended));
    if ended.end.is_hang() { Report { status: "HUNG".to_owned(), ..report } } else { report }
}

/// Runs the child process.
pub(crate) fn run_child() -> ExitCode {
    let mut queue = None;
    while let Some(message) = receive() {
        let replayed = replay_next(&mut queue, &message);
        let may_continue = matches!(replayed, Ok((_, true)));
        send(&match replayed {
            Ok((report, is_intact)) => json!({ "report": report, "intact": is_intact }),
            Err(reason) => json!({ "error": reason }),
        });
        if !may_continue {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// Appends the graphs in a message to the queue, and replays the first one.
fn replay_next(queue: &mut Option<Queue>, message: &[u8]) -> Result<(Report, bool), String> {
    let step = &mut |text: &str| begin(Work::Compute, text);
    let queue = match queue {
        Some(queue) => queue,
        None => {
            begin(Work::Load, "loaded cuDNN");
            cudnn_loader::load().map_err(|error| error.to_string())?;
            queue.insert(Queue::default())
        }
    };
    let requests: Vec<Request> = serde_json::from_slice(message).map_err(|error| error.to_string())?;
    requests.into_iter().for_each(|request| queue.push(request));
    let report = queue.replay_next(step).ok_or("there is no graph to replay")?;
    Ok((report, queue.is_intact()))
}
