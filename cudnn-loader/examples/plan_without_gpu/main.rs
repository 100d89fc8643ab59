//! Engine configurations, plans and workspace sizes for a device that is not here, from its description in JSON: since cuDNN
//! 9.8, and with the full releases, which have heuristics.
//!
//! `cargo run -p cudnn-loader --example plan_without_gpu [DEVICE.json]`; without a file, for an H200, whose description cuDNN
//! wrote. `plan_without_gpu --describe` has it describe the GPU that is here.

use std::process::ExitCode;

use cudnn_loader as cudnn;
use cudnn_probe::Library;

#[path = "../backend/mod.rs"]
mod backend;

use backend::descriptor::{Descriptor, Handle};
use backend::gpu::Gpu;
use backend::graph::{Convolution, graph};
use backend::plan::{
    For, Plan, about, configuration, described, description, engine, engine_count, engines_can_be_walked, proposed,
};
use backend::tensor::Tensor;
use backend::{Failure, first_reason, told};
use cudnn::cudnnBackendHeurMode_t as Mode;
use cudnn::cudnnDataType_t;

const HALF: cudnnDataType_t = cudnnDataType_t::CUDNN_DATA_HALF;
const H200: &str = include_str!("h200.json");

fn main() -> ExitCode {
    told(run())
}

fn run() -> Result<(), Failure> {
    let json = match std::env::args_os().nth(1) {
        Some(word) if word == "--describe" => return describe(),
        Some(file) => std::fs::read_to_string(&file).map_err(|error| format!("{file:?} cannot be read: {error}"))?,
        None => H200.to_owned(),
    };
    // The first device that cuDNN knows by description; an older one would refuse the descriptor's very kind.
    let installation = cudnn::Options::new().minimum_version(cudnn::Version::new(9, 8, 0)).load()?;
    println!("cuDNN {} in {}", installation.version, installation.dir.display());
    let device = described(&json).map_err(|error| match (error.status, Gpu::has_driver()) {
        // CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED
        (cudnn::cudnnStatus_t(1008), false) => {
            format!("This release cannot finalise any descriptor without libcuda.so.1, the driver's library: {error}")
        }
        _ => error.to_string(),
    })?;
    let what_for = For::Device(&device);
    let x = Tensor::channels_last(1, HALF, &[32, 64, 56, 56]);
    let w = Tensor::channels_last(2, HALF, &[64, 64, 3, 3]);
    let y = Tensor::channels_last(3, HALF, &[32, 64, 56, 56]);
    let graph = graph(None, &[&Convolution::padded(1, 2).forward([&x, &w, &y], 1.0, 0.0)?])?;
    let mut planned = 0;
    for mode in [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_B, Mode::CUDNN_HEUR_MODE_FALLBACK] {
        planned += show(&format!("{mode:?}"), &proposed(&graph, mode, what_for)?, what_for)?;
    }
    // A JIT-only release has no heuristics.
    let is_jit_only = !installation.has(Library::EnginesPrecompiled);
    if planned == 0 && (is_jit_only || engines_can_be_walked()) {
        let taking = (0..engine_count(&graph)?).filter_map(|index| engine(&graph, index, what_for).ok());
        let (mut configurations, mut refused) = (Vec::new(), None);
        for engine in taking {
            match configuration(&engine, &[]) {
                Ok(configuration) => configurations.push(configuration),
                Err(error) => refused = Some(error),
            }
        }
        planned += show("engine by engine", &configurations, what_for)?;
        if let Some(error) = refused {
            println!("  the others cannot be configured, the last for this: {}", in_short(&error));
        }
    }
    if planned == 0 {
        return Err("Nothing can be planned here: see above; a JIT-only cuDNN needs NVRTC for it.".into());
    }
    Ok(())
}

/// Shows the first few; gives how many of them can be planned.
fn show(source: &str, configurations: &[Descriptor], what_for: For<'_>) -> Result<usize, Failure> {
    println!("{source}: {} configurations", configurations.len());
    let mut planned = 0;
    for configuration in configurations.iter().take(10) {
        let (engine, notes) = about(configuration)?.words();
        match Plan::new(configuration, what_for) {
            Ok(plan) => {
                planned += 1;
                println!("  workspace {:>9} bytes: {engine} {notes}", plan.workspace);
            }
            Err(error) => println!("  no plan: {engine}: {}", in_short(&error)),
        }
    }
    Ok(planned)
}

/// Prints the description of the first GPU.
fn describe() -> Result<(), Failure> {
    let _gpu = Gpu::first()?;
    println!("{}", description(&Handle::new()?)?);
    Ok(())
}

/// The status, and the first reason.
fn in_short(error: &cudnn::Error) -> String {
    format!("{:?} {}", error.status, first_reason(&error.text))
}
