//! `list`: every installation that there is, the one that would be used marked, with the reason.

use std::path::PathBuf;

use anstyle::AnsiColor;
use comfy_table::{ContentArrangement, Table, presets};
use cudnn_probe::{
    Candidate, Environment, Installation, Installed, Part, Refusal, Requirements, Search, find, gpu_code, survey,
};
use serde_json::{Value, json};

use crate::output::{Format, Outcome, Shown, coloured, document, remark, say};

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
    let environment = Environment::current().without_executable();
    let search = Search::new(environment.clone());
    let chosen = find(&search, &Requirements::default()).installation;
    let is_chosen = |installed: &Installed| chosen.as_ref().is_some_and(|one| one.folder == installed.report.folder);
    let rows: Vec<Row> = survey(&search, &environment, &arguments.roots)
        .into_iter()
        .map(|installed| Row {
            is_used: is_chosen(&installed),
            processors: processors(&installed, arguments),
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
        let names: Vec<String> = missing.iter().map(|root| root.shown()).collect();
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

fn processors(installed: &Installed, arguments: &Arguments) -> Option<Vec<Vec<String>>> {
    let of_one = |part: &Part| gpu_code(&part.path).unwrap_or_default().iter().map(ToString::to_string).collect();
    arguments.deep.then(|| installed.report.libraries.iter().map(of_one).collect())
}

fn text(rows: &[Row], chosen: Option<&Installation>) {
    if rows.is_empty() {
        say!("No cuDNN is installed here, and none below the roots that were named.");
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
            if report.major == 9 { report.flavour.to_string() } else { "not 9".into() },
            report.package.as_ref().map_or("-".into(), ToString::to_string),
            report.folder.shown().to_string(),
        ]);
    }
    say!("{table}");
    for Row { installed, processors, .. } in rows {
        let report = &installed.report;
        say!("\n{}", report.folder.shown());
        for Candidate { folder, origin } in &installed.ways {
            match *folder == report.folder {
                true => say!("  found: {origin}"),
                false => say!("  found: {origin}, as {}", folder.shown()),
            }
        }
        for Problem { library, what, cure } in problems(installed) {
            say!("  {}: {library} {what}", coloured("wrong", AnsiColor::Red));
            if let Some(cure) = cure {
                say!("         {cure}");
            }
        }
        if !report.missing.is_empty() {
            let names: Vec<&str> = report.missing.iter().map(|library| library.name_on(report.system)).collect();
            say!("  missing: {}", names.join(", "));
        }
        let processors = processors.iter().flatten();
        for (part, processors) in report.libraries.iter().zip(processors).filter(|(_, found)| !found.is_empty()) {
            say!("  kernels in {}: {}", part.library.name_on(report.system), processors.join(" "));
        }
    }
    match chosen {
        Some(chosen) => say!("\nThe marked one would be used: {} comes first in the search.", chosen.origin),
        None => say!("\nNone of them would be used: `cudnn-doctor check` says why."),
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
    let problem = |part: &Part, refusal: &Refusal| Problem {
        library: part.library.name_on(report.system),
        what: refusal.to_string(),
        cure: refusal.cure(),
    };
    let broken = report.libraries.iter().filter_map(|part| Some(problem(part, part.state.as_ref().err()?)));
    let conflicts = report.conflicts();
    broken.chain(conflicts.iter().map(|(part, refusal)| problem(part, refusal))).collect()
}

fn value(row: &Row) -> Value {
    let report = &row.installed.report;
    let ways = |way: &Candidate| json!({ "folder": way.folder.to_string_lossy(), "origin": way.origin.to_string() });
    let libraries = report.libraries.iter().enumerate().map(|(index, part)| {
        let identity = part.state.as_ref().ok();
        json!({
            "name": part.library.name_on(report.system),
            "version": identity.and_then(|identity| identity.version).map(|version| version.to_string()),
            "cuda_major": identity.and_then(|identity| identity.cuda_major),
            "kernels_for": row.processors.as_ref().and_then(|all| all.get(index)),
        })
    });
    json!({
        "folder": report.folder.to_string_lossy(),
        "used": row.is_used,
        "major": report.major,
        "version": report.version.map(|version| version.to_string()),
        "cuda": report.cuda(),
        "system": report.system.to_string(),
        "architecture": report.architecture.map(|architecture| architecture.to_string()),
        "flavour": report.flavour.to_string(),
        "package": report.package.as_ref().map(|package| json!({
            "manager": package.manager.to_string(),
            "name": package.name,
            "version": package.version,
            "root": package.root.to_string_lossy(),
        })),
        "ways": row.installed.ways.iter().map(ways).collect::<Vec<_>>(),
        "libraries": libraries.collect::<Vec<_>>(),
        "missing": report.missing.iter().map(|library| library.name_on(report.system)).collect::<Vec<_>>(),
        "problems": problems(&row.installed).iter().map(|problem| json!({
            "name": problem.library,
            "what": problem.what,
            "cure": problem.cure,
        })).collect::<Vec<_>>(),
        "witnesses": report.witnesses.iter().map(|witness| json!({
            "says": witness.says,
            "source": witness.source,
        })).collect::<Vec<_>>(),
    })
}
