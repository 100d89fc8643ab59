//! Plans all graphs of a capture with the installed cuDNN, and executes them on a machine with a GPU.
//!
//! `cargo run -p cudnn-replay --example replay_capture -- FILE`. Exits with status 1 if a graph fails.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cudnn_replay::replay::{DataSet, Queue, ReportStatus, capture::graphs};
use cudnn_store::captures::Capture;

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: replay_capture FILE");
        return ExitCode::FAILURE;
    };
    match replay(&file) {
        Ok(exit_code) => exit_code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn replay(file: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let capture = Capture::read(file).map_err(|error| format!("cannot read {file:?}: {error}"))?;
    // Without this, every graph would report the same failure.
    cudnn_loader::load()?;
    let mut queue = Queue::default();
    let mut exit_code = ExitCode::SUCCESS;
    for captured in graphs([&capture]) {
        // `cudnn-lab replay` does this in a child process, because a defect in cuDNN can crash it.
        queue.push(captured.request(file, &[DataSet::Integers]));
        let Some(report) = queue.replay_next(&mut |_| {}) else { break };
        // `{:?}` escapes the label, because it comes from the file.
        println!("{} {:?}: {}", captured.id.escape_debug(), captured.label, report.status);
        if report.status != ReportStatus::SUCCESS {
            println!("  {}", report.reason.as_deref().unwrap_or("no reason").escape_debug());
            exit_code = ExitCode::FAILURE;
        }
        for plan in &report.plans {
            println!("  engine {} on {}, workspace {} bytes", plan.engine.index, report.device, plan.workspace);
        }
    }
    Ok(exit_code)
}
