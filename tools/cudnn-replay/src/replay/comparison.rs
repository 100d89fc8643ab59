//! Finds the changes between two releases, and what became worse.

use cudnn_capture_file::Engine;
use serde::Serialize;

use super::request::{PlanReport, Report, Run};

/// A graph with the reports about two releases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The id of the graph.
    pub graph: String,
    /// The graph in one line.
    pub label: String,
    /// The report about the first release.
    pub before: Report,
    /// The report about the second release.
    pub after: Report,
    /// The changes, the worst first.
    pub changes: Vec<Change>,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Change {
    /// Whether it became worse.
    pub is_worse: bool,
    /// What changed.
    pub aspect: Aspect,
    /// The values before and after.
    pub text: String,
}

/// What changed, the most severe last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// The bits of the outputs.
    Bits,
    /// The engine or its knobs.
    Engine,
    /// The size of the workspace.
    Workspace,
    /// The time of an execution.
    Time,
    /// Whether repeated executions return the same bits.
    Repeatability,
    /// The error of the outputs.
    Error,
    /// Memory that belongs to no output.
    Memory,
    /// The status.
    Status,
}

/// A workspace is larger if it grows by more than this number of bytes and by more than a tenth.
const WORKSPACE_MARGIN: u64 = 1 << 20;
/// An execution is slower if it needs this multiple of the time, and this number of milliseconds more. Measurements of
/// the same execution differ by some microseconds.
const TIME_FACTOR: f64 = 1.2;
const TIME_MARGIN: f64 = 0.01;
/// An error is larger if it is this multiple, and more than this number of units.
const ERROR_FACTOR: f64 = 4.0;
/// The multiple for engines that round more often, and that have the same notes about it.
const ROUNDING_FACTOR: f64 = 16.0;
/// The notes of engines that compute with less precision or in a different order.
const ROUNDING_NOTES: &[&str] = &["down_convert_inputs", "reduced_precision_reduction", "fft", "winograd"];

impl Row {
    /// Compares two reports about a graph.
    #[must_use]
    pub fn new(graph: String, label: String, before: Report, after: Report) -> Self {
        let mut changes = changes(&before, &after);
        changes.sort_by(|a, b| b.cmp(a));
        Row { graph, label, before, after, changes }
    }

    /// Returns whether something became worse.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.changes.iter().any(|change| change.is_worse)
    }
}

/// Sorts by what became worse: the most severe change first, otherwise in the order of the capture.
pub fn sort(rows: &mut [Row]) {
    rows.sort_by_key(|row| {
        let worst = row.changes.iter().filter(|change| change.is_worse).map(|change| change.aspect).max();
        std::cmp::Reverse(worst)
    });
}

/// Returns the largest error of all executions.
#[must_use]
pub fn largest_error(report: &Report) -> Option<f64> {
    runs(report).filter_map(|run| run.error).reduce(f64::max)
}

/// Returns the notes of an engine that explain a larger error.
#[must_use]
pub fn rounding_notes(engine: &Engine) -> Vec<&str> {
    let is_rounding = |note: &&str| ROUNDING_NOTES.iter().any(|rounding| note.starts_with(rounding));
    engine.notes.iter().map(String::as_str).filter(is_rounding).collect()
}

/// Formats an error.
#[must_use]
pub fn error_text(error: f64) -> String {
    match error {
        f64::MAX => "NaN".to_owned(),
        large if large >= 1e5 => format!("{large:.1e}"),
        error => format!("{error:.3}"),
    }
}

/// Returns whether the first plans of both reports returned the same bits. `None` if one was not executed.
#[must_use]
pub fn has_same_bits(before: &Report, after: &Report) -> Option<bool> {
    let (before, after) = (working_plan(before)?, working_plan(after)?);
    let same = before.runs.iter().filter_map(|run| {
        let other = after.runs.iter().find(|other| other.data == run.data)?;
        let have_run = run.status == "SUCCESS" && other.status == "SUCCESS";
        have_run.then(|| run.bits == other.bits)
    });
    same.reduce(|a, b| a && b)
}

/// Returns the first plan that was built.
#[must_use]
pub fn working_plan(report: &Report) -> Option<&PlanReport> {
    report.plans.iter().find(|plan| plan.skipped.is_none())
}

/// Returns the status of the graph, including its executions.
#[must_use]
pub fn status(report: &Report) -> &str {
    runs(report).map(|run| run.status.as_str()).find(|status| *status != "SUCCESS").unwrap_or(&report.status)
}

/// Orders statuses: success, a refusal, the end of the process.
fn severity(status: &str) -> u8 {
    match status {
        "SUCCESS" => 0,
        "CRASHED" | "HUNG" => 2,
        _ => 1,
    }
}

fn runs(report: &Report) -> impl Iterator<Item = &Run> {
    report.plans.iter().flat_map(|plan| &plan.runs)
}

/// Formats an engine with its knobs.
fn engine(engine: &Engine) -> String {
    let knobs: String = engine.knobs.iter().map(|(name, value)| format!(" {name}={value}")).collect();
    format!("{}{knobs}", engine.index)
}

fn changes(before: &Report, after: &Report) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |is_worse, aspect, text| changes.push(Change { is_worse, aspect, text });
    let (status_before, status_after) = (status(before), status(after));
    if status_before != status_after {
        let text = |status: &str, report: &Report| match &report.reason {
            Some(reason) => format!("{status} ({reason})"),
            None => status.to_owned(),
        };
        let (text_before, text_after) = (text(status_before, before), text(status_after, after));
        add(severity(status_after) > severity(status_before), Aspect::Status, format!("{text_before} → {text_after}"));
    }
    let is_damaged = |report: &Report| runs(report).any(|run| !run.damage.is_empty());
    let have_run = runs(before).next().is_some() && runs(after).next().is_some();
    if have_run && is_damaged(before) != is_damaged(after) {
        let text = runs(if is_damaged(after) { after } else { before }).flat_map(|run| &run.damage).next();
        add(is_damaged(after), Aspect::Memory, text.cloned().unwrap_or_default());
    }
    if let (Some(a), Some(b)) = (largest_error(before), largest_error(after))
        && a != b
    {
        let [notes_before, notes_after] = [before, after]
            .map(|report| working_plan(report).map(|plan| rounding_notes(&plan.engine)).unwrap_or_default());
        let has_same_notes = !notes_after.is_empty() && notes_before == notes_after;
        let factor = if has_same_notes { ROUNDING_FACTOR } else { ERROR_FACTOR };
        let notes = if notes_after.is_empty() { String::new() } else { format!(" ({})", notes_after.join(" ")) };
        let text = format!("{} → {}{notes}", error_text(a), error_text(b));
        add(b > a * factor && b > ERROR_FACTOR, Aspect::Error, text);
    }
    let is_repeatable = |report: &Report| runs(report).all(|run| run.is_repeatable);
    if have_run && is_repeatable(before) != is_repeatable(after) {
        let text = if is_repeatable(after) { "repeatable now" } else { "repeated executions differ" };
        add(!is_repeatable(after), Aspect::Repeatability, text.to_owned());
    }
    let (Some(a), Some(b)) = (working_plan(before), working_plan(after)) else { return changes };
    let mut add = |is_worse, aspect, text| changes.push(Change { is_worse, aspect, text });
    if let (Some(a), Some(b)) = (a.time_ms, b.time_ms)
        && (b > a * TIME_FACTOR || a > b * TIME_FACTOR)
        && (b - a).abs() > TIME_MARGIN
    {
        add(b > a, Aspect::Time, format!("{a:.4} ms → {b:.4} ms"));
    }
    if a.workspace != b.workspace {
        let margin = WORKSPACE_MARGIN.max(a.workspace / 10);
        let text = format!("{} → {} bytes", a.workspace, b.workspace);
        add(b.workspace > a.workspace.saturating_add(margin), Aspect::Workspace, text);
    }
    if (a.engine.index, &a.engine.knobs) != (b.engine.index, &b.engine.knobs) {
        add(false, Aspect::Engine, format!("{} → {}", engine(&a.engine), engine(&b.engine)));
    }
    let same_as_captured =
        |plan: &PlanReport| plan.runs.iter().filter_map(|run| run.same_as_captured).reduce(|a, b| a && b);
    if let (Some(a), Some(b)) = (same_as_captured(a), same_as_captured(b))
        && a != b
    {
        let text =
            if b { "the outputs are the captured ones now" } else { "the outputs differ from the captured ones now" };
        add(false, Aspect::Bits, text.to_owned());
    } else if has_same_bits(before, after) == Some(false) {
        let has_reference = largest_error(before).is_some() && largest_error(after).is_some();
        let text = if has_reference { "the outputs differ" } else { "the outputs differ: a hint, without a reference" };
        add(false, Aspect::Bits, text.to_owned());
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::super::request::DataSet;
    use super::*;

    fn report(error: f64, workspace: u64) -> Report {
        let run = Run {
            data: DataSet::Normal,
            status: "SUCCESS".to_owned(),
            reason: None,
            error: Some(error),
            worst_element: None,
            is_sampled: false,
            same_as_captured: None,
            worst_output: None,
            no_reference: None,
            bits: format!("{error}"),
            is_repeatable: true,
            damage: Vec::new(),
        };
        let plan = PlanReport { workspace, runs: vec![run], ..PlanReport::default() };
        Report { status: "SUCCESS".to_owned(), plans: vec![plan], ..Report::default() }
    }

    fn worse(before: &Report, after: &Report) -> Vec<Aspect> {
        let row = Row::new("g".to_owned(), String::new(), before.clone(), after.clone());
        row.changes.iter().filter(|change| change.is_worse).map(|change| change.aspect).collect()
    }

    #[test]
    fn each_aspect_can_become_worse() {
        let good = report(0.5, 0);
        let failed = Report { status: "NOT_SUPPORTED".to_owned(), ..Report::default() };
        let crashed = Report { status: "CRASHED".to_owned(), ..Report::default() };
        let (mut random, mut damaged, mut slow, mut fast) = (good.clone(), good.clone(), good.clone(), good.clone());
        random.plans[0].runs[0].is_repeatable = false;
        damaged.plans[0].runs[0].damage = vec!["1 byte after tensor 3".to_owned()];
        (fast.plans[0].time_ms, slow.plans[0].time_ms) = (Some(1.0), Some(1.3));
        let (mut tiny, mut noisy) = (good.clone(), good.clone());
        (tiny.plans[0].time_ms, noisy.plans[0].time_ms) = (Some(0.0373), Some(0.0451));
        let rounded = |error, note: &str| {
            let mut report = report(error, 0);
            report.plans[0].engine.notes = vec!["tensor_core".to_owned(), note.to_owned()];
            report
        };
        let cases = [
            (&good, &good, vec![]),
            (&good, &failed, vec![Aspect::Status]),
            (&failed, &good, vec![]),
            (&failed, &crashed, vec![Aspect::Status]),
            (&crashed, &random, vec![]),
            (&good, &report(3.9, 0), vec![]),
            (&good, &report(4.1, 0), vec![Aspect::Error]),
            (&good, &report(f64::MAX, 0), vec![Aspect::Error]),
            (&report(100.0, 0), &report(200.0, 0), vec![]),
            (&good, &report(0.5, 2 << 20), vec![Aspect::Workspace]),
            (&good, &report(0.5, 1000), vec![]),
            (&good, &random, vec![Aspect::Repeatability]),
            (&good, &damaged, vec![Aspect::Memory]),
            (&fast, &slow, vec![Aspect::Time]),
            (&tiny, &noisy, vec![]),
            (&rounded(100.0, "winograd_tile_4x4"), &rounded(1500.0, "winograd_tile_4x4"), vec![]),
            (&rounded(100.0, "winograd_tile_4x4"), &rounded(1700.0, "winograd_tile_4x4"), vec![Aspect::Error]),
            (&rounded(100.0, "tensor_core"), &rounded(1500.0, "tensor_core"), vec![Aspect::Error]),
            (&good, &rounded(15.0, "fft"), vec![Aspect::Error]),
            (&slow, &fast, vec![]),
        ];
        for (index, (before, after, expected)) in cases.into_iter().enumerate() {
            assert_eq!(worse(before, after), expected, "case {index}");
        }
        let mut rows = [&good, &random, &failed]
            .map(|after| Row::new(after.status.clone(), String::new(), good.clone(), after.clone()));
        sort(&mut rows);
        assert_eq!(rows.map(|row| row.is_worse()), [true, true, false]);
        assert_eq!(has_same_bits(&good, &report(0.6, 0)), Some(false));
        assert_eq!(has_same_bits(&good, &failed), None);
        let captured = |same| {
            let mut report = good.clone();
            report.plans[0].runs[0].same_as_captured = Some(same);
            report
        };
        let changes = changes(&captured(true), &captured(false));
        assert_eq!(changes.iter().map(|change| change.aspect).collect::<Vec<_>>(), [Aspect::Bits]);
        assert!(changes[0].text.contains("differ") && super::changes(&captured(true), &captured(true)).is_empty());
    }
}
