//! Runs an example on the first GPU, or exits with a plain message.

use std::process::ExitCode;

use crate::Failure;
use crate::cudnn;
use crate::gpu::Gpu;

/// Runs an example on the first GPU. On a machine without a GPU, it prints that and succeeds.
pub fn run_on_gpu(example: fn(&Gpu) -> Result<(), Failure>) -> ExitCode {
    let gpu = match Gpu::first() {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("No GPU found ({error}), so nothing was computed.");
            return ExitCode::SUCCESS;
        }
    };
    // SAFETY: the call passes no pointers.
    println!("cuDNN {} on {}", unsafe { cudnn::cudnnGetVersion() }, gpu.name);
    exit_code(example(&gpu))
}

/// Returns the exit code for a result, and prints the full report of an error to standard error.
pub fn exit_code(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure:#}");
            ExitCode::FAILURE
        }
    }
}
