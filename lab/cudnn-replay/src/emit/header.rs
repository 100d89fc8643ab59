//! Writes the comment at the top of a program, in the form of a bug report.

use cudnn_backend::first_reason;
use cudnn_store::captures::Status;
use cudnn_store::choices::Release;

use super::case::Case;
use super::escape::quoted;
use crate::device;

/// The first line, which identifies programs of `emit`.
pub(super) const MARKER: &str = "Written by cudnn-lab emit.";

/// Returns the lines of the comment. `how_to_run` contains the commands for the language.
pub(super) fn lines(case: &Case, how_to_run: &[&str], cannot_execute: Option<&str>) -> Vec<String> {
    let subject = if case.failure.is_some() { "descriptors of" } else { "graph" };
    let mut lines = vec![
        MARKER.to_owned(),
        String::new(),
        "Describe the bug".to_owned(),
        format!("  The {subject} {} ({})", quoted(&case.captured.label), case.graph().id()),
        format!("  What happens: {}", symptom(case)),
        format!("  What is expected: {}", expectation(case)),
        "  Last known working version: [cuDNN version, for a regression]".to_owned(),
        String::new(),
        "System environment".to_owned(),
        format!("  cuDNN {} for CUDA {}", Release::from_number(case.start.cudnn as u32), cuda(case.start.cudart)),
    ];
    match (&case.captured.device, &case.failure) {
        (Some(device), _) => lines.push(format!("  GPU: {}", gpu(device))),
        (None, None) => lines.push("  GPU: unknown; planned for an H200".to_owned()),
        (None, Some(_)) => lines.push("  GPU: [name]".to_owned()),
    }
    lines.extend([
        "  [CUDA driver, operating system, compiler, framework]".to_owned(),
        "  Log: [the file be.log, after CUDNN_LOGLEVEL_DBG=3 CUDNN_LOGDEST_DBG=be.log]".to_owned(),
        String::new(),
        "To reproduce".to_owned(),
    ]);
    lines.extend(how_to_run.iter().map(|line| format!("  {line}")));
    lines.push(String::new());
    if case.failure.is_some() {
        lines.push(
            "The program makes the same calls in the same order, and prints the status and the reason.".to_owned(),
        );
        return lines;
    }
    let (data, results) = if case.values.before.is_empty() {
        ("small integers", "a checksum of every tensor that the plan has changed.")
    } else {
        ("the captured values", "whether the plan computes the captured results.")
    };
    lines.extend([
        "The program prints the status, the engine and the workspace of the plan. With a GPU it also executes"
            .to_owned(),
        format!("the plan on {data}, and prints {results}"),
        "Without a GPU it plans for the GPU above, which needs cuDNN 9.8 or newer.".to_owned(),
    ]);
    if let Some(reason) = cannot_execute {
        lines.push(format!("It does not execute the plan: {}.", quoted(reason)));
    }
    lines
}

fn failed(status: Status, reason: Option<&String>) -> String {
    // cuDNN repeats the reason for every engine.
    let reason = reason.map_or(String::new(), |reason| format!(": {}", quoted(first_reason(reason))));
    let status = if status == Status::UNKNOWN {
        "an unknown status".to_owned()
    } else {
        quoted(&format!("CUDNN_STATUS_{status}"))
    };
    format!("{status}{reason}")
}

fn symptom(case: &Case) -> String {
    match (&case.failure, &case.captured.plan, &case.captured.execution) {
        (Some(failure), ..) => {
            format!("{} returns {}", quoted(&failure.call), failed(failure.status, failure.reason.as_ref()))
        }
        (_, _, Some(execution)) if execution.status != Status::SUCCESS => {
            format!("cudnnBackendExecute returns {}.", failed(execution.status, None))
        }
        (_, Some(plan), _) if plan.status != Status::SUCCESS => {
            format!("the plan cannot be built, {}", failed(plan.status, plan.reason.as_ref()))
        }
        (_, Some(plan), _) => {
            let engine = plan.engine.as_ref().map_or(String::new(), |engine| format!(" with engine {}", engine.index));
            let workspace = plan.workspace.map_or(String::new(), |bytes| format!(", workspace {bytes} bytes"));
            format!("the plan is built{engine}{workspace}. [Describe what is wrong.]")
        }
        _ => "the capture has no plan of the graph. [Describe what is wrong.]".to_owned(),
    }
}

fn expectation(case: &Case) -> &'static str {
    let execution = case.captured.execution.as_ref().is_none_or(|execution| execution.status == Status::SUCCESS);
    if case.failure.is_some() {
        "[Describe why the call is valid, or how the reason is misleading.]"
    } else if execution && case.captured.plan.as_ref().is_none_or(|plan| plan.status == Status::SUCCESS) {
        "[Describe the correct result.]"
    } else {
        "the graph is planned and executed."
    }
}

fn cuda(version: usize) -> String {
    format!("{}.{}", version / 1000, version / 10 % 100)
}

fn gpu(description: &str) -> String {
    device::name(description).map_or_else(|| "unknown".to_owned(), |name| quoted(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_for_many_engines_is_stated_once() {
        let reason = format!("no engine works\n{}", "Error: 3000; Reason: the layout is unsupported\n".repeat(40));
        let expected = r#""CUDNN_STATUS_SUCCESS": "Error: 3000; Reason: the layout is unsupported""#;
        assert_eq!(failed(Status::SUCCESS, Some(&reason)), expected);
    }

    #[test]
    fn an_unknown_status_is_no_name_of_cudnn() {
        assert_eq!(failed(Status::UNKNOWN, None), "an unknown status");
    }
}
