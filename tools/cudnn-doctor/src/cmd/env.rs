//! `env`: the shell lines that make programs use an installation: the loader, and programs that load cuDNN by its name.

use std::path::{Path, PathBuf};

use cudnn_probe::{DIR_VARIABLE, InstallationReport, Library, Os, Requirements, Variant, check_dir};
use serde_json::json;

use crate::context::Context;
use crate::escape::Printable;
use crate::output::{Format, Outcome, SCHEMA, document, fail, outln, remark};
use crate::platform::is_noexec;
use crate::shell::{SEARCH_PATH, Shell, doctor, link_to, quoted_path, set_variable, use_dir};

/// The options of `env`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory of an installation, or the root of an environment that contains one. Without it: the installation
    /// that the loader would use.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The shell that reads the lines. Default: on Windows the one that started the doctor, elsewhere sh.
    #[arg(long)]
    shell: Option<Shell>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context, format: Format) -> Outcome {
    let selected = match &arguments.dir {
        None => context.selected(),
        Some(root) => {
            let candidates = context.search.under_root(root);
            let mut usable =
                candidates.iter().filter_map(|candidate| check_dir(candidate, &Requirements::default()).ok());
            let first = usable.next();
            let mut others: Vec<String> = usable.map(|other| other.dir.printable()).collect();
            others.retain(|other| first.as_ref().is_some_and(|first| *other != first.dir.printable()));
            others.dedup();
            if let Some(first) = first.as_ref().filter(|_| !others.is_empty()) {
                remark(format_args!(
                    "note: {} contains several installations; these lines are for {}; the others: {}",
                    root.printable(),
                    first.dir.printable(),
                    others.join(", ")
                ));
            }
            first
        }
    };
    let Some(selected) = selected else {
        let place = arguments.dir.as_ref().map_or("here".into(), |dir| format!("in {}", dir.printable()));
        let error = format!("There is no usable cuDNN {place}. `{} check` shows what is wrong.", doctor());
        return fail(format, error);
    };
    let report = InstallationReport::read(&selected.dir, &context.host);
    let shell = arguments.shell.unwrap_or_else(Shell::detect);
    let dir = fitting_name(shell, &selected.dir, arguments.dir.as_deref());
    let Some(line) = shell.set(DIR_VARIABLE, &dir) else { return fail(format, unfit(shell, &dir)) };
    let mut lines = vec![line];
    let problem = report.as_ref().and_then(unusable_shim);
    let noexec = is_noexec(&selected.dir).then(|| unloadable(&selected.dir));
    if problem.is_none() {
        let Some(library_path) = shell.prepend(&dir) else { return fail(format, unfit(shell, &dir)) };
        lines.push(library_path);
    }
    match format {
        Format::Json => document(&json!({
            "schema": SCHEMA,
            "directory": selected.dir.to_string_lossy(),
            "lines": lines,
            "problem": problem.as_ref().or(noexec.as_ref()),
        })),
        Format::Text => lines.iter().for_each(|line| outln!("{line}")),
    }
    // To stderr: a shell evaluates the output.
    if shell == Shell::Cmd && lines.iter().any(|line| !line.is_ascii()) {
        remark("note: for these lines, cmd must have read them in UTF-8: `chcp 65001` comes first");
    }
    if let Some(problem) = problem {
        remark(format_args!("error: {problem}"));
        return Outcome::Errors;
    }
    if let Some(problem) = noexec {
        remark(format_args!("error: {problem}"));
        return Outcome::Errors;
    }
    if report.is_some_and(|report| report.variant != Variant::Full) {
        remark("note: this is not the full cuDNN; functions of the missing libraries fail");
    }
    Outcome::Fine
}

/// The name of a directory: as it is, or as the user has named it, by a link, if the search path cannot contain the other.
fn fitting_name(shell: Shell, dir: &Path, named: Option<&Path>) -> PathBuf {
    let named = named.and_then(|named| std::path::absolute(named).ok());
    let fits = |named: &PathBuf| {
        cudnn_probe::canonicalize(named).is_ok_and(|real| real == dir) && shell.prepend(named).is_some()
    };
    named.filter(|named| shell.prepend(dir).is_none() && fits(named)).unwrap_or_else(|| dir.to_owned())
}

/// Why this shell cannot be given the directory.
fn unfit(shell: Shell, dir: &Path) -> String {
    let link = link_to(dir).map(|link| format!(":\n{}\n{}", link.command, use_dir(&link.name)));
    let dir = dir.printable();
    match (shell, Os::HOST) {
        (Shell::Cmd, _) if dir.contains(['%', '^', '"']) => format!(
            "cmd cannot be given the name of {dir}, which contains a percent sign, a caret or a quote: use PowerShell \
             (--shell powershell), or make a junction to the directory and use that"
        ),
        (_, Os::Windows) => format!(
            "PATH cannot contain the name of {dir}, which contains a semicolon: make a junction to the directory and use \
             that"
        ),
        _ => format!(
            "{SEARCH_PATH} cannot contain the name of {dir}: it contains a colon, a semicolon or a dollar \
             sign. Make a symbolic link to the directory and use the link's name{}",
            link.as_deref().unwrap_or(".")
        ),
    }
}

/// Why no program can load what is in this directory.
fn unloadable(dir: &Path) -> String {
    format!(
        "{} is on a file system that is mounted noexec: no program can load a library from there. Mount it with exec, or \
         use a cuDNN on another file system.",
        dir.printable()
    )
}

/// Why programs cannot use this directory by the system's search. With it on the search path they would fail, or get a mix.
fn unusable_shim(report: &InstallationReport) -> Option<String> {
    let shim = Library::Shim.name_on(report.os);
    let dir = report.dir.printable();
    let reason = match report.library(Library::Shim) {
        None => format!("{dir} has no {shim}"),
        Some(part) => format!("{} {}", part.path.printable(), part.identity.as_ref().err()?.to_string().printable()),
    };
    Some(format!(
        "{reason}: programs that load cuDNN by that name cannot use this directory, so {SEARCH_PATH} is left as it is. \
         The line for this project's loader works. `{}` shows how to repair it.",
        check_of(&report.dir)
    ))
}

/// The command that checks this directory.
fn check_of(dir: &Path) -> String {
    match Os::HOST {
        Os::Windows => format!("{}; {} check", set_variable(DIR_VARIABLE, dir), doctor()),
        _ => format!("{DIR_VARIABLE}={} {} check", quoted_path(dir), doctor()),
    }
}
