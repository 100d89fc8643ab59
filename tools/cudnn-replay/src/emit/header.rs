//! The comment at the top of a program, in the form of a bug report.

use super::case::Case;
use super::escape::quoted;
use crate::device;

/// Returns the lines of the comment. `how_to_run` are the commands for this language.
pub(super) fn lines(case: &Case, how_to_run: &[&str], cannot_execute: Option<&str>) -> Vec<String> {
    let mut lines = vec![
        "Describe the bug".to_owned(),
        format!("  The graph {} ({})", quoted(&case.captured.label), case.graph().id()),
        format!("  What happens: {}", what_happens(case)),
        format!("  What is expected: {}", expectation(case)),
        String::new(),
        "System environment".to_owned(),
        format!("  cuDNN {} for CUDA {}", release(case.start.cudnn), cuda(case.start.cudart)),
        format!(
            "  GPU: {}",
            case.captured.device.as_deref().map_or_else(|| "unknown; planned for an H200".to_owned(), gpu)
        ),
        String::new(),
        "To reproduce".to_owned(),
    ];
    lines.extend(how_to_run.iter().map(|line| format!("  {line}")));
    lines.push(String::new());
    lines.push(
        "The program prints the status, the engine and the workspace of the plan. With a GPU it also executes".into(),
    );
    lines.push(
        "the plan on small integers, and prints a checksum of each tensor that the plan has changed. Without".into(),
    );
    lines.push("a GPU it plans for the GPU above, which needs cuDNN 9.8 or newer.".into());
    if let Some(reason) = cannot_execute {
        lines.push(format!("It does not execute the plan: {}.", quoted(reason)));
    }
    lines
}

fn what_happens(case: &Case) -> String {
    let reason =
        |reason: &Option<String>| reason.as_ref().map_or(String::new(), |reason| format!(": {}", quoted(reason)));
    match (&case.captured.plan, &case.captured.execution) {
        (_, Some(execution)) if execution.status != "SUCCESS" => {
            format!("cudnnBackendExecute returns {}.", quoted(&format!("CUDNN_STATUS_{}", execution.status)))
        }
        (Some(plan), _) if plan.status != "SUCCESS" => {
            let status = quoted(&format!("CUDNN_STATUS_{}", plan.status));
            format!("the plan cannot be built, {status}{}", reason(&plan.reason))
        }
        (Some(plan), _) => {
            let engine = plan.engine.as_ref().map_or(String::new(), |engine| format!(" with engine {}", engine.index));
            let workspace = plan.workspace.map_or(String::new(), |bytes| format!(", workspace {bytes} bytes"));
            format!("the plan is built{engine}{workspace}. [Describe what is wrong.]")
        }
        (None, _) => "the capture has no plan of the graph. [Describe what is wrong.]".to_owned(),
    }
}

fn expectation(case: &Case) -> &'static str {
    let is_success = |status: &str| status == "SUCCESS";
    let execution = case.captured.execution.as_ref().is_none_or(|execution| is_success(&execution.status));
    if execution && case.captured.plan.as_ref().is_none_or(|plan| is_success(&plan.status)) {
        "[Describe the correct result.]"
    } else {
        "the graph is planned and executed."
    }
}

/// Formats a version such as 91900 as 9.19.0.
fn release(version: usize) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

/// Formats a version such as 12090 as 12.9.
fn cuda(version: usize) -> String {
    format!("{}.{}", version / 1000, version / 10 % 100)
}

/// Returns the name of a described device.
fn gpu(description: &str) -> String {
    device::name(description).map_or_else(|| "unknown".to_owned(), |name| quoted(&name))
}
