//! What the examples share: descriptors that free themselves, the parts of a graph, plans, the GPU, and the same computation
//! on the CPU. Written against `crate::cudnn`, which an example says to be `cudnn_loader` or `cudnn_sys`: nothing here knows
//! whether cuDNN is loaded or linked.
#![allow(dead_code, reason = "each example uses a part")]

pub(crate) mod descriptor;
pub(crate) mod gpu;
pub(crate) mod graph;
pub(crate) mod plan;
pub(crate) mod reference;
pub(crate) mod tensor;

use std::process::ExitCode;

use crate::cudnn;
use gpu::Gpu;

/// Whatever went wrong, in words.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// Runs an example on the first GPU; where there is none, says so, which is no failure.
pub(crate) fn on_a_gpu(example: fn(&Gpu) -> Result<(), Failure>) -> ExitCode {
    let gpu = match Gpu::first() {
        Ok(gpu) => gpu,
        Err(why) => {
            println!("No GPU to compute on ({why}), so nothing was computed.");
            return ExitCode::SUCCESS;
        }
    };
    // SAFETY: the function takes nothing.
    println!("cuDNN {} on {}", unsafe { cudnn::cudnnGetVersion() }, gpu.name);
    told(example(&gpu))
}

/// An example's end, as a program has it.
pub(crate) fn told(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Of the many lines that cuDNN may have, the first that gives a reason; or else the first.
pub(crate) fn first_reason(text: &str) -> &str {
    let line = text.lines().find(|line| line.contains("Reason: "));
    line.or_else(|| text.lines().find(|line| !line.trim().is_empty())).unwrap_or_default().trim()
}
