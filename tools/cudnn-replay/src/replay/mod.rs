//! Plans and executes a graph with the loaded cuDNN.
//!
//! A graph is replayed in a process of its own, because cuDNN may crash, hang or abort: the parent sends a [`Request`],
//! and the child calls [`run`] and returns a [`Report`]. A module imports only modules above it in this list:
//!
//! | module | purpose |
//! | --- | --- |
//! | `request` | the request and the report |
//! | [`mod@capture`] | the requests for the graphs of a capture |
//! | `rebuild` | cuDNN's descriptors for a graph |
//! | `planning` | heuristics, engines and plans |
//! | [`mod@comparison`] | the changes between two releases |
//! | [`mod@page`] | the comparison as an HTML page |

pub mod capture;
pub mod comparison;
pub mod page;
mod planning;
mod rebuild;
mod request;

use cudnn_backend::device::{self, H200, Target};
use cudnn_backend::gpu::Gpu;
use cudnn_backend::handle::Handle;

pub use request::{DataSet, Engines, PlanReport, Report, Request, Run};

/// Plans and, on a machine with a GPU, executes the graph. `step` is called before each step that may take long, with a
/// description that follows "while it".
pub fn run(request: &Request, step: &mut dyn FnMut(&str)) -> Report {
    // SAFETY: the call passes no pointers.
    let mut report = Report { cudnn: unsafe { cudnn_loader::cudnnGetVersion() }, ..Report::default() };
    step("started the driver");
    match Gpu::first() {
        Ok(gpu) => {
            report.device.clone_from(&gpu.name);
            match Handle::new() {
                Ok(handle) => planning::plan(request, Target::Handle(&handle), &mut report, step, &mut |_, _, _| {}),
                Err(error) => report.fail(&error, "cudnnCreate"),
            }
        }
        Err(reason) => {
            let description = request.device.as_deref().unwrap_or(H200);
            report.device = device_name(description);
            report.not_executed = Some(reason.to_string());
            match device::from_json(description) {
                Ok(device) => planning::plan(request, Target::Device(&device), &mut report, step, &mut |_, _, _| {}),
                Err(error) => report.fail(&error, "the description of the device (cuDNN 9.8 or newer accepts one)"),
            }
        }
    }
    report
}

/// Returns the name in cuDNN's description of a device.
fn device_name(description: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(description).unwrap_or_default();
    let name = json.pointer("/deviceName").or_else(|| json.pointer("/GPUProfile/deviceName"));
    name.and_then(serde_json::Value::as_str).unwrap_or("an unnamed device").to_owned()
}
