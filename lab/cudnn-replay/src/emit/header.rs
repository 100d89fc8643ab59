//! Writes the comment at the top of a program.

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
    let gpu = case.captured.device.as_deref().and_then(device::name);
    let (cudnn, cuda) = (Release::from_number(case.start.cudnn as u32), case.start.cudart);
    let mut lines = vec![
        MARKER.to_owned(),
        String::new(),
        format!("The {subject} {} ({})", quoted(&case.captured.label), case.graph().id()),
        format!("Captured with cuDNN {cudnn} for CUDA {}.{}: {}", cuda / 1000, cuda / 10 % 100, result(case)),
        format!("GPU: {}", gpu.map_or_else(|| "unknown; planned for an H200".to_owned(), |name| quoted(&name))),
        String::new(),
    ];
    lines.extend(how_to_run.iter().map(|line| (*line).to_owned()));
    if case.failure.is_none() {
        let data = if case.values.before.is_empty() { "small integers" } else { "the captured values" };
        lines.push(match cannot_execute {
            Some(reason) => format!("The program does not execute the plan: {}.", quoted(reason)),
            None => format!("With a GPU, the program executes the plan on {data}."),
        });
    }
    lines
}

/// Returns what happened in the captured program.
fn result(case: &Case) -> String {
    let captured = &case.captured;
    let (call, status, reason) = match (&case.failure, &captured.plan, &captured.execution) {
        (Some(failure), ..) => (failure.call.as_str(), failure.status, failure.reason.as_ref()),
        (_, _, Some(execution)) if execution.status != Status::SUCCESS => {
            ("cudnnBackendExecute", execution.status, None)
        }
        (_, Some(plan), _) => ("cudnnBackendFinalize", plan.status, plan.reason.as_ref()),
        _ => return "the capture has no plan of the graph".to_owned(),
    };
    format!("{} returned {}", quoted(call), failed(status, reason))
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
