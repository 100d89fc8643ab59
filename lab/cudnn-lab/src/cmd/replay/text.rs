//! Prints the reports of `replay`.

use std::fmt::Write;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{count, outln};
use cudnn_cli::table::table;
use cudnn_replay::replay::Report;
use cudnn_replay::replay::capture::Captured;
use cudnn_replay::replay::comparison::{Aspect, Row, error_text, largest_error, rounding_notes, status, working_plan};

/// Prints the reports about one cuDNN.
pub(super) fn print_reports(reports: &[(&Captured, Report)]) {
    if let Some((_, report)) = reports.iter().find(|(_, report)| report.cudnn > 0) {
        outln!("{}", heading(report));
    }
    let header = ["graph", "status", "engine", "proposals", "engines", "workspace", "build", "time", "error"];
    let mut lines = table(header);
    for (graph, report) in reports {
        let [status, engine, workspace, build, time, error] = cells(report);
        let proposals = report.proposals.map_or(String::new(), |[a, fallback]| format!("{a}+{fallback}"));
        let supporting = report.supporting.map_or(String::new(), |supporting| supporting.to_string());
        let graph = graph.id.printable();
        lines.add_row([graph, status, engine, proposals, supporting, workspace, build, time, error]);
    }
    outln!("{lines}");
    for (graph, report) in reports {
        outln!("{}: {}{}", graph.id.printable(), graph.label.printable(), notes(report));
    }
}

/// Prints a comparison, with the numbers of graphs that became worse and that fail with both releases.
pub(super) fn print_rows(rows: &[Row], titles: &[String; 2], notes: &[String], [worse, failing]: [usize; 2]) {
    notes.iter().for_each(|note| outln!("{}", note.printable()));
    let mut lines = table(["graph", "release", "status", "engine", "workspace", "build", "time", "error", "same bits"]);
    let [before, after] = titles;
    for row in rows {
        let same = row.has_same_bits.map_or("", |same| if same { "yes" } else { "no" });
        for (title, report, graph, same) in
            [(before, &row.before, row.graph.printable(), same), (after, &row.after, String::new(), "")]
        {
            let [status, engine, workspace, build, time, error] = cells(report);
            lines.add_row([graph, title.printable(), status, engine, workspace, build, time, error, same.to_owned()]);
        }
    }
    outln!("{lines}");
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
    reports.find(|report| report.cudnn > 0).map(place)
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
    format!("{}, {}", release(report.cudnn), place(report).printable())
}

/// Formats a version such as 91900 as `cuDNN 9.19.0`.
pub(super) fn release(version: usize) -> String {
    format!("cuDNN {}.{}.{}", version / 10_000, version % 10_000 / 100, version % 100)
}

/// Returns where graphs were planned or executed.
fn place(report: &Report) -> String {
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
            let result = error.or_else(|| run.no_reference.clone().map(|reason| format!("no reference: {reason}")));
            note(&format!("engine {engine}, {data}: {} {}", run.status, result.unwrap_or_default()));
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
