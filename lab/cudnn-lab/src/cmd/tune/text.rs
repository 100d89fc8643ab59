//! Prints the report of `tune`.

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{count, outln};
use cudnn_replay::replay::capture::Captured;
use cudnn_replay::tune::task::Phases;
use cudnn_store::choices::{Choice, EngineProblem, Ranking};

use super::place::Place;
use super::summary::{RefusedGraph, TuneSummary, best, default, gain, is_out_of_reach, reachable};
use crate::captures::listed_calls;
use crate::stream_table::StreamTable;

/// The names and usual widths of the columns after the graph.
const COLUMNS: [(&str, usize); 7] =
    [("executions", 10), ("default", 7), ("time", 10), ("tuned", 7), ("time", 10), ("gain", 6), ("workspace", 10)];

pub(super) fn table(graphs: &[Captured]) -> StreamTable {
    StreamTable::new(graphs.iter().map(|graph| graph.id.as_str()), COLUMNS)
}

pub(super) fn add(table: &mut StreamTable, place: &Place, ranking: &Ranking) {
    table.head(Some(place_text(place)));
    let engine = |choice: Option<&Choice>| choice.map_or(String::new(), |choice| choice.engine.to_string());
    let (default, tuned) = (default(ranking), reachable(ranking));
    table.print([
        ranking.graph.printable(),
        ranking.executions.to_string(),
        engine(default),
        time_of(default),
        engine(tuned),
        time_of(tuned),
        gain_text(ranking),
        workspace(tuned),
    ]);
}

pub(super) fn add_refused(table: &mut StreamTable, place: &Place, refused: &RefusedGraph) {
    table.head(Some(place_text(place)));
    table.print([refused.graph.printable(), format!("not tuned: {}", refused.reason.printable())]);
}

pub(super) fn place_text(place: &Place) -> String {
    let (name, capability) = (place.device.name.printable(), place.device.compute_capability);
    format!("cuDNN {}, {name} (compute capability {capability})", place.cudnn)
}

/// Returns the time of an engine, or an empty text if it is unknown.
pub(super) fn time_of(choice: Option<&Choice>) -> String {
    choice.and_then(|choice| choice.time_us).map_or(String::new(), time_text)
}

/// Returns the gain in percent of the default's time, or an empty text.
pub(super) fn gain_text(ranking: &Ranking) -> String {
    let time = default(ranking).and_then(|choice| choice.time_us);
    time.map_or(String::new(), |time| format!("{:.1} %", gain(ranking) / time * 100.0))
}

pub(super) fn workspace(choice: Option<&Choice>) -> String {
    choice.map_or(String::new(), |choice| choice.workspace.to_string())
}

/// Formats a time in microseconds.
pub(super) fn time_text(time: f64) -> String {
    if time < 1e4 { format!("{time:.2} us") } else { format!("{:.2} ms", time / 1e3) }
}

pub(super) fn sentences(summary: &TuneSummary<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let (before, after) = summary.step();
    let percent = if before > 0.0 { (before - after) / before * 100.0 } else { 0.0 };
    lines.push(format!(
        "expected gain per step: {} of {} ({percent:.1} %), for {} in the capture",
        time_text(before - after),
        time_text(before),
        count(summary.steps, "step")
    ));
    let total = summary.rankings.len();
    lines.push(format!("{} of {} get another engine", summary.improved(), count(total, "graph")));
    if summary.out_of_reach() > 0 {
        lines.push(format!(
            "{}: the fastest engine is out of reach for the layer, because the heuristics do not propose it in the \
             program's modes",
            count(summary.out_of_reach(), "graph")
        ));
    }
    if !summary.refused.is_empty() {
        lines.push(format!("{} cannot be tuned", count(summary.refused.len(), "graph")));
    }
    if summary.left > 0 {
        lines.push(format!("{} not tuned yet; the same command continues", count(summary.left, "graph")));
    }
    if !summary.older_calls.is_empty() {
        lines.push(format!("the layer does not cover calls of the older API: {}", listed_calls(summary.older_calls)));
    }
    lines
}

pub(super) fn remarks(ranking: &Ranking) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(best) = best(ranking).filter(|_| is_out_of_reach(ranking)) {
        let time = time_of(Some(best));
        remarks.push(format!("{best} takes {time}, but is out of reach for the layer"));
    }
    for choice in ranking.engines.iter().filter(|choice| choice.is_dangerous()) {
        let text = choice.problem.as_ref().map_or("", |problem| problem.text());
        let is_damaging = matches!(choice.problem, Some(EngineProblem::Damaging(_)));
        let what = if is_damaging { "damages memory" } else { "is wrong" };
        let is_default = default(ranking).is_some_and(|default| std::ptr::eq(default, choice));
        let name = if is_default { ", which programs use without tuning," } else { "" };
        remarks.push(format!("{choice}{name} {what}: {text}"));
    }
    remarks
}

pub(super) fn print(summary: &TuneSummary<'_>, phases: &Phases) {
    for ranking in &summary.rankings {
        let remarks = remarks(ranking);
        if !remarks.is_empty() {
            outln!("{}: {}", ranking.graph.printable(), ranking.label.printable());
            remarks.iter().for_each(|remark| outln!("  {}", remark.printable()));
        }
    }
    sentences(summary).iter().for_each(|line| outln!("{line}"));
    let Phases { inputs, heuristics, build, check, race, reference } = phases;
    let seconds = |milliseconds: f64| format!("{:.1} s", milliseconds / 1e3);
    outln!(
        "time: plans {}, checks {}, measurements {}, waiting for the CPU {}",
        seconds(heuristics + build),
        seconds(*check),
        seconds(*race),
        seconds(inputs + reference)
    );
}

#[cfg(test)]
mod tests {
    use cudnn_store::choices::Choices;

    use super::*;

    #[test]
    fn remarks_tell_wrong_engines_from_damaging_ones() {
        let text = r#"{"errata":1,"tuned":[{"cudnn":"9.19.0","device":{"name":"A","compute_capability":"9.0"},
            "graph":"0123456789abcdef","default":1,"engines":[{"engine":1,"proposed":true},
            {"engine":2,"proposed":true,"problem":{"wrong":"one"}},{"engine":3,"problem":{"damaging":"other"}}]}]}"#;
        let choices = Choices::parse(text).unwrap();
        let expected = ["engine 2, which programs use without tuning, is wrong: one", "engine 3 damages memory: other"];
        assert_eq!(remarks(choices.iter().next().unwrap()), expected);
    }
}
