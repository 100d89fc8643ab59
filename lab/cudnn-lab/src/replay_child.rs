//! Replays one graph in a child process, because cuDNN may crash, hang or abort.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use cudnn_cli::child_report::{Work, begin, send};
use cudnn_cli::platform::{CAN_LOAD, STATIC, STATIC_HELP};
use cudnn_cli::programs::doctor;
use cudnn_cli::shell::{SEARCH_PATH, set_variable};
use cudnn_cli::subprocess::{self, Timeouts};
use cudnn_cli::temporary::Temporary;
use cudnn_probe::layers::LAYERS_VARIABLE;
use cudnn_probe::{DIR_VARIABLE, read_bounded};
use cudnn_replay::replay::{self, Report, Request};
use serde_json::json;

use crate::cuda_dirs;

/// The hidden subcommand of the child.
pub(crate) const COMMAND: &str = "internal-replay";

/// The maximum size of a request in bytes. A line of a capture is shorter.
const MAX_REQUEST: u64 = 64 << 20;

/// Replays a graph with the cuDNN in this directory, or with the one that the loader finds. The end of the child
/// becomes a report too.
///
/// # Errors
/// The reason why cuDNN cannot be loaded, or no child can be started.
pub(crate) fn run(request: &Request, cudnn: Option<&Path>, timeouts: &Timeouts) -> Result<Report, String> {
    if !CAN_LOAD {
        return Err(format!("{STATIC}; {STATIC_HELP}"));
    }
    let failed = |error| format!("cannot start a process: {error}");
    let (temporary, mut file) = Temporary::file().map_err(failed)?;
    file.write_all(&serde_json::to_vec(request).unwrap_or_default()).map_err(failed)?;
    let mut command = subprocess::again(&[COMMAND.as_ref(), temporary.path().as_os_str()]).map_err(failed)?;
    // A layer could change the results, and `capture` would replace the capture.
    command.env_remove(LAYERS_VARIABLE);
    if let Some(dir) = cudnn {
        command.env(DIR_VARIABLE, dir);
        if let Some(path) = cuda_dirs::search_path() {
            command.env(SEARCH_PATH, path);
        }
    }
    let ended = subprocess::run_command(command, timeouts).map_err(failed)?;
    let message = |key| ended.messages.iter().find_map(|message| message.get(key));
    if let Some(reason) = message("error").and_then(|reason| reason.as_str()) {
        return Err(reason.to_owned());
    }
    if let Some(report) = message("report") {
        let report = serde_json::from_value(report.clone()).map_err(|error| error.to_string())?;
        return Ok(explained(report, cudnn));
    }
    let failure = ended.end.failure().unwrap_or_else(|| "ended without a report".to_owned());
    let last = ended.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let last = if last.is_empty() { String::new() } else { format!(": {last}") };
    let status = if ended.end.is_hang() { "HUNG" } else { "CRASHED" };
    Ok(Report {
        status: status.to_owned(),
        reason: Some(format!("the process {failure}{}{last}", ended.during())),
        ..Report::default()
    })
}

/// Adds the command that names a missing library, because cuDNN's reason does not.
fn explained(mut report: Report, cudnn: Option<&Path>) -> Report {
    if report.status == "SUBLIBRARY_LOADING_FAILED" {
        let select = cudnn.map_or(String::new(), |dir| format!("{}; ", set_variable(DIR_VARIABLE, dir)));
        let reason = report.reason.unwrap_or_default();
        report.reason = Some(format!("{reason}; `{select}{} check` names the missing library", doctor()));
    }
    report
}

/// Runs the child process.
pub(crate) fn run_child(request: &Path) -> ExitCode {
    let read = || {
        begin(Work::Load, "loaded cuDNN");
        let bytes = read_bounded(request, MAX_REQUEST).map_err(|error| error.to_string())?;
        let request: Request = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        cudnn_loader::load().map_err(|error| error.to_string())?;
        Ok::<_, String>(request)
    };
    match read() {
        Ok(request) => {
            let report = replay::run(&request, &mut |text| begin(Work::Compute, text));
            send(&json!({ "report": report }));
        }
        Err(reason) => send(&json!({ "error": reason })),
    }
    ExitCode::SUCCESS
}
