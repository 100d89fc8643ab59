//! `env`: prints the shell lines that make programs use an installation.

use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, outln, remark};
use cudnn_cli::programs::doctor;
use cudnn_cli::shell::{SEARCH_PATH, Shell, set_variable};
use cudnn_frameworks::installation::{InstallationReport, Variant};
use cudnn_os::rights::is_noexec;
use cudnn_probe::{DIR_VARIABLE, Installation, Library, Os, Requirements, check_dir};
use cudnn_rules::context::Context;
use cudnn_rules::shell::quoted_path;
use serde_json::json;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory of an installation, or the root of an environment that contains one. Default: the installation
    /// that the loader would use.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The shell that reads the lines. Default: sh, or on Windows the shell that started the doctor.
    #[arg(long)]
    shell: Option<Shell>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context, format: Format) -> CommandResult {
    let named = arguments.dir.as_deref();
    let Some(selected) = named.map_or_else(|| context.selected(), |root| first_below(root, context)) else {
        let place = named.map_or("here".into(), |dir| format!("in {}", dir.printable()));
        return Err(format!("There is no usable cuDNN {place}. `{} check` shows what is wrong.", doctor()).into());
    };
    let report = InstallationReport::read(&selected.dir, &context.host);
    let shell = arguments.shell.unwrap_or_else(Shell::detect);
    let dir = name_for(shell, &selected.dir, named);
    let problem = report.as_ref().and_then(unusable_shim);
    let mut lines = vec![shell.set(DIR_VARIABLE, &dir)?];
    if problem.is_none() {
        lines.push(shell.prepend(&dir)?);
    }
    let problem = problem.or_else(|| unloadable(&selected.dir));
    format.report(
        || json!({ "directory": selected.dir.to_string_lossy(), "lines": lines, "problem": problem }),
        || lines.iter().for_each(|line| outln!("{line}")),
    );
    // Remarks go to stderr, because a shell evaluates stdout.
    if shell == Shell::Cmd && lines.iter().any(|line| !line.is_ascii()) {
        remark("note: for these lines, cmd must have read them in UTF-8: `chcp 65001` comes first");
    }
    if let Some(problem) = problem {
        remark(format_args!("error: {problem}"));
        return Ok(Outcome::Errors);
    }
    if report.is_some_and(|report| report.variant != Variant::Full) {
        remark("note: this is not the full cuDNN; functions of the missing libraries fail");
    }
    Ok(Outcome::Fine)
}

fn first_below(root: &Path, context: &Context) -> Option<Installation> {
    let candidates = context.search.under_root(root);
    let mut usable = candidates.iter().filter_map(|candidate| check_dir(candidate, &Requirements::default()).ok());
    let first = usable.next()?;
    let mut others: Vec<String> =
        usable.filter(|other| other.dir != first.dir).map(|other| other.dir.printable()).collect();
    others.dedup();
    if !others.is_empty() {
        let (root, dir, others) = (root.printable(), first.dir.printable(), others.join(", "));
        remark(format_args!(
            "note: {root} contains several installations; these lines are for {dir}; the others: {others}"
        ));
    }
    Some(first)
}

/// Returns the canonical name, or the name in the command line if the shell can only use that.
fn name_for(shell: Shell, dir: &Path, named: Option<&Path>) -> PathBuf {
    let named = named.and_then(|named| std::path::absolute(named).ok());
    let fits = |named: &PathBuf| {
        cudnn_probe::canonicalize(named).is_ok_and(|real| real == dir) && shell.prepend(named).is_ok()
    };
    named.filter(|named| shell.prepend(dir).is_err() && fits(named)).unwrap_or_else(|| dir.to_owned())
}

/// Explains why programs fail to load libraries from this directory.
fn unloadable(dir: &Path) -> Option<String> {
    is_noexec(dir).then(|| {
        format!(
            "{} is on a file system that is mounted noexec: libraries cannot be loaded from there. Mount it with exec, \
             or use a cuDNN on another file system.",
            dir.printable()
        )
    })
}

/// Explains why this directory must stay off the search path: programs would fail or mix libraries.
fn unusable_shim(report: &InstallationReport) -> Option<String> {
    let shim = Library::Shim.name_on(report.os);
    let dir = report.dir.printable();
    let reason = match report.library(Library::Shim) {
        None => format!("{dir} has no {shim}"),
        Some(part) => format!("{} {}", part.path.printable(), part.identity.as_ref().err()?.to_string().printable()),
    };
    let check = match Os::HOST {
        Os::Windows => format!("{}; {} check", set_variable(DIR_VARIABLE, &report.dir), doctor()),
        _ => format!("{DIR_VARIABLE}={} {} check", quoted_path(&report.dir), doctor()),
    };
    Some(format!(
        "{reason}: programs that load cuDNN by that name cannot use this directory, so {SEARCH_PATH} is left as it is. \
         The line for this project's loader works. `{check}` shows how to repair it."
    ))
}
