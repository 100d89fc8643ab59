//! Replays all graphs with one cuDNN.

use std::path::Path;

use cudnn_cli::output::{CommandResult, Format, Outcome};
use cudnn_os::interruption::Interruption;
use cudnn_replay::replay::capture::Captured;
use cudnn_replay::replay::comparison::status;
use cudnn_replay::replay::{ReplayReport, ReportStatus};
use serde_json::json;

use super::session::ReplaySession;
use super::text::{self, Table};
use crate::progress::end_if_interrupted;

pub(super) fn replay(session: &ReplaySession<'_>, cudnn: Option<&Path>) -> CommandResult {
    let interruption = Interruption::catch();
    let mut table = Table::for_reports(session.graphs);
    let mut reports = Vec::new();
    session.each([cudnn], &mut |graph, [report]| {
        if session.format == Format::Text {
            table.add_report(graph, &report);
        }
        reports.push((graph, report));
        Ok(())
    })?;
    let is_fine = |report: &ReplayReport| {
        let mut runs = report.plans.iter().flat_map(|plan| &plan.runs);
        let is_complete = status(report) == ReportStatus::SUCCESS && report.problems.is_empty();
        is_complete && runs.all(|run| run.is_repeatable && run.damage.is_empty())
    };
    let interrupted = interruption.signal();
    let outcome =
        if interrupted.is_none() && !reports.is_empty() && reports.iter().all(|(_, report)| report.lacks_library()) {
            Err("cuDNN lacks a library, so no graph was replayed".to_owned())
        } else if reports.iter().all(|(_, report)| is_fine(report)) {
            Ok(Outcome::Fine)
        } else {
            Ok(Outcome::Warnings)
        };
    let outcome = session.format.conclude(
        outcome,
        || {
            let graph = |(graph, report): &(&Captured, ReplayReport)| json!({ "graph": graph.id, "label": graph.label, "report": report });
            let keys = json!({ "problems": session.file.problems, "options": session.arguments.value(), "graphs": reports.iter().map(graph).collect::<Vec<_>>() });
            session.with_rest(keys, reports.len())
        },
        || text::print_notes(&reports),
    );
    end_if_interrupted(interrupted, session.done(reports.len()));
    Ok(outcome)
}
