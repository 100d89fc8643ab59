//! Finds the changes between two releases, and decides which are regressions.

use cudnn_store::captures::{Engine, Status};
use serde::Serialize;

use super::request::{DataSet, Engines, OutputError, PlanReport, ReplayReport, Run};
use super::status::ReportStatus;

/// A graph with the reports about two releases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The id of the graph.
    pub graph: String,
    /// The graph in one line.
    pub label: String,
    /// The report about the first release.
    pub before: ReplayReport,
    /// The report about the second release.
    pub after: ReplayReport,
    /// The changes, with the worst first.
    pub changes: Vec<Change>,
    /// Whether the plans of both releases returned the same bits. `None` if no plan was executed with both.
    #[serde(skip)]
    pub has_same_bits: Option<bool>,
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

/// The aspects that can change, with the most severe last.
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
    /// Memory that does not belong to an output.
    Memory,
    /// The status.
    Status,
}

/// A workspace is larger if it grows by more than this number of bytes and by more than a tenth.
const WORKSPACE_MARGIN: u64 = 1 << 20;
/// An execution is slower if it takes longer by this factor, and by this number of milliseconds. Measurements of the
/// same execution differ by some microseconds.
const TIME_FACTOR: f64 = 1.2;
const TIME_MARGIN: f64 = 0.01;
/// An error is larger if it grows by this factor and exceeds this number of units.
const ERROR_FACTOR: f64 = 4.0;
/// The factor for engines that round more often and have the same notes about it.
const ROUNDING_FACTOR: f64 = 16.0;
/// The notes of engines that compute with less precision or in a different order.
const ROUNDING_NOTES: &[&str] = &["down_convert_inputs", "reduced_precision_reduction", "fft", "winograd"];

impl ComparisonRow {
    /// Compares two reports about a graph that was replayed with these engines.
    pub fn new(graph: String, label: String, engines: &Engines, before: ReplayReport, after: ReplayReport) -> Self {
        let mut changes = changes(engines, &before, &after);
        changes.sort_by(|a, b| b.cmp(a));
        let pairs = pairs(engines, &before, &after);
        let has_same_bits = pairs.iter().filter_map(Pair::has_same_bits).reduce(|a, b| a && b);
        ComparisonRow { graph, label, before, after, changes, has_same_bits }
    }

    /// Returns whether something became worse.
    pub fn is_worse(&self) -> bool {
        self.changes.iter().any(|change| change.is_worse)
    }
}

/// Sorts the most severe regressions to the front, and otherwise keeps the order of the capture.
pub fn sort(rows: &mut [ComparisonRow]) {
    rows.sort_by_key(|row| {
        let worst = row.changes.iter().filter(|change| change.is_worse).map(|change| change.aspect).max();
        std::cmp::Reverse(worst)
    });
}

fn largest_error(report: &ReplayReport) -> Option<f64> {
    runs(report).filter_map(|run| run.error).reduce(f64::max)
}

/// Returns the status, engine, workspace, build time, execution time, and largest error.
pub fn cells(report: &ReplayReport) -> [String; 6] {
    let plan = working_plan(report);
    let of_plan = |text: &dyn Fn(&PlanReport) -> String| plan.map_or(String::new(), text);
    let time = plan.and_then(|plan| plan.time_ms);
    [
        status(report).to_string(),
        of_plan(&|plan| plan.engine.index.to_string()),
        of_plan(&|plan| plan.workspace.to_string()),
        of_plan(&|plan| format!("{:.1} ms", plan.build_us as f64 / 1e3)),
        time.map_or(String::new(), |time| format!("{time:.4} ms")),
        largest_error(report).map_or(String::new(), error_text),
    ]
}

/// Returns the notes of an engine that explain a larger error.
pub fn rounding_notes(engine: &Engine) -> Vec<&str> {
    let is_rounding = |note: &&str| ROUNDING_NOTES.iter().any(|rounding| note.starts_with(rounding));
    engine.notes.iter().map(String::as_str).filter(is_rounding).collect()
}

/// Formats an error.
pub fn error_text(error: f64) -> String {
    match error {
        f64::MAX => "NaN".to_owned(),
        large if large >= 1e5 => format!("{large:.1e}"),
        error => format!("{error:.3}"),
    }
}

/// Returns the first plan that was built.
pub fn working_plan(report: &ReplayReport) -> Option<&PlanReport> {
    built(report).next()
}

fn built(report: &ReplayReport) -> impl Iterator<Item = &PlanReport> {
    report.plans.iter().filter(|plan| plan.skipped.is_none())
}

/// Returns the status of the graph, including its executions.
pub fn status(report: &ReplayReport) -> ReportStatus {
    let failed = runs(report).map(|run| run.status).find(|status| *status != Status::SUCCESS);
    failed.map_or(report.status, ReportStatus::Returned)
}

fn severity(status: ReportStatus) -> u8 {
    match status {
        ReportStatus::SUCCESS => 0,
        ReportStatus::Crashed | ReportStatus::Hung => 2,
        ReportStatus::Returned(_) | ReportStatus::Skipped => 1,
    }
}

fn runs(report: &ReplayReport) -> impl Iterator<Item = &Run> {
    report.plans.iter().flat_map(|plan| &plan.runs)
}

fn engine(engine: &Engine) -> String {
    let knobs: String = engine.knobs.iter().map(|(name, value)| format!(" {name}={value}")).collect();
    format!("{}{knobs}", engine.index)
}

fn changes(engines: &Engines, before: &ReplayReport, after: &ReplayReport) -> Vec<Change> {
    let mut changes = Vec::new();
    let (status_before, status_after) = (status(before), status(after));
    if status_before != status_after {
        let text = |status: ReportStatus, report: &ReplayReport| match &report.reason {
            Some(reason) => format!("{status} ({reason})"),
            None => status.to_string(),
        };
        let text = format!("{} → {}", text(status_before, before), text(status_after, after));
        changes.push(Change::new(severity(status_after) > severity(status_before), Aspect::Status, text));
    }
    for pair in pairs(engines, before, after) {
        changes.extend(pair.results());
        changes.extend(pair.costs());
    }
    if *engines == Engines::All && !before.plans.is_empty() && !after.plans.is_empty() {
        changes.extend(lost(before, after));
        changes.extend(gained(before, after));
    }
    changes
}

impl Change {
    fn new(is_worse: bool, aspect: Aspect, text: String) -> Self {
        Change { is_worse, aspect, text }
    }
}

struct Pair<'a> {
    before: &'a PlanReport,
    after: &'a PlanReport,
    /// The name of the engine, if all engines were tried.
    engine: Option<String>,
}

/// Returns the plans that were built with both releases: the first ones, or all if all engines were tried.
fn pairs<'a>(engines: &Engines, before: &'a ReplayReport, after: &'a ReplayReport) -> Vec<Pair<'a>> {
    if *engines != Engines::All {
        let both = working_plan(before).zip(working_plan(after));
        return both.into_iter().map(|(before, after)| Pair { before, after, engine: None }).collect();
    }
    let pair = |plan: &'a PlanReport| {
        let other = counterpart(plan, before, after).filter(|other| other.skipped.is_none())?;
        Some(Pair { before: plan, after: other, engine: Some(name(other, after)) })
    };
    built(before).filter_map(pair).collect()
}

/// Returns the plan in `other` with the same engine and knobs. If each report has a single plan with the engine, the
/// knobs may differ, because releases can have different default knobs.
fn counterpart<'a>(plan: &PlanReport, own: &ReplayReport, other: &'a ReplayReport) -> Option<&'a PlanReport> {
    let others: Vec<&PlanReport> = with_engine(other, plan.engine.index).collect();
    let is_single = with_engine(own, plan.engine.index).count() == 1;
    match others.as_slice() {
        [only] if is_single => Some(only),
        _ => others.into_iter().find(|other| other.engine.knobs == plan.engine.knobs),
    }
}

/// Returns the plans with this engine, including plans that were not built.
fn with_engine(report: &ReplayReport, index: i64) -> impl Iterator<Item = &PlanReport> {
    report.plans.iter().filter(move |plan| plan.engine.index == index)
}

/// Names the engine of a plan, with the knobs if several plans have this engine.
fn name(plan: &PlanReport, report: &ReplayReport) -> String {
    let is_single = with_engine(report, plan.engine.index).count() == 1;
    if is_single { format!("engine {}", plan.engine.index) } else { format!("engine {}", engine(&plan.engine)) }
}

/// Returns why a plan of `own` was not built with the other release. Returns `None` if it was built, or if the other
/// release only tried the engine with other knobs.
fn refusal<'a>(plan: &PlanReport, own: &ReplayReport, other: &'a ReplayReport) -> Option<&'a str> {
    match counterpart(plan, own, other) {
        Some(other) => other.skipped.as_deref(),
        None if with_engine(other, plan.engine.index).next().is_some() => None,
        None => Some("it does not support the graph"),
    }
}

fn lost(before: &ReplayReport, after: &ReplayReport) -> impl Iterator<Item = Change> {
    built(before).filter_map(|plan| {
        let text = format!("{} does not work any more: {}", name(plan, before), refusal(plan, before, after)?);
        Some(Change::new(false, Aspect::Engine, text))
    })
}

/// Returns the plans that were built only with the second release, and the memory that they damage.
fn gained(before: &ReplayReport, after: &ReplayReport) -> impl Iterator<Item = Change> {
    let is_compared = |plan: &PlanReport| counterpart(plan, after, before).is_some_and(|other| other.skipped.is_none());
    built(after).filter(move |plan| !is_compared(plan)).flat_map(move |plan| {
        let works = refusal(plan, after, before).map(|_| format!("{} works now", name(plan, after)));
        let damage = plan.runs.iter().flat_map(|run| &run.damage).next();
        let damage = damage.map(|text| format!("{}: {text}", name(plan, after)));
        let works = works.map(|text| Change::new(false, Aspect::Engine, text));
        works.into_iter().chain(damage.map(|text| Change::new(true, Aspect::Memory, text)))
    })
}

impl<'a> Pair<'a> {
    fn runs(&self) -> impl Iterator<Item = (&'a Run, &'a Run)> + use<'a> {
        let (before, after) = (self.before, self.after);
        before.runs.iter().filter_map(|run| Some((run, after.runs.iter().find(|other| other.data == run.data)?)))
    }

    /// Adds the engine, if all engines were tried, and the data set.
    fn at(&self, data: Option<DataSet>, text: &str) -> String {
        let data = data.map(|data| format!("{data:?}").to_lowercase());
        let place = self.engine.clone().into_iter().chain(data).collect::<Vec<String>>().join(", ");
        if place.is_empty() { text.to_owned() } else { format!("{place}: {text}") }
    }

    fn results(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut add = |is_worse, aspect, run: &Run, text: &str| {
            changes.push(Change::new(is_worse, aspect, self.at(Some(run.data), text)));
        };
        for (a, b) in self.runs() {
            // The status of the first plan is the status of the graph.
            if self.engine.is_some() && a.status != b.status {
                let text = format!("{} → {}", a.status, b.status);
                let [before, after] = [a.status, b.status].map(|status| severity(ReportStatus::Returned(status)));
                add(after > before, Aspect::Status, b, &text);
            }
            if let (Some(damage), None) | (None, Some(damage)) = (a.damage.first(), b.damage.first()) {
                add(!b.damage.is_empty(), Aspect::Memory, b, damage);
            }
            if a.is_repeatable != b.is_repeatable {
                let text = if b.is_repeatable { "repeatable now" } else { "repeated executions differ" };
                add(!b.is_repeatable, Aspect::Repeatability, b, text);
            }
        }
        changes.extend(self.errors());
        changes.extend(self.bits());
        changes
    }

    /// Returns the outputs with larger errors than before, or otherwise the largest error if it changed.
    fn errors(&self) -> Vec<Change> {
        let [notes_before, notes] = [self.before, self.after].map(|plan| rounding_notes(&plan.engine));
        let factor = if !notes.is_empty() && notes_before == notes { ROUNDING_FACTOR } else { ERROR_FACTOR };
        let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(" ")) };
        let mut changed: Vec<(f64, Change)> = Vec::new();
        for (before, after) in self.runs() {
            for OutputError { uid, error: b, .. } in &after.outputs {
                let Some(OutputError { error: a, .. }) = before.outputs.iter().find(|output| output.uid == *uid) else {
                    continue;
                };
                if a != b {
                    let text = format!("tensor {uid}: {} → {}{notes}", error_text(*a), error_text(*b));
                    let is_worse = *b > a * factor && *b > ERROR_FACTOR;
                    changed.push((*b, Change::new(is_worse, Aspect::Error, self.at(Some(after.data), &text))));
                }
            }
        }
        if changed.iter().any(|(_, change)| change.is_worse) {
            return changed.into_iter().map(|(_, change)| change).filter(|change| change.is_worse).collect();
        }
        let largest = changed.into_iter().max_by(|(a, _), (b, _)| a.total_cmp(b));
        largest.into_iter().map(|(_, change)| change).collect()
    }

    fn bits(&self) -> Option<Change> {
        let same_as_captured =
            |plan: &PlanReport| plan.runs.iter().filter_map(|run| run.same_as_captured).reduce(|a, b| a && b);
        let text = match (same_as_captured(self.before), same_as_captured(self.after)) {
            (Some(false), Some(true)) => "the outputs are the captured ones now",
            (Some(true), Some(false)) => "the outputs differ from the captured ones now",
            _ if self.has_same_bits() != Some(false) => return None,
            _ if self.runs().any(|(a, b)| a.error.is_some() && b.error.is_some()) => "the outputs differ",
            _ => "the outputs differ: a hint, without a reference",
        };
        Some(Change::new(false, Aspect::Bits, self.at(None, text)))
    }

    fn has_same_bits(&self) -> Option<bool> {
        let have_run = |(a, b): &(&Run, &Run)| a.status == Status::SUCCESS && b.status == Status::SUCCESS;
        self.runs().filter(have_run).map(|(a, b)| a.bits == b.bits).reduce(|a, b| a && b)
    }

    fn costs(&self) -> Vec<Change> {
        let (a, b) = (self.before, self.after);
        let mut changes = Vec::new();
        let mut add = |is_worse, aspect, text: String| {
            changes.push(Change::new(is_worse, aspect, self.at(None, &text)));
        };
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
        changes
    }
}

#[cfg(test)]
mod tests {
    use cudnn_loader::cudnnStatus_t;

    use super::*;

    fn report(error: f64, workspace: u64) -> ReplayReport {
        let run = Run {
            error: Some(error),
            outputs: vec![OutputError { uid: 3, error, compared: 1.0 }],
            bits: format!("{error}"),
            ..Run::success(DataSet::Normal)
        };
        let plan = PlanReport { workspace, runs: vec![run], ..PlanReport::default() };
        ReplayReport { status: ReportStatus::SUCCESS, plans: vec![plan], ..ReplayReport::default() }
    }

    fn row(engines: &Engines, before: &ReplayReport, after: &ReplayReport) -> ComparisonRow {
        ComparisonRow::new(after.status.to_string(), String::new(), engines, before.clone(), after.clone())
    }

    fn worse(before: &ReplayReport, after: &ReplayReport) -> Vec<Aspect> {
        row(&Engines::First, before, after)
            .changes
            .iter()
            .filter(|change| change.is_worse)
            .map(|change| change.aspect)
            .collect()
    }

    /// Large errors are normal with TF32, and must not hide a regression in another data set, output or engine.
    #[test]
    fn a_regression_is_found_next_to_larger_errors() {
        let with = |integers: [f64; 2], normal: [f64; 2]| {
            let mut report = report(0.0, 0);
            let run = report.plans[0].runs.remove(0);
            for (data, errors) in [(DataSet::Integers, integers), (DataSet::Normal, normal)] {
                let output = |(error, uid)| OutputError { uid, error, compared: 1.0 };
                let outputs = errors.into_iter().zip(3..).map(output).collect();
                report.plans[0].runs.push(Run { data, outputs, ..run.clone() });
            }
            report
        };
        let found = |engines: &Engines, before: &ReplayReport, after: &ReplayReport| -> Vec<(Aspect, String)> {
            let worse = changes(engines, before, after).into_iter().filter(|change| change.is_worse);
            worse.map(|change| (change.aspect, change.text)).collect()
        };
        let good = with([0.0, 0.0], [5000.0, 0.5]);
        let error = |text: &str| vec![(Aspect::Error, text.to_owned())];
        assert_eq!(
            found(&Engines::First, &good, &with([1000.0, 0.0], [5000.0, 0.5])),
            error("integers: tensor 3: 0.000 → 1000.000")
        );
        assert_eq!(
            found(&Engines::First, &good, &with([0.0, 0.0], [5000.0, 90.0])),
            error("normal: tensor 4: 0.500 → 90.000")
        );
        assert_eq!(found(&Engines::First, &good, &with([0.5, 0.0], [6000.0, 0.9])), []);

        let engines = |plans: &[(i64, &ReplayReport)]| {
            let plan = |(index, report): &(i64, &ReplayReport)| {
                let mut plan = report.plans[0].clone();
                plan.engine.index = *index;
                plan
            };
            ReplayReport { plans: plans.iter().map(plan).collect(), ..report(0.0, 0) }
        };
        let bad = with([0.0, 0.0], [5000.0, 5000.0]);
        let (mut random, mut failed) = (good.clone(), good.clone());
        random.plans[0].runs[1].is_repeatable = false;
        failed.plans[0].runs[1].status = cudnnStatus_t::CUDNN_STATUS_EXECUTION_FAILED.into();
        let before = engines(&[(1, &bad), (2, &good), (3, &random), (4, &failed), (5, &good)]);
        assert_eq!(
            found(&Engines::All, &before, &engines(&[(1, &bad), (2, &bad), (3, &random), (4, &failed), (5, &good)])),
            error("engine 2, normal: tensor 4: 0.500 → 5000.000")
        );
        assert_eq!(
            found(&Engines::All, &before, &engines(&[(5, &random), (4, &failed), (3, &random), (2, &good), (1, &bad)])),
            [(Aspect::Repeatability, "engine 5, normal: repeated executions differ".to_owned())]
        );
        assert_eq!(
            found(&Engines::All, &before, &engines(&[(1, &bad), (2, &failed), (3, &random), (4, &good), (5, &good)])),
            [(Aspect::Status, "engine 2, normal: SUCCESS → EXECUTION_FAILED".to_owned())]
        );
    }

    /// Returns a report with plans of an engine, a knob, and an error.
    fn all_engines(plans: &[(i64, i64, f64)]) -> ReplayReport {
        let plan = |(index, tile, error): &(i64, i64, f64)| {
            let mut plan = report(*error, 0).plans.remove(0);
            plan.engine.index = *index;
            plan.engine.knobs.insert("TILE".to_owned(), *tile);
            plan
        };
        ReplayReport { plans: plans.iter().map(plan).collect(), ..report(0.0, 0) }
    }

    /// Heuristics may propose an engine several times with different knobs.
    #[test]
    fn each_configuration_of_an_engine_is_compared_with_itself() {
        let texts = |before: &ReplayReport, after: &ReplayReport| -> Vec<String> {
            let changes = row(&Engines::All, before, after).changes.into_iter();
            changes.map(|change| format!("{}{}", if change.is_worse { "worse: " } else { "" }, change.text)).collect()
        };
        let before = all_engines(&[(2, 1, 0.5), (2, 8, 500.0), (7, 1, 0.5)]);
        assert_eq!(texts(&before, &all_engines(&[(7, 1, 0.5), (2, 8, 500.0), (2, 1, 0.5)])), [""; 0]);
        assert_eq!(
            texts(&before, &all_engines(&[(2, 8, 500.0), (2, 1, 500.0), (7, 1, 0.5)])),
            ["worse: engine 2 TILE=1, normal: tensor 3: 0.500 → 500.000", "engine 2 TILE=1: the outputs differ"]
        );
        // Knobs that only one release tried are neither gained nor lost, but must not damage memory.
        let mut other = all_engines(&[(2, 1, 0.5), (2, 9, 0.0), (2, 8, 500.0), (7, 1, 0.5)]);
        assert_eq!(texts(&before, &other), [""; 0]);
        other.plans[1].runs[0].damage = vec!["1 byte after tensor 3".to_owned()];
        other.plans[2].skipped = Some("NOT_SUPPORTED".to_owned());
        assert_eq!(
            texts(&before, &other),
            ["worse: engine 2 TILE=9: 1 byte after tensor 3", "engine 2 TILE=8 does not work any more: NOT_SUPPORTED"]
        );
        assert_eq!(
            texts(&all_engines(&[(2, 1, 0.5)]), &all_engines(&[(2, 8, 500.0)])),
            [
                "worse: engine 2, normal: tensor 3: 0.500 → 500.000",
                "engine 2: 2 TILE=1 → 2 TILE=8",
                "engine 2: the outputs differ"
            ]
        );
    }

    #[test]
    fn single_engines_are_compared_only_if_the_first_one_was_wanted() {
        let [one, two] = [1, 2].map(|index| all_engines(&[(index, 1, 0.5)]));
        let texts = |engines| -> Vec<String> {
            row(&engines, &one, &two).changes.into_iter().map(|change| change.text).collect()
        };
        let expected = ["engine 2 works now", "engine 1 does not work any more: it does not support the graph"];
        assert_eq!(texts(Engines::All), expected);
        assert_eq!(texts(Engines::First), ["1 TILE=1 → 2 TILE=1"]);
    }

    #[test]
    fn each_aspect_can_become_worse() {
        let good = report(0.5, 0);
        let failed =
            ReplayReport { status: cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED.into(), ..ReplayReport::default() };
        let crashed = ReplayReport { status: ReportStatus::Crashed, ..ReplayReport::default() };
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
        let mut rows = [&good, &random, &failed].map(|after| row(&Engines::First, &good, after));
        sort(&mut rows);
        assert_eq!(rows.map(|row| row.is_worse()), [true, true, false]);
        assert_eq!(row(&Engines::First, &good, &report(0.6, 0)).has_same_bits, Some(false));
        assert_eq!(row(&Engines::First, &good, &failed).has_same_bits, None);
        let captured = |same| {
            let mut report = good.clone();
            report.plans[0].runs[0].same_as_captured = Some(same);
            report
        };
        let changes = |same| row(&Engines::First, &captured(true), &captured(same)).changes;
        assert!(changes(true).is_empty());
        let changes = changes(false);
        assert_eq!(changes.iter().map(|change| change.aspect).collect::<Vec<_>>(), [Aspect::Bits]);
        assert!(changes[0].text.contains("differ"));
    }
}
