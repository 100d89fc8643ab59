//! `emit`: writes a captured graph as a program.

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, outln, remark};
use cudnn_replay::emit::{Language, emit, is_program};
use serde_json::json;

use crate::captures;
use crate::graph_arguments::GraphArguments;
use crate::output_file::{Output, OutputKind, Replace};

const PROGRAM: OutputKind = OutputKind { name: "a program of `emit`", is_start: is_program };

/// The options of `emit`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    graph: GraphArguments,
    /// The language of the program.
    #[arg(long, value_enum)]
    language: LanguageChoice,
    /// Write the program to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
}

#[derive(Clone, Copy, ValueEnum)]
enum LanguageChoice {
    #[value(name = "c++")]
    Cpp,
    Python,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> CommandResult {
    let file = captures::read(&arguments.graph.file)?;
    let inputs = arguments.graph.inputs();
    let output = arguments.output.as_ref();
    let output = output.map(|file| Output { file, kind: &PROGRAM, inputs: &inputs, force: arguments.replace.force });
    output.as_ref().map_or(Ok(()), Output::check)?;
    let mut case = arguments.graph.select(&file)?;
    if let Err(reason) = case.read_values(&arguments.graph.file) {
        remark(format_args!("note: the program generates the values of tensors: {}", reason.printable()));
    }
    let language = match arguments.language {
        LanguageChoice::Cpp => Language::Cpp,
        LanguageChoice::Python => Language::Python,
    };
    let program = emit(&case, language).map_err(|error| format!("{}: {error}", arguments.graph.file.printable()))?;
    let graph = &case.captured.id;
    match output {
        Some(output) => {
            output.write(|file| file.write_all(program.as_bytes()))?;
            format.report(|| json!({ "graph": graph, "file": output.file.to_string_lossy() }), || {});
        }
        None => {
            format.report(|| json!({ "graph": graph, "program": program }), || outln!("{}", program.trim_end()));
        }
    }
    Ok(captures::outcome(&file.problems))
}
