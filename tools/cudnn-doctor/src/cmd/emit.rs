//! `emit`: writes a captured graph as a program.

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use cudnn_replay::emit::{Case, Language, emit};
use serde_json::json;

use crate::captures;
use crate::escape::Printable;
use crate::output::{CommandResult, Format, outln, remark};

/// The options of `emit`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The capture.
    file: PathBuf,
    /// The id of the graph, or the first digits of the id. `cudnn-doctor capture show` lists them.
    #[arg(long, value_name = "ID")]
    graph: String,
    /// The language of the program.
    #[arg(long, value_enum)]
    language: LanguageChoice,
    /// Write the program to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LanguageChoice {
    #[value(name = "c++")]
    Cpp,
    Python,
    Rust,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> CommandResult {
    let file = captures::read(&arguments.file)?;
    if let Some(output) = &arguments.output {
        captures::check_output(output, &arguments.file)?;
    }
    let mut case =
        Case::select(&file.capture, &arguments.graph).map_err(|error| captures::no_graph(&arguments.file, error))?;
    if let Err(reason) = case.read_values(file.path()) {
        remark(format_args!("note: the program generates the values of tensors: {}", reason.printable()));
    }
    let language = match arguments.language {
        LanguageChoice::Cpp => Language::Cpp,
        LanguageChoice::Python => Language::Python,
        LanguageChoice::Rust => Language::Rust,
    };
    let program = emit(&case, language);
    let graph = &case.captured.id;
    match &arguments.output {
        Some(output) => {
            captures::write_output(output, |file| file.write_all(program.as_bytes()))?;
            format.report(|| json!({ "graph": graph, "file": output.to_string_lossy() }), || {});
        }
        None => {
            format.report(|| json!({ "graph": graph, "program": program }), || outln!("{}", program.trim_end()));
        }
    }
    Ok(file.outcome())
}
