//! `list`: every installation that the search finds, with the selected one marked.

use std::path::{Path, PathBuf};

use anstyle::AnsiColor;
use cudnn_probe::{
    Architecture, Candidate, DIR_VARIABLE, Installation, InstallationReport, Installed, Library, LibraryReport, Origin,
    Os, Package, ProbeError, Requirements, UnderRoot, check_dir, gpu_code,
};
use serde_json::{Value, json};

use crate::check::Help;
use crate::check::fix_commands::{denied_dir, reinstall};
use crate::check::installation::{repair, unusable_parts};
use crate::context::Context;
use crate::cudnn_file::drop_in_before;
use crate::escape::Printable;
use crate::output::{Format, Outcome, SCHEMA, document, labelled, outln, remark};
use crate::shell::{doctor, use_dir};
use crate::shim_release::conflict;
use crate::table::table;

/// The options of `list`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also look in these roots: virtual environments, conda environments, CUDA toolkits, unpacked archives.
    #[arg(value_name = "DIR")]
    roots: Vec<PathBuf>,
    /// Also read which GPUs the kernels were compiled for. Takes a second or more if the files are not in the page
    /// cache.
    #[arg(long)]
    deep: bool,
}

/// An installation and its place in the list.
struct Row {
    installed: Installed,
    is_used: bool,
    /// With `--deep`: for each library, the compute capabilities that its kernels were compiled for.
    gpu_targets: Option<Vec<Vec<String>>>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context, format: Format) -> Outcome {
    let selected = context.selected();
    let is_used = |installed: &Installed| selected.as_ref().is_some_and(|one| one.dir == installed.report.dir);
    let (mut further, mut unsearched) = (Vec::new(), Vec::new());
    for root in &arguments.roots {
        let UnderRoot { candidates, unsearched: left_out, .. } = context.search.look_under_root(root);
        further.extend(candidates);
        unsearched.extend(left_out);
    }
    let rows: Vec<Row> = context
        .inventory_with(further)
        .into_iter()
        .map(|installed| Row {
            is_used: is_used(&installed),
            gpu_targets: arguments.deep.then(|| gpu_targets(&installed)),
            installed,
        })
        .collect();
    let missing: Vec<String> =
        arguments.roots.iter().filter(|root| !root.exists()).map(|root| root.printable()).collect();
    let error = (!missing.is_empty()).then(|| format!("no such directory: {}", missing.join(", ")));
    match format {
        Format::Json => {
            let mut list = json!({
                "schema": SCHEMA,
                "installations": rows.iter().map(value).collect::<Vec<Value>>(),
                "unsearched": unsearched.iter().take(MAX_UNSEARCHED).map(|dir| dir.to_string_lossy()).collect::<Vec<_>>(),
            });
            if let (Some(error), Some(list)) = (&error, list.as_object_mut()) {
                list.insert("error".to_owned(), json!(error));
            }
            document(&list);
        }
        Format::Text => {
            text(&rows, selected.as_ref(), &arguments.roots, context);
            if let Some(text) = left_out(&unsearched) {
                outln!("\n{text}");
            }
        }
    }
    if let Some(error) = error {
        remark(error);
        return Outcome::Failed;
    }
    // Problems of the other installations do not concern programs that load this one.
    match rows.iter().find(|row| row.is_used) {
        Some(row) if problems(&row.installed).is_empty() => Outcome::Fine,
        _ => Outcome::Errors,
    }
}

/// The most directories in the JSON document that were not searched.
const MAX_UNSEARCHED: usize = 100;

/// What the limits of the search below the roots have left out.
fn left_out(unsearched: &[PathBuf]) -> Option<String> {
    let first = unsearched.first()?.printable();
    let others = match unsearched.len() - 1 {
        0 => String::new(),
        1 => " and 1 other directory".to_owned(),
        others => format!(" and {others} other directories"),
    };
    Some(format!(
        "Not searched, because the tree is too deep or too large, or cannot be read: {first}{others}. To search one of \
         them, name it: `{} list DIR`.",
        doctor()
    ))
}

fn gpu_targets(installed: &Installed) -> Vec<Vec<String>> {
    let targets =
        |part: &LibraryReport| gpu_code(&part.path).unwrap_or_default().iter().map(ToString::to_string).collect();
    installed.report.libraries.iter().map(targets).collect()
}

fn text(rows: &[Row], selected: Option<&Installation>, roots: &[PathBuf], context: &Context) {
    let rejected = context.select(&Requirements::default()).rejected;
    let mut denied: Vec<PathBuf> = rejected.iter().filter_map(denied_dir).collect();
    denied.dedup();
    for dir in &denied {
        let text = format!(": {} cannot be read: permission denied", dir.printable());
        labelled("error", AnsiColor::Red, text);
    }
    if rows.is_empty() && !denied.is_empty() {
        outln!("No cuDNN that this user can read was found. `{} check` shows how to fix that.", doctor());
        return;
    }
    if rows.is_empty() {
        outln!("No cuDNN was found. `{} check` shows where the search looked and what to install.", doctor());
        if !roots.is_empty() {
            outln!(
                "Name the root of an environment, of a CUDA toolkit or of an unpacked archive, or a library directory."
            );
        }
        return;
    }
    let mut table = table(["", "cuDNN", "CUDA", "platform", "variant", "package", "directory"]);
    for Row { installed, is_used, .. } in rows {
        let report = &installed.report;
        let packages: Vec<String> = packages(report).map(|package| package.to_string().printable()).collect();
        let package = if packages.is_empty() { "-".into() } else { packages.join(", ") };
        table.add_row([
            if *is_used { "->" } else { "" }.to_owned(),
            report.version.map_or(format!("{}?", report.major), |version| version.to_string()),
            report.cuda().unwrap_or("?".into()),
            platform(report),
            if report.major == 9 { report.variant.to_string() } else { "not cuDNN 9".into() },
            package,
            report.dir.printable(),
        ]);
    }
    outln!("{table}");
    for row in rows {
        details(row);
    }
    let usable = |row: &&Row| {
        let report = &row.installed.report;
        let is_for_this_machine = report.os == Os::HOST && report.architecture == Some(Architecture::HOST);
        let candidate = Candidate::new(&report.dir, Origin::Explicit);
        let is_usable = || check_dir(&candidate, &Requirements::default()).is_ok();
        report.major == 9 && is_for_this_machine && problems(&row.installed).is_empty() && is_usable()
    };
    match (selected, rows.iter().find(usable)) {
        (Some(selected), _) => {
            let origin = selected.origin.to_string().printable();
            match context.starter_of(&selected.dir) {
                Some(tool) => {
                    outln!("\nThe loader uses the marked one in programs that {tool} starts (found: {origin}).")
                }
                None => outln!("\nThe loader uses the marked one (found: {origin})."),
            }
        }
        (None, Some(usable)) => {
            let reason = if context.search.explicit_candidate().is_some() {
                format!("{DIR_VARIABLE} names another directory")
            } else {
                "its search does not look there".to_owned()
            };
            outln!("\nThe loader uses none of them, because {reason}. To use one:");
            outln!("  {}", use_dir(&usable.installed.report.dir));
        }
        (None, None) => outln!("\nThe loader can use none of them: `{} check` shows how to fix that.", doctor()),
    }
}

/// `Linux x86-64`, `Linux aarch64, server (SBSA)`.
fn platform(report: &InstallationReport) -> String {
    let Some(architecture) = report.architecture else { return String::new() };
    let arm = report.arm_variant.map_or(String::new(), |variant| format!(", {variant}"));
    format!("{} {architecture}{arm}", report.os)
}

fn details(Row { installed, gpu_targets, .. }: &Row) {
    let report = &installed.report;
    outln!("\n{}", report.dir.printable());
    for Candidate { dir, origin, .. } in &installed.found_via {
        let origin = origin.to_string();
        let origin = origin.printable();
        if *dir == report.dir {
            outln!("  found: {origin}");
        } else {
            outln!("  found: {origin}, as {}", dir.printable());
        }
    }
    if let Some(version) = drop_in_before(report) {
        outln!("  in front of it: the drop-in {version}");
    }
    if !report.other_packages.is_empty() {
        let names: Vec<String> = packages(report).map(|package| package.to_string().printable()).collect();
        outln!("  installed over each other: {}; `{} check` shows how to fix that", names.join(", "), doctor());
    }
    for Problem { library, message, help } in problems(installed) {
        labelled("  error", AnsiColor::Red, format_args!(": {library} {}", message.printable()));
        if let Some(help) = help {
            outln!("    = help: {}", help.text);
            for command in &help.commands {
                outln!("            {command}");
            }
        }
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

/// A problem with one library of an installation.
struct Problem {
    /// The name of the file.
    library: String,
    message: String,
    help: Option<Help>,
}

fn problems(installed: &Installed) -> Vec<Problem> {
    let report = &installed.report;
    let problem = |part: &LibraryReport, error: &ProbeError| Problem {
        library: Path::new(part.path.file_name().unwrap_or_default()).printable(),
        message: error.to_string(),
        help: repair(part, error, report),
    };
    let unusable = unusable_parts(report).map(|(part, error)| problem(part, error));
    let conflicts = report.conflicts();
    let shim = report.library(Library::Shim).filter(|part| part.identity.is_ok());
    let graph = report.library(Library::Graph).and_then(|part| part.identity.as_ref().ok()?.version);
    let shim = shim.zip(graph).and_then(|(shim, graph)| {
        let message = format!("{}, but the {} beside it is {graph}", conflict(&shim.path, graph)?, Library::Graph);
        Some(Problem { library: shim.library.name_on(report.os).to_owned(), message, help: Some(reinstall(report)) })
    });
    unusable.chain(conflicts.iter().map(|(part, error)| problem(part, error))).chain(shim).collect()
}

/// All packages that own the files.
fn packages(report: &InstallationReport) -> impl Iterator<Item = &Package> {
    report.package.iter().chain(&report.other_packages)
}

fn package_value(package: &Package) -> Value {
    json!({
        "installer": package.installer.to_string(),
        "name": package.name,
        "version": package.version,
        "root": package.root.to_string_lossy(),
    })
}

fn value(row: &Row) -> Value {
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
        "libraries": libraries.collect::<Vec<_>>(),
        "missing": report.missing.iter().map(|library| library.name_on(report.os)).collect::<Vec<_>>(),
        "problems": problems(&row.installed).iter().map(|problem| json!({
            "name": problem.library,
            "message": problem.message,
            "help": problem.help.as_ref().map(|help| &help.text),
            "commands": problem.help.as_ref().map_or(&[][..], |help| &help.commands),
        })).collect::<Vec<_>>(),
        "evidence": report.evidence.iter().map(|evidence| json!({
            "value": evidence.value,
            "source": evidence.source,
        })).collect::<Vec<_>>(),
    })
}
