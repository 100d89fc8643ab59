//! Prints the reports of `replay`.

use std::fmt::Write;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{count, outln};
use cudnn_probe::Version;
use cudnn_replay::replay::ReplayReport;
use cudnn_replay::replay::capture::Captured;
use cudnn_replay::replay::comparison::{Aspect, ComparisonRow, cells, error_text, rounding_notes};

use crate::stream_table::StreamTable;

pub(super) struct Table(StreamTable);

impl Table {
    pub(super) fn for_reports(graphs: &[Captured]) -> Self {
        let names = ["status", "engine", "proposals", "engines", "workspace", "build", "time", "error"];
        Table(StreamTable::new(ids(graphs), names.map(usual)))
    }

    pub(super) fn for_rows(graphs: &[Captured], titles: &[String; 2]) -> Self {
        let names = ["status", "engine", "workspace", "build", "time", "error", "same bits"];
        let release = titles.iter().map(|title| title.printable().chars().count()).max().unwrap_or_default();
        Table(StreamTable::new(ids(graphs), [("release", release)].into_iter().chain(names.map(usual))))
    }

    pub(super) fn add_report(&mut self, graph: &Captured, report: &ReplayReport) {
        self.0.head((report.cudnn > 0).then(|| heading(report)));
        let [status, engine, workspace, build, time, error] = cells(report).map(|cell| cell.printable());
        let proposals = report.proposals.map_or(String::new(), |[a, fallback]| format!("{a}+{fallback}"));
        let supporting = report.supporting.map_or(String::new(), |supporting| supporting.to_string());
        let graph = graph.id.printable();
        self.0.print([graph, status, engine, proposals, supporting, workspace, build, time, error]);
    }

    pub(super) fn add_row(&mut self, row: &ComparisonRow, titles: &[String; 2]) {
        self.0.head(place_of([&row.before, &row.after].into_iter()).map(|place| place.printable()));
        let same = row.has_same_bits.map_or("", |same| if same { "yes" } else { "no" });
        let [before, after] = titles;
        for (title, report, graph, same) in
            [(before, &row.before, row.graph.printable(), same), (after, &row.after, String::new(), "")]
        {
            let [status, engine, workspace, build, time, error] = cells(report).map(|cell| cell.printable());
            let title = title.printable();
            self.0.print([graph, title, status, engine, workspace, build, time, error, same.to_owned()]);
        }
    }
}

fn ids(graphs: &[Captured]) -> impl Iterator<Item = &str> {
    graphs.iter().map(|graph| graph.id.as_str())
}

/// Returns the column with the width of usual values.
fn usual(name: &'static str) -> (&'static str, usize) {
    let width = match name {
        "status" => "NOT_SUPPORTED",
        "workspace" => "123456789",
        "build" => "1234.5 ms",
        "time" => "12.3456 ms",
        "error" => "1234.567",
        _ => "",
    };
    (name, width.len())
}

pub(super) fn print_notes(reports: &[(&Captured, ReplayReport)]) {
    for (graph, report) in reports {
        outln!("{}: {}{}", graph.id.printable(), graph.label.printable(), notes(report));
    }
}

/// Prints the changes, with the numbers of graphs that became worse and of graphs that fail with both releases.
pub(super) fn print_changes(rows: &[ComparisonRow], titles: &[String; 2], [worse, failing]: [usize; 2]) {
    let [before, after] = titles;
    for row in rows {
        outln!("{}: {}", row.graph.printable(), row.label.printable());
        for change in &row.changes {
            let mark = if change.is_worse { "worse" } else { "changed" };
            let aspect = format!("{:?}", change.aspect).to_lowercase();
            outln!("  {mark}: {aspect} {}", change.text.printable());
        }
        // A change of the status contains the reasons.
        if !row.changes.iter().any(|change| change.aspect == Aspect::Status) {
            for (title, report) in [(before, &row.before), (after, &row.after)] {
                if let Some(reason) = &report.reason {
                    outln!("  {}: {}", title.printable(), reason.printable());
                }
            }
        }
    }
    if failing > 0 {
        let fail = if failing == 1 { "fails" } else { "fail" };
        outln!("{} {fail} with both releases, of {}", count(failing, "graph"), rows.len());
    }
    outln!("{} became worse, of {}", count(worse, "graph"), rows.len());
}

/// Returns where graphs were planned or executed, from the first report of cuDNN.
pub(super) fn place_of<'a>(mut reports: impl Iterator<Item = &'a ReplayReport>) -> Option<String> {
    reports.find(|report| report.cudnn > 0).map(place_of_all)
}

fn heading(report: &ReplayReport) -> String {
    format!("cuDNN {}, {}", version(report.cudnn), place_of_all(report).printable())
}

/// Formats the version from `cudnnGetVersion`.
pub(super) fn version(cudnn: usize) -> String {
    Version::from_number(cudnn).to_string()
}

/// Returns the place for all graphs of a replay. Graphs that cannot be executed have their own note.
fn place_of_all(report: &ReplayReport) -> String {
    if report.is_described { place(report) } else { format!("executed on {}", report.device) }
}

pub(super) fn place(report: &ReplayReport) -> String {
    match &report.not_executed {
        Some(reason) => format!("planned for {}; nothing was executed: {reason}", report.device),
        None => format!("executed on {}", report.device),
    }
}

/// Returns the reason for a failure, and notes about the plans.
fn notes(report: &ReplayReport) -> String {
    let mut text = String::new();
    let mut note = |note: &str| {
        let _ = write!(text, "\n  {}", note.printable());
    };
    if let Some(reason) = &report.reason {
        note(reason);
    }
    if let Some(reason) = report.not_executed.as_ref().filter(|_| !report.is_described) {
        note(&format!("not executed: {reason}"));
    }
    report.problems.iter().for_each(|problem| note(problem));
    for plan in &report.plans {
        let engine = plan.engine.index;
        if let Some(reason) = &plan.skipped {
            note(&format!("engine {engine} was skipped: {reason}"));
        } else if report.plans.len() > 1 {
            note(&format!("engine {engine}: workspace {}, {}", plan.workspace, plan.engine.notes.join(" ")));
        }
        for run in &plan.runs {
            let data = format!("{:?}", run.data).to_lowercase();
            let sample = if run.is_sampled { " in a sample" } else { "" };
            let rounding = rounding_notes(&plan.engine).join(" ");
            let rounding = if rounding.is_empty() { rounding } else { format!(" ({rounding})") };
            let error = run.error.map(|error| format!("error {}{sample}{rounding}", error_text(error)));
            let reference = run.no_reference.as_ref().map(|reason| format!("no reference: {reason}"));
            let result: Vec<String> = error.into_iter().chain(reference).collect();
            note(&format!("engine {engine}, {data}: {} {}", run.status, result.join(", ")));
            if let Some(reason) = &run.reason {
                note(reason);
            }
            if let Some(worst) = &run.worst_element {
                note(worst);
            }
            for output in run.outputs.iter().filter(|output| output.compared < 1.0) {
                let percent = output.compared * 100.0;
                note(&format!("only {percent:.1} % of tensor {} have a number as their reference", output.uid));
            }
            match run.same_as_captured {
                Some(true) => note("the outputs are the captured ones"),
                Some(false) => note("the outputs differ from the captured ones"),
                None => {}
            }
            if !run.is_repeatable {
                note("repeated executions differ");
            }
            run.damage.iter().for_each(|damage| note(damage));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heading_holds_for_all_graphs() {
        let report = |reason: Option<&str>, is_described| ReplayReport {
            cudnn: 91_900,
            device: "A".to_owned(),
            not_executed: reason.map(str::to_owned),
            is_described,
            ..ReplayReport::default()
        };
        let place = |report: &ReplayReport| place_of([report].into_iter()).unwrap();
        let refused = report(Some("too large"), false);
        assert_eq!([place(&report(None, false)), place(&refused)], ["executed on A", "executed on A"]);
        assert_eq!(place(&report(Some("no GPU"), true)), "planned for A; nothing was executed: no GPU");
        assert_eq!(notes(&refused), "\n  not executed: too large");
        assert_eq!(notes(&report(Some("no GPU"), true)), "");
    }
}
