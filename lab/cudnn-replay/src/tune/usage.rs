//! Counts the executions of graphs and the queries of the heuristics in captures.

use std::collections::{BTreeMap, BTreeSet};

use cudnn_loader::cudnnBackendHeurMode_t as Mode;
use cudnn_store::captures::{Capture, Record};

/// The usage of a graph in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of executions.
    pub executions: u64,
    /// The heuristics modes, in the order of the first queries.
    pub modes: Vec<i64>,
}

/// The usage of cuDNN in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usages {
    /// The usage of graphs by id.
    pub graphs: BTreeMap<String, Usage>,
    /// The number of calls of each function outside the backend API.
    pub older_calls: BTreeMap<String, u64>,
}

/// Sums up captures.
pub fn usages<'a>(captures: impl IntoIterator<Item = &'a Capture>) -> Usages {
    let mut usages = Usages::default();
    let captures: Vec<_> = captures.into_iter().collect();
    for (function, calls) in captures.iter().flat_map(|capture| capture.calls()) {
        let count = usages.older_calls.entry(function.to_owned()).or_default();
        *count = count.saturating_add(calls);
    }
    for process in captures.into_iter().flat_map(Capture::processes) {
        for plan in &process.plans {
            let usage = usages.graphs.entry(plan.record.graph.clone()).or_default();
            usage.executions = usage.executions.saturating_add(plan.count);
        }
        for record in process.records {
            match record {
                // Hostile captures could contain any number of unknown modes, and each mode is tried.
                Record::Proposals(proposals) if is_known(proposals.mode) => {
                    let modes = &mut usages.graphs.entry(proposals.graph.clone()).or_default().modes;
                    if !modes.contains(&proposals.mode) {
                        modes.push(proposals.mode);
                    }
                }
                _ => {}
            }
        }
    }
    usages
}

fn is_known(mode: i64) -> bool {
    u32::try_from(mode).is_ok_and(|mode| Mode(mode as _).name().is_some())
}

impl Usages {
    /// Returns the usage of a graph.
    pub fn of(&self, graph: &str) -> Usage {
        self.graphs.get(graph).cloned().unwrap_or_default()
    }
}

/// Returns the greatest common divisor of the numbers of executions, which is the number of equal steps in a captured
/// run. Returns 1 if there are no executions.
pub fn steps(executions: impl IntoIterator<Item = u64>) -> u64 {
    let distinct: BTreeSet<u64> = executions.into_iter().filter(|count| *count > 0).collect();
    let divisor = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    distinct.into_iter().fold(0, divisor).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_of_all_processes_are_added() {
        let start = r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#;
        let lines = [
            start,
            r#"{"record":"proposals","graph":"a","mode":0,"count":3}"#,
            r#"{"record":"proposals","graph":"a","mode":2,"count":3}"#,
            r#"{"record":"proposals","graph":"a","mode":12345,"count":3}"#,
            r#"{"record":"proposals","graph":"a","mode":-1,"count":3}"#,
            r#"{"record":"proposals","graph":"a","mode":4294967296,"count":3}"#,
            r#"{"record":"proposals","graph":"a","mode":0,"count":3}"#,
            r#"{"record":"plan","plan":0,"graph":"a","status":"SUCCESS","build_us":1}"#,
            r#"{"record":"plan","plan":1,"graph":"a","status":"SUCCESS","build_us":1}"#,
            r#"{"record":"execution","plan":0,"status":"SUCCESS","tensors":[]}"#,
            r#"{"record":"count","plan":0,"executions":4}"#,
            r#"{"record":"count","plan":0,"executions":7}"#,
            r#"{"record":"execution","plan":1,"status":"SUCCESS","tensors":[]}"#,
            r#"{"record":"call","function":"cudnnFindConvolutionForwardAlgorithm","arguments":[]}"#,
            r#"{"record":"call","function":"cudnnConvolutionForward","calls":1}"#,
            r#"{"record":"call","function":"cudnnConvolutionForward","calls":3}"#,
            start,
            r#"{"record":"call","function":"cudnnConvolutionForward","calls":1}"#,
            r#"{"record":"plan","plan":0,"graph":"b","status":"SUCCESS","build_us":1}"#,
            r#"{"record":"execution","plan":0,"status":"EXECUTION_FAILED","tensors":[]}"#,
            start,
            r#"{"record":"plan","plan":0,"graph":"a","status":"SUCCESS","build_us":1}"#,
            r#"{"record":"execution","plan":0,"status":"SUCCESS","tensors":[]}"#,
        ];
        let capture = Capture::parse((lines.join("\n") + "\n").as_bytes()).unwrap();
        let usages = usages([&capture]);
        assert_eq!(usages.of("a"), Usage { executions: 9, modes: vec![0, 2] });
        assert_eq!((usages.of("b"), usages.of("c")), (Usage::default(), Usage::default()));
        let older_calls: Vec<_> = usages.older_calls.iter().map(|(name, calls)| (name.as_str(), *calls)).collect();
        // An older capture does not contain the number of calls.
        assert_eq!(older_calls, [("cudnnConvolutionForward", 5), ("cudnnFindConvolutionForwardAlgorithm", 1)]);
    }

    #[test]
    fn equal_steps_are_found() {
        assert_eq!(steps([10, 30, 0, 20]), 10);
        assert_eq!((steps([3, 10]), steps([]), steps([0])), (1, 1, 1));
    }
}
