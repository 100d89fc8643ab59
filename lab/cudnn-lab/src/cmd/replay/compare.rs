//! Compares two releases, or this cuDNN with an earlier replay.

use std::io::Write;
use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, outln};
use cudnn_os::interruption::Interruption;
use cudnn_replay::replay::capture::Captured;
use cudnn_replay::replay::comparison::{self, ComparisonRow, status};
use cudnn_replay::replay::{ReplayReport, ReportStatus, page};
use serde_json::{Value, json};

use super::session::ReplaySession;
use super::text::{self, Table};
use super::{baseline, junit, releases};
use crate::output_file::Output;
use crate::progress::end_if_interrupted;

pub(super) struct Outputs<'a> {
    pub(super) html: Option<Output<'a>>,
    pub(super) junit: Option<Output<'a>>,
}

struct Comparison {
    rows: Vec<ComparisonRow>,
    titles: [String; 2],
    notes: Vec<String>,
    values: [Value; 2],
    interruption: Interruption,
}

pub(super) fn releases(session: &ReplaySession<'_>, names: [&str; 2], outputs: &Outputs<'_>) -> CommandResult {
    let compared = releases::select(names, !session.arguments.device.is_empty(), session.format)?;
    let interruption = Interruption::catch();
    let titles = releases::titles(&compared);
    let mut table = Table::for_rows(session.graphs, &titles);
    let mut rows = Vec::new();
    let dirs = compared.each_ref().map(|release| Some(release.dir.as_path()));
    session.each(dirs, &mut |graph, [before, after]| {
        rows.push(row(session, &mut table, &titles, graph, [before, after]));
        Ok(())
    })?;
    let notes = releases::cuda_note(&compared).into_iter().collect();
    let values = compared.each_ref().map(releases::Compared::value);
    conclude(session, Comparison { rows, titles, notes, values, interruption }, outputs)
}

/// Replays all graphs and compares them with the reports of an earlier replay. Uses the cuDNN in this directory, or the
/// one that the loader finds.
pub(super) fn with_baseline(
    session: &ReplaySession<'_>,
    file: &Path,
    cudnn: Option<&Path>,
    outputs: &Outputs<'_>,
) -> CommandResult {
    let earlier = baseline::read(file, &session.arguments.value(), session.graphs)?;
    let interruption = Interruption::catch();
    let version = |report: &ReplayReport| (report.cudnn > 0).then(|| text::version(report.cudnn));
    let mut versions = [earlier.iter().find_map(version), None];
    let titles = |versions: &[Option<String>; 2]| {
        let [before, after] = versions.clone().map(Option::unwrap_or_default);
        [format!("{before} (baseline)"), format!("{after} (now)")].map(|title| title.trim().to_owned())
    };
    let mut table = Table::for_rows(session.graphs, &titles(&versions));
    let (mut rows, mut earlier) = (Vec::new(), earlier.into_iter());
    session.each([cudnn], &mut |graph, [after]| {
        let before = earlier.next().unwrap_or_default();
        baseline::check_place(&graph.id, &before, &after)?;
        if versions[1].is_none() {
            versions[1] = version(&after);
        }
        rows.push(row(session, &mut table, &titles(&versions), graph, [before, after]));
        Ok(())
    })?;
    let value =
        |name: &str, version| json!({ "name": name, "version": version, "cuda_major": null, "directory": null });
    let values = [value(&file.to_string_lossy(), &versions[0]), value("installed", &versions[1])];
    let comparison = Comparison { rows, titles: titles(&versions), notes: Vec::new(), values, interruption };
    conclude(session, comparison, outputs)
}

fn row(
    session: &ReplaySession<'_>,
    table: &mut Table,
    titles: &[String; 2],
    graph: &Captured,
    [before, after]: [ReplayReport; 2],
) -> ComparisonRow {
    let engines = session.arguments.engines(graph).unwrap_or_default();
    let row = ComparisonRow::new(graph.id.clone(), graph.label.clone(), &engines, before, after);
    if session.format == Format::Text {
        table.add_row(&row, titles);
    }
    row
}

fn conclude(session: &ReplaySession<'_>, comparison: Comparison, outputs: &Outputs<'_>) -> CommandResult {
    let Comparison { mut rows, titles, notes: about, values: [before, after], interruption } = comparison;
    // From here on, a signal terminates the program at once, for example while it waits for the reader of a pipe.
    let interrupted = interruption.signal();
    drop(interruption);
    comparison::sort(&mut rows);
    let worse = rows.iter().filter(|row| row.is_worse()).count();
    let is_failing =
        |row: &&ComparisonRow| [&row.before, &row.after].iter().all(|report| status(report) != ReportStatus::SUCCESS);
    let failing = rows.iter().filter(is_failing).count();
    let place = text::place_of(rows.iter().flat_map(|row| [&row.before, &row.after]));
    let interruption = interrupted.map(|_| format!("interrupted: {}", session.done(rows.len())));
    let notes: Vec<String> = place.into_iter().chain(about.clone()).chain(interruption).collect();
    let problems = &session.file.problems;
    let fails = |row: &ComparisonRow| session.arguments.gate.fails(row);
    // Write the files first, because printing to a pipe can block forever.
    let html = outputs.html.as_ref().map_or(Ok(()), |html| {
        let page = page::html(&titles, &rows, &notes, problems);
        html.write(|file| file.write_all(page.as_bytes()))
    });
    let junit = outputs.junit.as_ref().map_or(Ok(()), |junit| {
        let xml = junit::xml(&titles, &rows, fails, problems);
        junit.write(|file| file.write_all(xml.as_bytes()))
    });
    let lacks_library = |side: usize| {
        rows.iter().all(|row| [&row.before, &row.after].get(side).is_some_and(|report| report.lacks_library()))
    };
    let outcome = if let Err(error) = html.and(junit) {
        Err(error)
    } else if interrupted.is_none() && failing == rows.len() {
        Err("no graph works with either release, so nothing was compared".to_owned())
    } else if let Some((_, title)) =
        titles.iter().enumerate().find(|(side, _)| interrupted.is_none() && !rows.is_empty() && lacks_library(*side))
    {
        Err(format!("{} lacks a library, so nothing was compared", title.printable()))
    } else {
        Ok(if rows.iter().any(fails) { Outcome::Warnings } else { Outcome::Fine })
    };
    let outcome = session.format.conclude(
        outcome,
        || {
            let keys = json!({ "problems": problems, "before": before, "after": after, "notes": notes, "worse": worse, "graphs": rows });
            session.with_rest(keys, rows.len())
        },
        || {
            about.iter().for_each(|note| outln!("{}", note.printable()));
            text::print_changes(&rows, &titles, [worse, failing]);
        },
    );
    end_if_interrupted(interrupted, session.done(rows.len()));
    Ok(outcome)
}
