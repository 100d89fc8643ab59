//! `list`: prints all installations that the search finds, with the selected one marked.

use std::path::{Path, PathBuf};

use anstyle::AnsiColor;
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, labeled, outln};
use cudnn_cli::programs::doctor;
use cudnn_cli::table::table;
use cudnn_frameworks::in_parallel;
use cudnn_frameworks::installation::{InstallationReport, Installed, LibraryReport, Package};
use cudnn_probe::{
    Candidate, DIR_VARIABLE, Installation, Library, Origin, ProbeError, RejectedCandidate, Requirements, Selection,
    UnderRoot, check_dir, gpu_code,
};
use cudnn_rules::check::installation::{repair, unusable_parts};
use cudnn_rules::check::remedies::{denied_dir, reinstall};
use cudnn_rules::context::Context;
use cudnn_rules::cudnn_file::{drop_in_before, shim_conflict};
use cudnn_rules::drop_in::layers::layers_on;
use cudnn_rules::plan::advice_of;
use cudnn_rules::remedy::Remedy;
use cudnn_rules::shell::use_dir;
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Additional roots to search: virtual environments, conda environments, CUDA toolkits, unpacked archives.
    #[arg(value_name = "DIR")]
    roots: Vec<PathBuf>,
    /// Also show which GPUs the kernels were compiled for. Takes a second or more if the files are not in the page
    /// cache.
    #[arg(long)]
    deep: bool,
}

struct InstallationRow {
    installed: Installed,
    is_used: bool,
    problems: Vec<LibraryProblem>,
    /// With `--deep`: the compute capabilities of the kernels in every library.
    gpu_targets: Option<Vec<Vec<String>>>,
}

struct LibraryProblem {
    /// The file name.
    library: String,
    message: String,
    help: Remedy,
}

/// The maximum number of unsearched directories in the JSON document.
const MAX_UNSEARCHED: usize = 100;

pub(crate) fn run(arguments: &Arguments, context: &Context, format: Format) -> CommandResult {
    let Selection { installation: selected, rejected, .. } = context.select(&Requirements::default());
    let search = &context.search;
    let below = in_parallel(&arguments.roots, |root| search.look_under_root(root));
    let (mut further, mut unsearched) = (Vec::new(), Vec::new());
    for UnderRoot { candidates, unsearched: left_out, .. } in below {
        further.extend(candidates);
        unsearched.extend(left_out);
    }
    let all = context.inventory_with(further);
    let details = in_parallel(&all, |installed| (problems(installed), arguments.deep.then(|| gpu_targets(installed))));
    let row = |(installed, (problems, gpu_targets)): (Installed, _)| InstallationRow {
        is_used: selected.as_ref().is_some_and(|one| one.dir == installed.report.dir),
        installed,
        problems,
        gpu_targets,
    };
    let rows: Vec<InstallationRow> = all.into_iter().zip(details).map(row).collect();
    let missing = arguments.roots.iter().filter(|root| !root.is_dir()).map(|root| root.printable());
    let missing: Vec<String> = missing.collect();
    let error = (!missing.is_empty()).then(|| format!("no such directory: {}", missing.join(", ")));
    // Only problems of the selected installation affect programs.
    let is_fine = rows.iter().any(|row| row.is_used && row.problems.is_empty());
    let outcome = error.map_or(Ok(if is_fine { Outcome::Fine } else { Outcome::Errors }), Err);
    let keys = || {
        json!({
            "installations": rows.iter().map(value).collect::<Vec<Value>>(),
            "unsearched": unsearched.iter().take(MAX_UNSEARCHED).map(|dir| dir.to_string_lossy()).collect::<Vec<_>>(),
        })
    };
    Ok(format.conclude(outcome, keys, || {
        text(&rows, selected.as_ref(), &rejected, context);
        if let Some(first) = unsearched.first() {
            let more = match unsearched.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let (first, doctor) = (first.printable(), doctor());
            outln!("\nNot searched, because too deep, too large, or not readable: {first}{more}.");
            outln!("To search one of them, name it: `{doctor} list DIR`.");
        }
    }))
}

fn gpu_targets(installed: &Installed) -> Vec<Vec<String>> {
    let targets =
        |part: &LibraryReport| gpu_code(&part.path).unwrap_or_default().iter().map(ToString::to_string).collect();
    installed.report.libraries.iter().map(targets).collect()
}

fn problems(installed: &Installed) -> Vec<LibraryProblem> {
    let report = &installed.report;
    let problem = |part: &LibraryReport, error: &ProbeError| LibraryProblem {
        library: Path::new(part.path.file_name().unwrap_or_default()).printable(),
        message: error.to_string(),
        help: repair(part, error, report),
    };
    let unusable = unusable_parts(report).map(|(part, error)| problem(part, error));
    let conflicts = report.conflicts();
    let shim = report.library(Library::Shim).filter(|part| part.identity.is_ok());
    let graph = report.library(Library::Graph).and_then(|part| part.identity.as_ref().ok()?.version);
    let shim = shim.zip(graph).and_then(|(shim, graph)| {
        let message =
            format!("{}, but the {} next to it is {graph}", shim_conflict(&shim.path, graph)?, Library::Graph);
        Some(LibraryProblem { library: shim.library.name_on(report.os).to_owned(), message, help: reinstall(report) })
    });
    unusable.chain(conflicts.iter().map(|(part, error)| problem(part, error))).chain(shim).collect()
}

fn text(rows: &[InstallationRow], selected: Option<&Installation>, rejected: &[RejectedCandidate], context: &Context) {
    let mut denied: Vec<PathBuf> = rejected.iter().filter_map(denied_dir).collect();
    denied.dedup();
    for dir in &denied {
        let text = format!(": {} cannot be read: permission denied", dir.printable());
        labeled("error", AnsiColor::Red, text);
    }
    let doctor = doctor();
    if rows.is_empty() {
        match denied.is_empty() {
            true => outln!("No cuDNN was found. `{doctor} check` shows where the search looked and what to install."),
            false => outln!("No cuDNN that this user can read was found. `{doctor} check` shows how to fix that."),
        }
        return;
    }
    let mut table = table(["", "cuDNN", "CUDA", "platform", "variant", "package", "directory"]);
    for InstallationRow { installed, is_used, .. } in rows {
        let report = &installed.report;
        let names = names_of_packages(report);
        table.add_row([
            if *is_used { "->" } else { "" }.to_owned(),
            report.version.map_or(format!("{}?", report.major), |version| version.to_string()),
            report.cuda().unwrap_or("?".into()),
            platform(report),
            if report.major == 9 { report.variant.to_string() } else { "not cuDNN 9".into() },
            if names.is_empty() { "-".into() } else { names },
            report.dir.printable(),
        ]);
    }
    outln!("{table}");
    rows.iter().for_each(details);
    let usable = rows.iter().find(|row| {
        let candidate = Candidate::new(&row.installed.report.dir, Origin::Explicit);
        row.problems.is_empty() && check_dir(&candidate, &Requirements::default()).is_ok()
    });
    match (selected, usable) {
        (Some(selected), _) => {
            let starter = context.starter_of(&selected.dir);
            let programs = starter.map_or(String::new(), |tool| format!(" in programs that {tool} starts"));
            let origin = selected.origin.to_string().printable();
            outln!("\nThe loader uses the marked one{programs} (found: {origin}).");
        }
        (None, Some(usable)) => {
            let reason = match context.search.explicit_candidate() {
                Some(_) => format!("{DIR_VARIABLE} names another directory"),
                None => "it does not search these directories".to_owned(),
            };
            outln!("\nThe loader does not use any of them, because {reason}. To use one:");
            outln!("  {}", use_dir(&usable.installed.report.dir).unwrap_or_else(|instead| instead));
        }
        (None, None) => outln!("\nThe loader cannot use any of them: `{doctor} check` shows how to fix that."),
    }
}

fn platform(report: &InstallationReport) -> String {
    let Some(architecture) = report.architecture else { return String::new() };
    let arm = report.arm_variant.map_or(String::new(), |variant| format!(", {variant}"));
    format!("{} {architecture}{arm}", report.os)
}

fn details(InstallationRow { installed, problems, gpu_targets, .. }: &InstallationRow) {
    let report = &installed.report;
    outln!("\n{}", report.dir.printable());
    for Candidate { dir, origin, .. } in &installed.found_via {
        let name = if *dir == report.dir { String::new() } else { format!(", as {}", dir.printable()) };
        outln!("  found: {}{name}", origin.to_string().printable());
    }
    if let Some(version) = drop_in_before(report) {
        let layers = layers_on(report).map_or(String::new(), |list| format!(", with the layers {}", list.printable()));
        outln!("  in front of it: the drop-in {version}{layers}");
    }
    if !report.other_packages.is_empty() {
        let names = names_of_packages(report);
        outln!("  installed over each other: {names}; `{} check` shows how to fix that", doctor());
    }
    for LibraryProblem { library, message, help } in problems {
        labeled("  error", AnsiColor::Red, format_args!(": {library} {}", message.printable()));
        let advice = advice_of(help);
        outln!("    = help: {}", advice.text);
        advice.commands.iter().for_each(|command| outln!("            {command}"));
    }
    if !report.missing.is_empty() {
        let names: Vec<&str> = report.missing.iter().map(|library| library.name_on(report.os)).collect();
        outln!("  missing: {}", names.join(", "));
    }
    let targets = gpu_targets.iter().flatten();
    for (part, targets) in report.libraries.iter().zip(targets).filter(|(_, targets)| !targets.is_empty()) {
        outln!("  kernels in {}: {}", part.library.name_on(report.os), targets.join(" "));
    }
}

fn names_of_packages(report: &InstallationReport) -> String {
    let packages = report.package.iter().chain(&report.other_packages);
    packages.map(|package| package.to_string().printable()).collect::<Vec<_>>().join(", ")
}

fn package_value(package: &Package) -> Value {
    json!({
        "installer": package.installer.to_string(),
        "name": package.name,
        "version": package.version,
        "root": package.root.to_string_lossy(),
    })
}

fn value(row: &InstallationRow) -> Value {
    let report = &row.installed.report;
    let libraries = report.libraries.iter().enumerate().map(|(index, part)| {
        let identity = part.identity.as_ref().ok();
        json!({
            "name": part.library.name_on(report.os),
            "version": identity.and_then(|identity| identity.version).map(|version| version.to_string()),
            "cuda_major": identity.and_then(|identity| identity.cuda_major),
            "kernels_for": row.gpu_targets.as_ref().and_then(|all| all.get(index)),
        })
    });
    json!({
        "directory": report.dir.to_string_lossy(),
        "used": row.is_used,
        "major": report.major,
        "version": report.version.map(|version| version.to_string()),
        "cuda": report.cuda(),
        "os": report.os.to_string(),
        "architecture": report.architecture.map(|architecture| architecture.to_string()),
        "arm_variant": report.arm_variant.map(|variant| variant.to_string()),
        "variant": report.variant.to_string(),
        "package": report.package.as_ref().map(package_value),
        "other_packages": report.other_packages.iter().map(package_value).collect::<Vec<_>>(),
        "found_via": row.installed.found_via.iter().map(|candidate| json!({
            "directory": candidate.dir.to_string_lossy(),
            "origin": candidate.origin.to_string(),
        })).collect::<Vec<_>>(),
        "drop_in": drop_in_before(report),
        "layers_on": layers_on(report),
        "libraries": libraries.collect::<Vec<_>>(),
        "missing": report.missing.iter().map(|library| library.name_on(report.os)).collect::<Vec<_>>(),
        "problems": row.problems.iter().map(|problem| {
            let advice = advice_of(&problem.help);
            json!({
                "name": problem.library,
                "message": problem.message,
                "help": advice.text,
                "commands": advice.commands,
            })
        }).collect::<Vec<_>>(),
        "evidence": report.evidence,
    })
}
