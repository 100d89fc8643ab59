//! `list`: every installation that there is, the one that would be used marked, with the reason.

use std::path::PathBuf;

use anstyle::AnsiColor;
use comfy_table::{ContentArrangement, Table, presets};
use cudnn_probe::{
    Candidate, Host, Installation, Installed, LibraryReport, ProbeError, Requirements, Search, gpu_code, inventory,
    select,
};
use serde_json::{Value, json};

use crate::output::{Format, Outcome, Printable, coloured, document, outln, remark};

/// The options of `list`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also look below these roots: virtual environments, conda environments, toolkits, unpacked archives.
    roots: Vec<PathBuf>,
    /// Also read for which GPUs the kernels were compiled. Takes a second or more where files are not cached.
    #[arg(long)]
    deep: bool,
}

/// One installation with what `list` says of it.
struct Row {
    installed: Installed,
    is_used: bool,
    /// With `--deep`: for each library, the processors that its kernels were compiled for.
    processors: Option<Vec<Vec<String>>>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let environment = Host::current().without_executable();
    let search = Search::new(environment.clone());
    let chosen = select(&search, &Requirements::default()).installation;
    let is_chosen = |installed: &Installed| chosen.as_ref().is_some_and(|one| one.dir == installed.report.dir);
    let rows: Vec<Row> = inventory(&search, &environment, &arguments.roots)
        .into_iter()
        .map(|installed| Row {
            is_used: is_chosen(&installed),
            processors: gpu_targets(&installed, arguments),
            installed,
        })
        .collect();
    match format {
        Format::Json => document(&json!({
            "schema": 1,
            "installations": rows.iter().map(value).collect::<Vec<Value>>(),
        })),
        Format::Text => text(&rows, chosen.as_ref()),
    }
    let missing: Vec<&PathBuf> = arguments.roots.iter().filter(|root| !root.exists()).collect();
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|root| root.printable()).collect();
        remark(format_args!("There is no {}.", names.join(", no ")));
        return Outcome::Failed;
    }
    // What is wrong with the others is no matter for programs that get this one.
    let used = rows.iter().find(|row| row.is_used);
    match used {
        Some(row) if problems(&row.installed).is_empty() => Outcome::Fine,
        _ => Outcome::Problems,
    }
}

fn gpu_targets(installed: &Installed, arguments: &Arguments) -> Option<Vec<Vec<String>>> {
    let of_one =
        |part: &LibraryReport| gpu_code(&part.path).unwrap_or_default().iter().map(ToString::to_string).collect();
    arguments.deep.then(|| installed.report.libraries.iter().map(of_one).collect())
}

fn text(rows: &[Row], chosen: Option<&Installation>) {
    if rows.is_empty() {
        outln!("No cuDNN is installed here, and none below the roots that were named.");
        return;
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["", "cuDNN", "CUDA", "for", "what", "package", "folder"]);
    for Row { installed, is_used, .. } in rows {
        let report = &installed.report;
        table.add_row([
            if *is_used { "->" } else { "" }.to_owned(),
            report.version.map_or(format!("{}?", report.major), |version| version.to_string()),
            report.cuda().unwrap_or("?".into()),
            report.architecture.map_or(String::new(), |architecture| format!("{} {architecture}", report.system)),
            if report.major == 9 { report.variant.to_string() } else { "not 9".into() },
            report.package.as_ref().map_or("-".into(), ToString::to_string),
            report.dir.printable().to_string(),
        ]);
    }
    outln!("{table}");
    for Row { installed, processors, .. } in rows {
        let report = &installed.report;
        outln!("\n{}", report.dir.printable());
        for Candidate { dir: folder, origin } in &installed.found_via {
            match *folder == report.dir {
                true => outln!("  found: {origin}"),
                false => outln!("  found: {origin}, as {}", folder.printable()),
            }
        }
        for Problem { library, what, cure } in problems(installed) {
            outln!("  {}: {library} {what}", coloured("wrong", AnsiColor::Red));
            if let Some(cure) = cure {
                outln!("         {cure}");
            }
        }
        if !report.missing.is_empty() {
            let names: Vec<&str> = report.missing.iter().map(|library| library.name_on(report.system)).collect();
            outln!("  missing: {}", names.join(", "));
        }
        let processors = processors.iter().flatten();
        for (part, processors) in report.libraries.iter().zip(processors).filter(|(_, found)| !found.is_empty()) {
            outln!("  kernels in {}: {}", part.library.name_on(report.system), processors.join(" "));
        }
    }
    match chosen {
        Some(chosen) => outln!("\nThe marked one would be used: {} comes first in the search.", chosen.origin),
        None => outln!("\nNone of them would be used: `cudnn-doctor check` says why."),
    }
}

/// What is wrong with one of an installation's libraries.
struct Problem {
    library: &'static str,
    what: String,
    cure: Option<String>,
}

fn problems(installed: &Installed) -> Vec<Problem> {
    let report = &installed.report;
    let problem = |part: &LibraryReport, refusal: &ProbeError| Problem {
        library: part.library.name_on(report.system),
        what: refusal.to_string(),
        cure: refusal.help(),
    };
    let broken = report.libraries.iter().filter_map(|part| Some(problem(part, part.identity.as_ref().err()?)));
    let conflicts = report.conflicts();
    broken.chain(conflicts.iter().map(|(part, refusal)| problem(part, refusal))).collect()
}

fn value(row: &Row) -> Value {
    let report = &row.installed.report;
    let ways = |way: &Candidate| json!({ "folder": way.dir.to_string_lossy(), "origin": way.origin.to_string() });
    let libraries = report.libraries.iter().enumerate().map(|(index, part)| {
        let identity = part.identity.as_ref().ok();
        json!({
            "name": part.library.name_on(report.system),
            "version": identity.and_then(|identity| identity.version).map(|version| version.to_string()),
            "cuda_major": identity.and_then(|identity| identity.cuda_major),
            "kernels_for": row.processors.as_ref().and_then(|all| all.get(index)),
        })
    });
    json!({
        "folder": report.dir.to_string_lossy(),
        "used": row.is_used,
        "major": report.major,
        "version": report.version.map(|version| version.to_string()),
        "cuda": report.cuda(),
        "system": report.system.to_string(),
        "architecture": report.architecture.map(|architecture| architecture.to_string()),
        "flavour": report.variant.to_string(),
        "package": report.package.as_ref().map(|package| json!({
            "manager": package.installer.to_string(),
            "name": package.name,
            "version": package.version,
            "root": package.root.to_string_lossy(),
        })),
        "ways": row.installed.found_via.iter().map(ways).collect::<Vec<_>>(),
        "libraries": libraries.collect::<Vec<_>>(),
        "missing": report.missing.iter().map(|library| library.name_on(report.system)).collect::<Vec<_>>(),
        "problems": problems(&row.installed).iter().map(|problem| json!({
            "name": problem.library,
            "what": problem.what,
            "cure": problem.cure,
        })).collect::<Vec<_>>(),
        "witnesses": report.evidence.iter().map(|witness| json!({
            "says": witness.value,
            "source": witness.source,
        })).collect::<Vec<_>>(),
    })
}
