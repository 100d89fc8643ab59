//! Prints the reports of `replay`.

use std::fmt::{Display, Write};
use std::time::Duration;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{count, outln};
use cudnn_replay::replay::Report;
use cudnn_replay::replay::capture::Captured;
use cudnn_replay::replay::comparison::{Aspect, Row, error_text, largest_error, rounding_notes, status, working_plan};

/// A table that is printed row by row.
pub(super) struct Table {
    /// The names and the usual widths of the columns.
    columns: Vec<(&'static str, usize)>,
    has_header: bool,
    has_heading: bool,
}

impl Table {
    /// Creates a table for one cuDNN.
    pub(super) fn of_reports(graphs: &[Captured]) -> Self {
        let names = ["status", "engine", "proposals", "engines", "workspace", "build", "time", "error"];
        Table::new([("graph", width_of(graphs))].into_iter().chain(names.map(usual)))
    }

    /// Creates a table for two releases.
    pub(super) fn of_rows(graphs: &[Captured], titles: &[String; 2]) -> Self {
        let names = ["status", "engine", "workspace", "build", "time", "error", "same bits"];
        let release = titles.iter().map(|title| title.printable().chars().count()).max().unwrap_or_default();
        Table::new([("graph", width_of(graphs)), ("release", release)].into_iter().chain(names.map(usual)))
    }

    fn new(columns: impl Iterator<Item = (&'static str, usize)>) -> Self {
        let columns = columns.map(|(name, width)| (name, width.max(name.len()))).collect();
        Table { columns, has_header: false, has_heading: false }
    }

    /// Prints the row of a graph.
    pub(super) fn add_report(&mut self, graph: &Captured, report: &Report) {
        self.head((report.cudnn > 0).then(|| heading(report)));
        let [status, engine, workspace, build, time, error] = cells(report);
        let proposals = report.proposals.map_or(String::new(), |[a, fallback]| format!("{a}+{fallback}"));
        let supporting = report.supporting.map_or(String::new(), |supporting| supporting.to_string());
        let graph = graph.id.printable();
        self.print([graph, status, engine, proposals, supporting, workspace, build, time, error].iter());
    }

    /// Prints the rows of a graph, one for each release.
    pub(super) fn add_row(&mut self, row: &Row, titles: &[String; 2]) {
        self.head(place_of([&row.before, &row.after].into_iter()).map(|place| place.printable()));
        let same = row.has_same_bits.map_or("", |same| if same { "yes" } else { "no" });
        let [before, after] = titles;
        for (title, report, graph, same) in
            [(before, &row.before, row.graph.printable(), same), (after, &row.after, String::new(), "")]
        {
            let [status, engine, workspace, build, time, error] = cells(report);
            let title = title.printable();
            self.print([graph, title, status, engine, workspace, build, time, error, same.to_owned()].iter());
        }
    }

    /// Prints the heading as soon as it is known, and the names of the columns before the first row.
    fn head(&mut self, heading: Option<String>) {
        if let Some(heading) = heading.filter(|_| !self.has_heading) {
            outln!("{heading}");
            self.has_heading = true;
        }
        if !self.has_header {
            self.print(self.columns.iter().map(|(name, _)| name));
            self.has_header = true;
        }
    }

    fn print(&self, cells: impl Iterator<Item = impl Display>) {
        let mut line = String::new();
        for (cell, (_, width)) in cells.zip(&self.columns) {
            // Writing to a string cannot fail.
            let _ = write!(line, " {cell:<width$} ");
        }
        outln!("{}", line.trim_end());
    }
}

fn width_of(graphs: &[Captured]) -> usize {
    graphs.iter().map(|graph| graph.id.printable().chars().count()).max().unwrap_or_default()
}

/// Returns the column with the width of usual values. A longer value moves the rest of its line.
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

/// Returns the progress, with an estimate of the time that is left.
pub(super) fn progress(done: usize, total: usize, elapsed: Duration) -> String {
    let left = elapsed.as_secs_f64() / done as f64 * (total - done) as f64;
    let left = match left {
        _ if done == 0 => String::new(),
        ..100.0 => format!(", {left:.0} s left"),
        _ => format!(", {:.0} min left", left / 60.0),
    };
    format!("{done} of {}{left}", count(total, "graph"))
}

/// Prints what is remarkable about each graph.
pub(super) fn print_notes(reports: &[(&Captured, Report)]) {
    for (graph, report) in reports {
        outln!("{}: {}{}", graph.id.printable(), graph.label.printable(), notes(report));
    }
}

/// Prints the changes, with the numbers of graphs that became worse and that fail with both releases.
pub(super) fn print_changes(rows: &[Row], titles: &[String; 2], [worse, failing]: [usize; 2]) {
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

/// Returns where graphs were planned or executed, according to the first report from cuDNN.
pub(super) fn place_of<'a>(mut reports: impl Iterator<Item = &'a Report>) -> Option<String> {
    reports.find(|report| report.cudnn > 0).map(place_of_all)
}

/// Returns the status, engine, workspace, time to build, time of an execution, and largest error.
fn cells(report: &Report) -> [String; 6] {
    let plan = working_plan(report);
    let time = plan.and_then(|plan| plan.time_ms);
    [
        status(report).printable(),
        plan.map_or(String::new(), |plan| plan.engine.index.to_string()),
        plan.map_or(String::new(), |plan| plan.workspace.to_string()),
        plan.map_or(String::new(), |plan| format!("{:.1} ms", plan.build_us as f64 / 1e3)),
        time.map_or(String::new(), |time| format!("{time:.4} ms")),
        largest_error(report).map_or(String::new(), error_text),
    ]
}

fn heading(report: &Report) -> String {
    format!("cuDNN {}, {}", version(report.cudnn), place_of_all(report).printable())
}

/// Formats a version as cuDNN reports it.
pub(super) fn version(cudnn: usize) -> String {
    format!("{}.{}.{}", cudnn / 10_000, cudnn % 10_000 / 100, cudnn % 100)
}

/// Returns where all graphs of a replay are planned or executed. Graphs that cannot be executed say so themselves.
fn place_of_all(report: &Report) -> String {
    if report.is_described { place(report) } else { format!("executed on {}", report.device) }
}

/// Returns where a graph was planned or executed.
pub(super) fn place(report: &Report) -> String {
    match &report.not_executed {
        Some(reason) => format!("planned for {}; nothing was executed: {reason}", report.device),
        None => format!("executed on {}", report.device),
    }
}

/// Returns the reason of a failure, and what is remarkable about each plan.
fn notes(report: &Report) -> String {
    let mut text = String::new();
    let mut note = |note: &str| {
        // Writing to a string cannot fail.
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
        let report = |reason: Option<&str>, is_described| Report {
            cudnn: 91_900,
            device: "A".to_owned(),
            not_executed: reason.map(str::to_owned),
            is_described,
            ..Report::default()
        };
        let place = |report: &Report| place_of([report].into_iter()).unwrap();
        let refused = report(Some("too large"), false);
        assert_eq!([place(&report(None, false)), place(&refused)], ["executed on A", "executed on A"]);
        assert_eq!(place(&report(Some("no GPU"), true)), "planned for A; nothing was executed: no GPU");
        assert_eq!(notes(&refused), "\n  not executed: too large");
        assert_eq!(notes(&report(Some("no GPU"), true)), "");
    }

    #[test]
    fn progress_estimates_the_time_that_is_left() {
        for (done, total, seconds, text) in [
            (0, 1, 3, "0 of 1 graph"),
            (3, 282, 1, "3 of 282 graphs, 93 s left"),
            (1, 100, 60, "1 of 100 graphs, 99 min left"),
        ] {
            assert_eq!(progress(done, total, Duration::from_secs(seconds)), text);
        }
    }
}
