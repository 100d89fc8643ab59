//! `explain`: shows which cuDNN and CUDA libraries ld.so would load, and how it finds them.

use std::path::{Path, PathBuf};

use anstyle::AnsiColor;
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, labeled, outln};
use cudnn_cli::programs::doctor;
use cudnn_probe::{Installation, Library, Os, ProbeError};
use cudnn_rules::check::remedies::is_damage;
use cudnn_rules::context::Context;
use cudnn_rules::cudnn_file;
use cudnn_rules::dependencies::{Dependency, dependencies_of, notes, problems};
use cudnn_rules::shell::quoted_path;
use cudnn_rules::system::{OPEN, major_of_cudnn};
use serde_json::{Value, json};

use crate::command_line::explained;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A program or library. Default: NVIDIA's shim in the installation that the loader would use.
    file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context, format: Format) -> CommandResult {
    let file = arguments.file.clone().map_or_else(|| selected_shim(context), Ok)?;
    if let Some(code) = file.to_str().and_then(explained).filter(|_| !file.exists()) {
        return Err(format!(
            "error: there is no file {}\nhelp: perhaps you mean `{} facts {code}`",
            file.printable(),
            doctor()
        )
        .into());
    }
    let dependencies = dependencies_of(&file, &context.host).map_err(|error| unreadable(&file, &error))?;
    let mut problems = problems(&dependencies);
    problems.extend(other_major(&dependencies, context));
    let notes = notes(&dependencies);
    let keys = || {
        json!({
            "file": file.to_string_lossy(),
            "names": dependencies.iter().map(value).collect::<Vec<Value>>(),
            "problems": problems,
            "notes": notes,
        })
    };
    format.report(keys, || {
        text(&file, &dependencies, context);
        for problem in &problems {
            labeled("\nerror", AnsiColor::Red, format_args!(": {problem}"));
        }
        for note in &notes {
            labeled("\nnote", AnsiColor::Cyan, format_args!(": {note}"));
        }
    });
    // All variants of cuDNN include graph.
    let is_needed = |dependency: &&Dependency| {
        dependency.dlopened_by.is_none() || cudnn_file::library(&dependency.name) == Some(Library::Graph)
    };
    let is_missing =
        |dependency: &Dependency| dependency.file.is_none() && cudnn_file::library(&dependency.name).is_some();
    Ok(match dependencies.iter().filter(is_needed).any(is_missing) {
        _ if !problems.is_empty() => Outcome::Errors,
        true => Outcome::Warnings,
        false => Outcome::Fine,
    })
}

fn selected_shim(context: &Context) -> Result<PathBuf, String> {
    let selected = context.selected().ok_or("No usable cuDNN was found. Name a program or a library to explain.")?;
    let shim = selected.path(Library::Shim);
    if shim.symlink_metadata().is_ok() {
        return Ok(shim);
    }
    let doctor = doctor();
    Err(format!(
        "The cuDNN {} in {}, which the loader uses, has no {}: programs that load cuDNN by that name cannot use it. \
         `{doctor} check` shows how to repair it. To explain one of its libraries: `{doctor} explain {}`",
        selected.version,
        selected.dir.printable(),
        Library::Shim,
        quoted_path(&selected.path(Library::Graph)),
    ))
}

/// Explains why analyzing a file failed. Suggests reinstalling cuDNN only for cuDNN's own files.
fn unreadable(file: &Path, error: &ProbeError) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let path = file.printable();
    let text = error.to_string().printable();
    if cudnn_file::library(&name).is_some() {
        let help = if is_damage(error) { "\nhelp: Reinstall this cuDNN." } else { "" };
        return format!("{path} {text}{help}");
    }
    match error {
        ProbeError::UnknownFormat { .. } | ProbeError::NotRegularFile { .. } | ProbeError::WrongOs { .. } => {
            let kind = if Os::HOST == Os::Windows { "a DLL for Windows" } else { "a shared library for Linux" };
            format!("{path} {text}\nhelp: Name a program or {kind} instead.")
        }
        _ => format!("{path} {text}"),
    }
}

/// Describes a program that requires a different cuDNN major.
fn other_major(dependencies: &[Dependency], context: &Context) -> Option<String> {
    let major = |dependency: &Dependency| {
        major_of_cudnn(&dependency.name).filter(|major| *major != 9 && dependency.error.is_some())
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

fn describe_drop_in(file: &Path, context: &Context) -> String {
    match context.selected_by_drop_in(file) {
        Some(Installation { version, dir, .. }) => format!(
            "the drop-in, which loads cuDNN {version} in {}, unless a run path of the program leads to another one",
            dir.printable()
        ),
        None => "the drop-in, which finds no usable cuDNN, unless a run path of the program leads to one".to_owned(),
    }
}

fn text(file: &Path, dependencies: &[Dependency], context: &Context) {
    outln!("{}", file.printable());
    if dependencies.is_empty() {
        outln!("  is not linked to any library of cuDNN or CUDA; it may still open some with {OPEN}");
    }
    let mut dlopened_by = None;
    for dependency in dependencies {
        if dependency.dlopened_by != dlopened_by {
            dlopened_by = dependency.dlopened_by;
            outln!("\nwhen first used, {} opens:", dlopened_by.map_or("", Library::file_name));
        }
        let version = dependency.version.map_or(String::new(), |version| format!(" ({version})"));
        let (name, rule) = (dependency.name.printable(), &dependency.rule);
        let drop_in = dependency.file.as_deref().filter(|file| cudnn_file::is_drop_in(file));
        let rule = &drop_in.map_or(rule.clone(), |file| format!("{rule}; {}", describe_drop_in(file, context)));
        match &dependency.file {
            Some(file) => outln!("  {name:<40} {}{version}: {rule}", file.printable()),
            None => outln!("  {name:<40} {rule}"),
        }
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
