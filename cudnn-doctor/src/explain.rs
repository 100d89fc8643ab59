//! `explain`: which file the dynamic linker would take for each of cuDNN's and CUDA's names, and by which rule.

use std::path::{Path, PathBuf};

use cudnn_probe::{Host, Library, Requirements, Search, Simulation, select};
use serde_json::{Value, json};

use crate::opened::{Line, lines, problems};
use crate::output::{Format, Outcome, Printable, document, fail, outln};

/// The options of `explain`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A program or a library. Without one: NVIDIA's shim of the installation that would be used.
    file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let environment = Host::current().without_executable();
    let Some(file) = arguments.file.clone().or_else(|| shim_in_use(&environment)) else {
        return fail(
            format,
            "No cuDNN would be used here, so there is nothing to explain. Name a program or a library.",
        );
    };
    let prediction = match Simulation::new(&file, &environment) {
        Ok(prediction) => prediction,
        Err(refusal) => {
            let cure = refusal.help().map_or(String::new(), |cure| format!("\n{cure}"));
            return fail(format, format!("{} {refusal}{cure}", file.printable()));
        }
    };
    let lines = lines(prediction);
    let mut problems = problems(&lines);
    problems.extend(other_majors(&lines, &environment));
    match format {
        Format::Json => document(&json!({
            "schema": 1,
            "file": file.to_string_lossy(),
            "names": lines.iter().map(value).collect::<Vec<Value>>(),
            "problems": problems,
        })),
        Format::Text => text(&file, &lines, &problems),
    }
    if problems.is_empty() { Outcome::Fine } else { Outcome::Problems }
}

fn shim_in_use(environment: &Host) -> Option<PathBuf> {
    let installation = select(&Search::new(environment.clone()), &Requirements::default()).installation?;
    let shim = installation.path(Library::Shim);
    shim.exists().then_some(shim)
}

/// A program that wants another major of cuDNN than 9: what it wants, and what there is.
fn other_majors(lines: &[Line], environment: &Host) -> Option<String> {
    let major = |line: &Line| {
        let (stem, number) = line.name.split_once(".so.")?;
        let major: u32 = number.split('.').next()?.parse().ok()?;
        (stem.starts_with("libcudnn") && major != 9 && line.wrong.is_some()).then_some(major)
    };
    let major = lines.iter().find_map(major)?;
    let here = select(&Search::new(environment.clone()), &Requirements::default()).installation;
    let here =
        here.map_or("no cuDNN 9 either".into(), |one| format!("cuDNN {} in {}", one.version, one.dir.printable()));
    Some(format!(
        "it wants cuDNN {major}, and another major does not serve; here is {here}. Install a version of it that is made \
         for cuDNN 9, or cuDNN {major}: pip install 'nvidia-cudnn-cu12=={major}.*'"
    ))
}

fn text(file: &Path, lines: &[Line], problems: &[String]) {
    outln!("{}", file.printable());
    if lines.is_empty() {
        outln!(
            "  needs none of cuDNN's and CUDA's libraries from the start. What it opens when it runs cannot be seen here."
        );
    }
    let mut opened_by = None;
    for line in lines {
        if line.opened_by != opened_by {
            opened_by = line.opened_by;
            let by = opened_by.map_or("", Library::file_name);
            outln!("\n{by} would open, when it is used:");
        }
        let version = line.version.map_or(String::new(), |version| format!(" ({version})"));
        match &line.file {
            Some(file) => outln!("  {:<40} {}{version}: {}", line.name, file.printable(), line.rule),
            None => outln!("  {:<40} {}", line.name, line.rule),
        }
    }
    for problem in problems {
        outln!("\nWrong: {problem}");
    }
}

fn value(line: &Line) -> Value {
    json!({
        "name": line.name,
        "opened_by": line.opened_by.map(Library::file_name),
        "file": line.file.as_ref().map(|file| file.to_string_lossy()),
        "rule": line.rule,
        "version": line.version.map(|version| version.to_string()),
        "wrong": line.wrong,
    })
}
