//! Writes the first graph of a capture as a program in Python that plans and executes it. cuDNN is not required.
//!
//! `cargo run -p cudnn-replay --example emit_program -- FILE > program.py`

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cudnn_replay::emit::{Case, Language, emit};
use cudnn_replay::replay::capture::graphs;
use cudnn_store::captures::Capture;

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: emit_program FILE");
        return ExitCode::FAILURE;
    };
    match run(&file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(file: &Path) -> Result<(), Box<dyn Error>> {
    let capture = Capture::read(file).map_err(|error| format!("cannot read {file:?}: {error}"))?;
    let first = graphs([&capture]).into_iter().next().ok_or("the capture contains no graph")?;
    let mut case = Case::select(&capture, &first.id)?;
    // The program generates values if the capture contains none.
    case.read_values(file)?;
    print!("{}", emit(&case, Language::Python)?);
    Ok(())
}
