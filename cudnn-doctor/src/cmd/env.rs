//! `env`: the shell lines that make programs use an installation: the loader, and programs that load cuDNN by its name.

use std::path::PathBuf;

use cudnn_probe::{DIR_VARIABLE, InstallationReport, Library, Requirements, Variant, check_dir};
use serde_json::json;

use crate::context::Context;
use crate::escape::Printable;
use crate::output::{Format, Outcome, SCHEMA, document, fail, outln, remark};
use crate::shell::{doctor, prepend_library_path, quoted_path};

/// The options of `env`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory of an installation, or the root of an environment that contains one. Without it: the installation
    /// that the loader would use.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
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
    let mut lines = vec![format!("export {DIR_VARIABLE}={}", quoted_path(&selected.dir))];
    let problem = report.as_ref().and_then(unusable_shim);
    if problem.is_none() {
        let Some(library_path) = prepend_library_path(&selected.dir) else {
            let error = format!(
                "LD_LIBRARY_PATH cannot contain the name of {}: it contains a colon, a semicolon or a dollar \
                 sign. Make a symbolic link to the directory and use the link's name.",
                selected.dir.printable()
            );
            return fail(format, error);
        };
        lines.push(library_path);
    }
    match format {
        Format::Json => document(&json!({
            "schema": SCHEMA,
            "directory": selected.dir.to_string_lossy(),
            "lines": lines,
            "problem": problem,
        })),
        Format::Text => lines.iter().for_each(|line| outln!("{line}")),
    }
    // To stderr: a shell evaluates the output.
    if let Some(problem) = problem {
        remark(format_args!("error: {problem}"));
        return Outcome::Errors;
    }
    if report.is_some_and(|report| report.variant != Variant::Full) {
        remark("note: this is not the full cuDNN; functions of the missing libraries fail");
    }
    Outcome::Fine
}

/// Why programs cannot use this directory through ld.so. With it on LD_LIBRARY_PATH they would fail, or get a mix.
fn unusable_shim(report: &InstallationReport) -> Option<String> {
    let shim = Library::Shim.name_on(report.os);
    let dir = report.dir.printable();
    let reason = match report.library(Library::Shim) {
        None => format!("{dir} has no {shim}"),
        Some(part) => format!("{} {}", part.path.printable(), part.identity.as_ref().err()?.to_string().printable()),
    };
    Some(format!(
        "{reason}: programs that load cuDNN by that name cannot use this directory, so LD_LIBRARY_PATH is left as it is. \
         The line for this project's loader works. `{}` shows how to repair it.",
        format_args!("{DIR_VARIABLE}={} {} check", quoted_path(&report.dir), doctor())
    ))
}
