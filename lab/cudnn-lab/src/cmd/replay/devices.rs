//! Plans the graphs for several described devices, and compares the devices.

use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Outcome, outln};
use cudnn_cli::table::{Table, table};
use cudnn_os::interruption::Interruption;
use cudnn_replay::device::compute_capability;
use cudnn_replay::replay::capture::Captured;
use cudnn_replay::replay::comparison::{status, working_plan};
use cudnn_replay::replay::{ReplayReport, ReportStatus};
use serde_json::{Value, json};

use super::session::ReplaySession;
use super::text;
use crate::captures::CaptureFiles;
use crate::devices::TargetDevice;
use crate::progress::end_if_interrupted;

struct DeviceRow<'a> {
    graph: &'a Captured,
    reports: Vec<ReplayReport>,
}

/// Plans all graphs for each device, with the cuDNN in this directory or the one that the loader finds.
pub(super) fn compare(session: &ReplaySession<'_>, devices: &[TargetDevice], cudnn: Option<&Path>) -> CommandResult {
    let interruption = Interruption::catch();
    let mut rows: Vec<DeviceRow<'_>> =
        session.graphs.iter().map(|graph| DeviceRow { graph, reports: Vec::new() }).collect();
    for device in devices {
        let mut graphs = session.graphs.to_vec();
        graphs.iter_mut().for_each(|graph| graph.plan_for(&device.description));
        let mut row = rows.iter_mut();
        ReplaySession { graphs: &graphs, ..*session }.each([cudnn], &mut |_, [report]| {
            row.next().into_iter().for_each(|row| row.reports.push(report.clone()));
            Ok(())
        })?;
        if interruption.signal().is_some() {
            break;
        }
    }
    let done = rows.iter().filter(|row| row.reports.len() == devices.len()).count();
    let document = || session.with_rest(value(devices, &rows, session.file), done);
    session.format.report(document, || print(devices, &rows));
    end_if_interrupted(interruption.signal(), session.done(done));
    let all_work = rows.iter().flat_map(|row| &row.reports).all(|report| status(report) == ReportStatus::SUCCESS);
    Ok(if all_work { Outcome::Fine } else { Outcome::Warnings })
}

fn value(devices: &[TargetDevice], rows: &[DeviceRow<'_>], file: &CaptureFiles) -> Value {
    let device = |device: &TargetDevice| json!({ "name": device.gpu(), "compute_capability": compute_capability(&device.description) });
    let row = |DeviceRow { graph, reports }: &DeviceRow<'_>| json!({ "graph": graph.id, "label": graph.label, "reports": reports });
    json!({
        "problems": file.problems,
        "devices": devices.iter().map(device).collect::<Vec<_>>(),
        "graphs": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn print(devices: &[TargetDevice], rows: &[DeviceRow<'_>]) {
    let reports = rows.iter().flat_map(|row| &row.reports);
    if let Some(version) = reports.map(|report| report.cudnn).find(|version| *version > 0) {
        outln!("cuDNN {}, planned for described devices; nothing was executed", text::version(version));
    }
    let mut lines: Table = table(["graph"]);
    lines.set_header(std::iter::once("graph".to_owned()).chain(devices.iter().map(|device| device.gpu().printable())));
    for DeviceRow { graph, reports } in rows {
        lines.add_row(std::iter::once(graph.id.printable()).chain(reports.iter().map(cell)));
    }
    outln!("{lines}");
    for DeviceRow { graph, reports } in rows {
        outln!("{}: {}", graph.id.printable(), graph.label.printable());
        for (device, report) in devices.iter().zip(reports) {
            if let Some(reason) = &report.reason {
                outln!("  {}: {}", device.gpu().printable(), reason.printable());
            }
        }
    }
}

/// Returns the engine of the plan and the number of usable engines, or the status of the failure.
fn cell(report: &ReplayReport) -> String {
    let supporting = report.supporting.map_or(String::new(), |supporting| format!(" ({supporting} engines)"));
    match working_plan(report) {
        Some(plan) => format!("engine {}{supporting}", plan.engine.index),
        None => status(report).to_string(),
    }
}
