//! Formats the reports.

use std::collections::BTreeMap;
use std::fmt::Write;

use cudnn_graph::names::heuristics_mode;

use super::attempts::{Attempt, AttemptFailure};
use super::candidates::TriedEngines;
use super::drawing::draw;
use super::reason::{Reason, UNRELATED};
use crate::shadow;

#[derive(Default)]
pub(super) struct Findings {
    pub(super) candidates: TriedEngines,
    pub(super) changes: Vec<String>,
    pub(super) changes_tried: usize,
    pub(super) omission: Option<String>,
    pub(super) lacks_messages: bool,
    pub(super) nvrtc: &'static str,
    /// Whether no engine has accepted the graph and NVRTC is missing.
    pub(super) lacks_nvrtc: bool,
}

const MAX_CHANGES: usize = 4;
const MAX_REASONS: usize = 12;
const MAX_REASON_LENGTH: usize = 300;

/// Formats the report about a graph without a working plan. The first lines name the cause.
pub(super) fn failed(process: &str, attempt: &Attempt, failure: AttemptFailure, findings: &Findings) -> String {
    let label = shadow::describe(&attempt.graph).unwrap_or_else(|| "a graph".to_owned());
    let plans: usize = attempt.failed_plans.values().sum();
    let tried = &findings.candidates.tried;
    let built: Vec<i64> = tried.iter().filter(|tried| tried.failure.is_none()).map(|tried| tried.engine).collect();
    let mut text = match failure {
        AttemptFailure::NoEngine if tried.is_empty() => {
            format!("cudnn-explain: the program found no engine for {label}\n")
        }
        AttemptFailure::NoEngine if built.is_empty() => format!("cudnn-explain: no engine supports {label}\n"),
        AttemptFailure::NoEngine => {
            format!("cudnn-explain: the heuristics did not propose the engine that supports {label}\n")
        }
        AttemptFailure::NoPlan => format!("cudnn-explain: {} failed for {label}\n", all(plans)),
        AttemptFailure::NotExecuted => format!("cudnn-explain: no plan was executed for {label}\n"),
        AttemptFailure::NoExecution => format!("cudnn-explain: all executions failed for {label}\n"),
    };
    let groups = groups(&findings.candidates);
    let is_blocked = groups.first().is_some_and(|group| group.reason.is_erratum());
    let cause = match built.as_slice() {
        built if built.is_empty() || is_blocked => cause(attempt, failure, findings, &groups),
        built => format!("a plan can be built with the default settings of engine {}", list(built)),
    };
    let _ = writeln!(text, "  cause: {cause}");
    let mut label = "supported if";
    for change in findings.changes.iter().take(MAX_CHANGES) {
        let _ = writeln!(text, "  {label:<12}: {change}");
        label = "or if";
    }
    if findings.changes.is_empty() && findings.changes_tried > 0 {
        let _ =
            writeln!(text, "  none of {} changes of one property makes the graph supported", findings.changes_tried);
    }
    text.push_str("  graph:\n");
    draw(&shadow::known_parts(&attempt.graph)).lines().for_each(|line| _ = writeln!(text, "  {line}"));
    for (mode, proposals) in &attempt.proposals {
        let proposals = match proposals {
            Ok(1) => "1 proposal".to_owned(),
            Ok(count) => format!("{count} proposals"),
            Err(status) => format!("failed with {status}"),
        };
        let _ = writeln!(text, "  heuristics {}: {proposals}", heuristics_mode(*mode));
    }
    for (status, count) in &attempt.failed_plans {
        let _ = writeln!(text, "  {} of the program failed with {status}", counted(*count, "plan"));
    }
    if !groups.is_empty() {
        let _ = writeln!(text, "  engines, tried with default settings:");
        for Group { reason, engines, .. } in groups.iter().take(MAX_REASONS) {
            let _ = writeln!(text, "    {:>3}  {} (engine {})", engines.len(), sentence(reason), list(engines));
        }
        if let Some(more) = groups.len().checked_sub(MAX_REASONS + 1) {
            let _ = writeln!(text, "    and {} more reasons", more + 1);
        }
    }
    if !built.is_empty() {
        let _ = writeln!(text, "    {:>3}  can be built (engine {})", built.len(), list(&built));
    }
    if findings.candidates.untried > 0 {
        let _ = writeln!(text, "    {:>3}  not tried, because the time was over", findings.candidates.untried);
    }
    let _ = writeln!(text, "  process {} {process}", std::process::id());
    text
}

fn cause(attempt: &Attempt, failure: AttemptFailure, findings: &Findings, groups: &[Group<'_>]) -> String {
    let tried = findings.candidates.tried.len();
    if failure == AttemptFailure::NotExecuted {
        let (smallest, plans) = (attempt.workspaces.iter().min().copied().unwrap_or(0), attempt.workspaces.len());
        let needed = match plans {
            1 => "the only plan needs a workspace of".to_owned(),
            _ => format!("the {plans} plans need a workspace of at least"),
        };
        let free = attempt.free_memory.and_then(|free| i64::try_from(free).ok()).unwrap_or(0);
        return format!(
            "not enough device memory: {needed} {}, and {} are free",
            shadow::bytes(smallest),
            shadow::bytes(free)
        );
    }
    let statuses = |counts: &BTreeMap<String, usize>| {
        counts
            .iter()
            .map(|(status, count)| format!("{status} ({})", counted(*count, "time")))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if failure == AttemptFailure::NoExecution {
        return format!("executions failed: {}", statuses(&attempt.failed_executions));
    }
    if let Some(omission) = &findings.omission {
        return omission.clone();
    }
    match groups.first() {
        Some(Group { reason, engines, .. }) if reason.lacks_nvrtc() => {
            let (engines, reason) = (engines.len(), sentence(reason));
            format!(
                "{engines} of {tried} engines: {} was not found ({reason}); it may hide other reasons",
                findings.nvrtc
            )
        }
        Some(Group { rank, .. }) if findings.lacks_nvrtc && *rank >= UNRELATED => {
            format!("{} was not found. Engines that compile code need it, and may not say so", findings.nvrtc)
        }
        Some(Group { rank, reason, .. }) if findings.lacks_messages && *rank > 0 && reason.text.is_empty() => {
            "unknown, because cuDNN writes its reasons to the log that CUDNN_LOGDEST_DBG selects".to_owned()
        }
        Some(Group { rank, .. }) if *rank >= UNRELATED => {
            format!("none of {tried} engines is made for this combination of operations, types and extents")
        }
        Some(Group { reason, engines, .. }) => format!("{} of {tried} engines: {}", engines.len(), sentence(reason)),
        None => format!("unknown; plans failed: {}", statuses(&attempt.failed_plans)),
    }
}

fn all(plans: usize) -> String {
    if plans == 1 { "the only plan".to_owned() } else { format!("all {plans} plans") }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

struct Group<'a> {
    rank: u8,
    reason: &'a Reason,
    engines: Vec<i64>,
}

fn groups(candidates: &TriedEngines) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<(u8, &Reason), Vec<i64>> = BTreeMap::new();
    for candidate in &candidates.tried {
        if let Some(reason) = &candidate.failure {
            groups.entry((reason.rank(candidate.has_accepted), reason)).or_default().push(candidate.engine);
        }
    }
    let groups = groups.into_iter().map(|((rank, reason), engines)| Group { rank, reason, engines });
    let mut groups: Vec<Group<'_>> = groups.collect();
    groups.sort_by_key(|group| (group.rank, std::cmp::Reverse(group.engines.len())));
    groups
}

fn sentence(reason: &Reason) -> String {
    let Reason { status, text } = reason;
    let text = cudnn_os::escape::one_line(text);
    let text: String = text.chars().take(MAX_REASON_LENGTH).collect();
    if text.is_empty() { status.clone() } else { format!("{status}: {text}") }
}

/// Formats the numbers of engines, with ranges.
fn list(engines: &[i64]) -> String {
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for engine in engines {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*engine) => *last = *engine,
            _ => parts.push((*engine, *engine)),
        }
    }
    let shown =
        parts.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    shown.collect::<Vec<_>>().join(", ")
}
