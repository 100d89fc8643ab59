//! `explain`: which file ld.so would load for each name of cuDNN and CUDA, and by which rule.

use std::path::{Path, PathBuf};

use anstyle::AnsiColor;
use cudnn_probe::Library;
use cudnn_probe::ld_so::Simulation;
use serde_json::{Value, json};

use crate::context::Context;
use crate::cudnn_file;
use crate::dependency_report::{Dependency, dependencies, problems};
use crate::escape::Printable;
use crate::output::{Format, Outcome, SCHEMA, document, fail, labelled, outln};

/// The options of `explain`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A program or a library. Without it: NVIDIA's shim of the installation that the loader would use.
    file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context, format: Format) -> Outcome {
    let Some(file) = arguments.file.clone().or_else(|| selected_shim(context)) else {
        return fail(format, "No usable cuDNN was found, so there is nothing to explain. Name a program or a library.");
    };
    let simulation = match Simulation::new(&file, &context.host) {
        Ok(simulation) => simulation,
        Err(error) => {
            let help = error.help().map_or(String::new(), |help| format!("\nhelp: {help}"));
            return fail(format, format!("{} {error}{help}", file.printable()));
        }
    };
    let dependencies = dependencies(simulation);
    let mut problems = problems(&dependencies);
    problems.extend(other_major(&dependencies, context));
    match format {
        Format::Json => document(&json!({
            "schema": SCHEMA,
            "file": file.to_string_lossy(),
            "names": dependencies.iter().map(value).collect::<Vec<Value>>(),
            "problems": problems,
        })),
        Format::Text => text(&file, &dependencies, &problems),
    }
    if problems.is_empty() { Outcome::Fine } else { Outcome::Errors }
}

fn selected_shim(context: &Context) -> Option<PathBuf> {
    let shim = context.selected()?.path(Library::Shim);
    shim.exists().then_some(shim)
}

/// The problem of a program that requires another major of cuDNN: that major, and the installed cuDNN.
fn other_major(dependencies: &[Dependency], context: &Context) -> Option<String> {
    let major = |dependency: &Dependency| {
        let (stem, number) = dependency.name.split_once(".so.")?;
        let major: u32 = number.split('.').next()?.parse().ok()?;
        (stem.starts_with("libcudnn") && major != 9 && dependency.error.is_some()).then_some(major)
    };
    let major = dependencies.iter().find_map(major)?;
    let found = context
        .selected()
        .map_or("no cuDNN".into(), |found| format!("cuDNN {} in {}", found.version, found.dir.printable()));
    Some(format!(
        "the program requires cuDNN {major}, but found {found} (majors are not interchangeable): install a version of \
         the program that is built for cuDNN 9, or run it in an environment of its own with cuDNN {major}"
    ))
}

fn text(file: &Path, dependencies: &[Dependency], problems: &[String]) {
    outln!("{}", file.printable());
    if dependencies.is_empty() {
        outln!("  is not linked to any library of cuDNN or CUDA; it may still open some with dlopen");
    }
    let mut dlopened_by = None;
    for dependency in dependencies {
        if dependency.dlopened_by != dlopened_by {
            dlopened_by = dependency.dlopened_by;
            outln!("\nwhen first used, {} opens:", dlopened_by.map_or("", Library::file_name));
        }
        let version = dependency.version.map_or(String::new(), |version| format!(" ({version})"));
        let (name, rule) = (dependency.name.printable(), &dependency.rule);
        let drop_in = dependency.file.as_deref().is_some_and(cudnn_file::is_drop_in);
        let rule =
            if drop_in { &format!("{rule}; the drop-in, which loads what `cudnn-doctor list` marks") } else { rule };
        match &dependency.file {
            Some(file) => outln!("  {name:<40} {}{version}: {rule}", file.printable()),
            None => outln!("  {name:<40} {rule}"),
        }
    }
    for problem in problems {
        outln!("");
        labelled("error", AnsiColor::Red, format_args!(": {problem}"));
    }
}

fn value(dependency: &Dependency) -> Value {
    json!({
        "name": dependency.name,
        "dlopened_by": dependency.dlopened_by.map(Library::file_name),
        "file": dependency.file.as_ref().map(|file| file.to_string_lossy()),
        "rule": dependency.rule,
        "version": dependency.version.map(|version| version.to_string()),
        "error": dependency.error,
    })
}
