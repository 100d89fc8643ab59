//! Makes common mistakes with the backend API on purpose, and shows how cuDNN reports them, without a GPU. Prints the
//! Markdown table that docs/data/backend-mistakes.json contains.
//!
//! `cargo run -p cudnn-backend --example backend_mistakes`

use std::process::ExitCode;
use std::sync::Mutex;

use cudnn_backend::cudnn::logging::{LogSeverity, set_hook};
use cudnn_backend::cudnn::{self, Error};
use cudnn_backend::gpu::Gpu;
use cudnn_backend::{Failure, program};

mod attributes;
mod graphs;

/// The status with which cuDNN rejects a mistake; if cuDNN accepts it, the step that the example reached.
type Verdict = Result<&'static str, Error>;
/// The description of a mistake, and a function that makes it.
type Mistake = (&'static str, fn() -> Verdict);

/// The verdict on a mistake that no call rejects.
const ACCEPTED: &str = "not rejected";

/// The reasons in the last entry of cuDNN's log that has any, the innermost first.
static REASONS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn main() -> ExitCode {
    program::exit_code(table())
}

fn table() -> Result<(), Failure> {
    if let Err(error) = attributes::x().descriptor()
        && !Gpu::has_driver()
    {
        println!("This cuDNN cannot finalize any descriptor without libcuda.so.1, the driver's library: {error}");
        return Ok(());
    }
    let mistakes: Vec<&Mistake> = attributes::MISTAKES.iter().chain(graphs::MISTAKES).collect();
    // Twice, because the error text depends on whether the log is received. The table shows the text without the log.
    let without_log: Vec<Verdict> = mistakes.iter().map(|(_, make)| make()).collect();
    receive_reasons()?;
    // SAFETY: the call passes no pointers.
    println!("cuDNN {}\n", unsafe { cudnn::cudnnGetVersion() });
    println!("| Mistake | Rejected by | Status | Text of `cudnnGetLastErrorString` | Innermost reason in the log |");
    println!("| --- | --- | --- | --- | --- |");
    for ((mistake, make), without_log) in mistakes.iter().zip(without_log) {
        take_reason();
        match make() {
            Err(Error { function, status, .. }) => {
                let status = format!("{status:?}").replace("CUDNN_STATUS_", "");
                let text = without_log.err().map(|error| error.text).unwrap_or_default();
                println!("| {mistake} | `{function}` | {status} | {} | {} |", cell(&text), cell(&take_reason()));
            }
            Ok(accepted) => println!("| {mistake} | {accepted} | | | |"),
        }
    }
    Ok(())
}

/// Collects the reasons of warnings and errors from cuDNN's log.
fn receive_reasons() -> Result<(), Failure> {
    set_hook(LogSeverity::up_to(2), |event| {
        let reasons: Vec<String> = event.entry.traceback.iter().map(|reason| reason.reason.clone()).collect();
        if let (Ok(mut last), false) = (REASONS.lock(), reasons.is_empty()) {
            *last = reasons;
        }
    })?;
    Ok(())
}

/// The innermost reason since the last call of this function, or an empty string.
fn take_reason() -> String {
    let reasons = REASONS.lock().map(|mut reasons| std::mem::take(&mut *reasons)).unwrap_or_default();
    reasons.into_iter().next().unwrap_or_default()
}

/// Returns the first line that is not empty, as a table cell.
fn cell(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line: String = line.replace('|', "\\|").chars().take(160).collect();
    if line.is_empty() { line } else { format!("`{line}`") }
}
