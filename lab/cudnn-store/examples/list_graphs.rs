//! Lists the graphs of a capture, and the engine, workspace and result of each plan that the program has built.
//!
//! `cargo run -p cudnn-store --example list_graphs -- FILE`. `cudnn-doctor run --capture FILE` writes captures.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cudnn_store::captures::{Capture, CaptureError, Record};

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: list_graphs FILE");
        return ExitCode::FAILURE;
    };
    match list(&file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot read {file:?}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list(file: &Path) -> Result<(), CaptureError> {
    let capture = Capture::read(file)?;
    for record in &capture.records {
        match record {
            // `{:?}` escapes the label, because it comes from the file.
            Record::Graph(graph) => {
                println!("{} {:?}", graph.graph, graph.label);
                println!("  {} operations, {} tensors", graph.nodes.operations().len(), graph.nodes.tensors().count());
            }
            Record::Plan(plan) => {
                let engine = plan.engine.as_ref().map_or("unknown".into(), |engine| engine.index.to_string());
                let workspace = plan.workspace.map_or("unknown".into(), |bytes| format!("{bytes} bytes"));
                println!("  plan {} of {}: {}", plan.plan, plan.graph, plan.status);
                println!("    engine {engine}, workspace {workspace}, built in {} µs", plan.build_us);
            }
            _ => {}
        }
    }
    for problem in &capture.problems {
        eprintln!("warning: {problem}");
    }
    Ok(())
}
