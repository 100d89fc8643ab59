//! Finds engine configurations, plans and workspace sizes for a device that is not installed, from a JSON description.
//! Needs cuDNN 9.8 or newer. JIT-only releases have no heuristics and may need NVRTC.
//!
//! `cargo run -p cudnn-backend --example plan_without_gpu [DEVICE.json]`. Without a file, it plans for an H200.
//! `plan_without_gpu --describe` prints the description of this machine's GPU.

use std::process::ExitCode;

use cudnn_backend::cudnn::cudnnBackendHeurMode_t as Mode;
use cudnn_backend::cudnn::{self, cudnnDataType_t};
use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::{self, Target};
use cudnn_backend::engine::{ConfigurationInfo, can_try_every_engine, configuration, proposals, supporting_engines};
use cudnn_backend::gpu::Gpu;
use cudnn_backend::graph::{Convolution, graph};
use cudnn_backend::handle::Handle;
use cudnn_backend::plan::Plan;
use cudnn_backend::tensor::Tensor;
use cudnn_backend::{Failure, first_reason, program};

const HALF: cudnnDataType_t = cudnnDataType_t::CUDNN_DATA_HALF;
/// The maximum number of configurations to plan and show for each source.
const MAX_SHOWN: usize = 10;

fn main() -> ExitCode {
    program::exit_code(run())
}

fn run() -> Result<(), Failure> {
    let json = match std::env::args_os().nth(1) {
        Some(argument) if argument == "--describe" => return describe(),
        Some(file) => std::fs::read_to_string(&file).map_err(|error| format!("cannot read {file:?}: {error}"))?,
        None => device::H200.to_owned(),
    };
    // The first release with device descriptions. Older releases reject the descriptor without a reason.
    let installation = cudnn::Options::new().minimum_version(cudnn::Version::new(9, 8, 0)).load()?;
    println!("cuDNN {} in {}", installation.version, installation.dir.display());
    let device = device::from_json(&json).map_err(explain)?;
    let target = Target::Device(&device);
    let x = Tensor::channels_last(1, HALF, &[32, 64, 56, 56]);
    let w = Tensor::channels_last(2, HALF, &[64, 64, 3, 3]);
    let y = Tensor::channels_last(3, HALF, &[32, 64, 56, 56]);
    let graph = graph(None, &[&Convolution::padded(1, 2).forward([&x, &w, &y], 1.0, 0.0)?])?;
    let mut planned = 0;
    for mode in [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_B, Mode::CUDNN_HEUR_MODE_FALLBACK] {
        planned += show(&format!("{mode:?}"), &proposals(&graph, mode, target)?, target)?;
    }
    if planned == 0 && can_try_every_engine() {
        let (mut configurations, mut errors) = (Vec::new(), Vec::new());
        for engine in supporting_engines(&graph, target)? {
            match configuration(&engine, &[]) {
                Ok(configuration) => configurations.push(configuration),
                Err(error) => errors.push(error),
            }
        }
        planned += show("every engine", &configurations, target)?;
        if let Some(error) = errors.last() {
            println!("  {} engines cannot be configured, the last one because of {}", errors.len(), short(error));
        }
    }
    if planned == 0 {
        return Err("No plan could be made, for the reasons above. A JIT-only cuDNN needs NVRTC to plan.".into());
    }
    Ok(())
}

/// Plans and prints the first configurations of a source. Returns the number of successful plans.
fn show(source: &str, configurations: &[Descriptor], target: Target<'_>) -> Result<usize, Failure> {
    println!("{source}: {} configurations", configurations.len());
    let mut planned = 0;
    for configuration in configurations.iter().take(MAX_SHOWN) {
        let info = ConfigurationInfo::new(configuration)?;
        match Plan::new(configuration, target) {
            Ok(plan) => {
                planned += 1;
                let (size, engine, notes) = (plan.workspace_size, info.engine_text(), info.notes_text());
                println!("  workspace {size:>9} bytes: {engine} {notes}");
            }
            Err(error) => println!("  no plan: {}: {}", info.engine_text(), short(&error)),
        }
    }
    Ok(planned)
}

/// Adds the most likely cause to an error of the first descriptor.
fn explain(error: cudnn::Error) -> String {
    let is_loading_failure = error.status == cudnn::cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;
    if is_loading_failure && !Gpu::has_driver() {
        format!("this cuDNN cannot finalize any descriptor without libcuda.so.1, the driver's library: {error}")
    } else {
        error.to_string()
    }
}

fn describe() -> Result<(), Failure> {
    let _gpu = Gpu::first()?;
    println!("{}", device::to_json(&Handle::new()?)?);
    Ok(())
}

fn short(error: &cudnn::Error) -> String {
    format!("{:?} {}", error.status, first_reason(&error.text))
}
