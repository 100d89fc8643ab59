//! Runs an example on the first GPU, or ends it with a plain message.

use std::process::ExitCode;

use crate::Failure;
use crate::cudnn;
use crate::gpu::Gpu;

/// Runs an example on the first GPU. A machine without one is no failure: the example prints that and ends.
pub fn run_on_gpu(example: fn(&Gpu) -> Result<(), Failure>) -> ExitCode {
    let gpu = match Gpu::first() {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("No GPU found ({error}), so nothing was computed.");
            return ExitCode::SUCCESS;
        }
    };
    // SAFETY: the function takes no arguments.
    println!("cuDNN {} on {}", unsafe { cudnn::cudnnGetVersion() }, gpu.name);
    exit_code(example(&gpu))
}

/// The exit code for a result. An error goes to the standard error stream.
pub fn exit_code(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
