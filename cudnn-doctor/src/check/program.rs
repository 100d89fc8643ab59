//! A program or library in any language: would ld.so find a cuDNN for it, and does that have what the program calls?

use std::path::Path;

use cudnn_loader::Function;
use cudnn_probe::ld_so::Simulation;
use cudnn_probe::{Library, missing_symbols};

use super::finding::{Finding, PROGRAM_DEPENDENCY, PROGRAM_FUNCTION, PROGRAM_NO_CUDNN, PROGRAM_UNREADABLE};
use crate::context::Context;
use crate::cudnn_file;
use crate::dependency_report::{Dependency, dependencies, problems};
use crate::driver;
use crate::escape::Printable;

pub(super) fn findings(program: &Path, context: &Context) -> Vec<Finding> {
    let name = program.printable();
    let simulation = match Simulation::new(program, &context.host) {
        Ok(simulation) => simulation,
        Err(error) => {
            let finding = Finding::new(PROGRAM_UNREADABLE, format!("{name} {error}"));
            let help = "name a program or a shared library for this machine: a script's interpreter, or the library that \
                        calls cuDNN";
            return vec![finding.help(help)];
        }
    };
    // Its own libraries may call cuDNN for it; cuDNN's and CUDA's have checks of their own.
    let objects: Vec<_> = simulation.objects().iter().map(|object| object.path.clone()).collect();
    let callers = objects.iter().filter(|file| !is_cudnn(file));
    let called: Vec<(Function, &std::path::PathBuf)> = callers
        .flat_map(|file| missing_symbols(file, &[]).unwrap_or_default().into_iter().map(move |symbol| (symbol, file)))
        .filter_map(|(symbol, file)| Some((Function::from_name(&symbol)?, file)))
        .collect();
    let dependencies = dependencies(simulation);
    if !dependencies.iter().any(|dependency| dependency.name.starts_with("libcudnn")) {
        let message = format!("{name} is not linked to cuDNN, nor is any library that it is linked to");
        return vec![
            Finding::new(PROGRAM_NO_CUDNN, message)
                .help("name the library of the program that calls cuDNN, or use check --run for a framework"),
        ];
    }
    let help = format!("to see each file and the rule that finds it: cudnn-doctor explain {name}");
    // C001 is about the driver.
    let is_of_driver = |problem: &String| problem.contains(driver::LIBRARY);
    let unmet = problems(&dependencies)
        .into_iter()
        .filter(|problem| !is_of_driver(problem))
        .map(|problem| Finding::new(PROGRAM_DEPENDENCY, format!("{name}: {problem}")).help(help.clone()));
    unmet.chain(newer_functions(&name, &called, &dependencies)).collect()
}

fn is_cudnn(file: &Path) -> bool {
    file.file_name().and_then(|name| cudnn_file::library(name.to_str()?)).is_some()
}

/// The functions that were added after the release that the program would load.
fn newer_functions(name: &str, called: &[(Function, &std::path::PathBuf)], found: &[Dependency]) -> Option<Finding> {
    const MAX: usize = 8;
    let library_of = |library: Library| move |one: &&Dependency| cudnn_file::library(&one.name) == Some(library);
    let graph =
        found.iter().find(library_of(Library::Graph)).or_else(|| found.iter().find(library_of(Library::Shim)))?;
    let version = graph.version?;
    let newer: Vec<_> = called.iter().filter(|(function, _)| function.since() > version).collect();
    let newest = newer.iter().map(|(function, _)| function.since()).max()?;
    let message = match newer.as_slice() {
        [(function, _)] => format!("{name} calls {function}, which cuDNN {version} does not have"),
        _ => format!("{name} calls {} functions that cuDNN {version} does not have", newer.len()),
    };
    let list = newer.iter().take(MAX).map(|(function, file)| {
        format!("{function}: since cuDNN {}, called by {}", function.since(), file.printable())
    });
    let rest = (newer.len() > MAX).then(|| format!("and {} more", newer.len() - MAX));
    let file = graph.file.as_deref().map(|file| format!("it would load {}", file.printable()));
    Some(
        Finding::new(PROGRAM_FUNCTION, message)
            .notes(list)
            .notes(rest)
            .notes(file)
            .help(format!("install cuDNN {newest} or newer where the program finds it")),
    )
}
