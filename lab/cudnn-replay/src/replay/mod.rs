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
//! | `element` | the elements of tensors as bytes |
//! | `tensor` | tensors, and walks through their elements |
//! | `reference` | the outputs of a graph, computed on the CPU |
//! | `captured` | the captured values of tensors |
//! | `accuracy` | the error of a result |
//! | `data` | the values of inputs |
//! | `memory` | buffers with red zones |
//! | `execution` | executions on the GPU |
//! | [`mod@comparison`] | the changes between two releases |
//! | [`mod@page`] | the comparison as an HTML page |

mod accuracy;
pub mod capture;
pub(crate) mod captured;
pub mod comparison;
mod data;
mod element;
mod execution;
mod memory;
pub mod page;
mod planning;
mod rebuild;
mod reference;
mod request;
mod tensor;

use cudnn_backend::device::{self, H200, Target};
use cudnn_backend::gpu::Gpu;
use cudnn_backend::handle::Handle;

use execution::Executor;
use planning::Step;

pub use captured::open_values;
pub use request::{CapturedValues, DEFAULT_MAX_BYTES, DataSet, Engines, OutputError, PlanReport, Report, Request, Run};

/// Plans and, on a machine with a GPU, executes the graph. `step` is called before each step that may take long, with a
/// description that follows "while it".
pub fn run(request: &Request, step: &mut dyn FnMut(&str)) -> Report {
    // SAFETY: the call passes no pointers.
    let mut report = Report { cudnn: unsafe { cudnn_loader::cudnnGetVersion() }, ..Report::default() };
    step("started the driver");
    let gpu = if request.plan_only {
        Err("the device is only described".to_owned())
    } else {
        Gpu::first().map_err(|reason| reason.to_string())
    };
    match gpu {
        Ok(gpu) => {
            report.device.clone_from(&gpu.name);
            match Handle::new() {
                Ok(handle) => {
                    let mut executor = Executor::new(&gpu, &handle, request);
                    let execute =
                        &mut |plan: &_, planned: &mut _, step: &mut Step<'_>| executor.execute(plan, planned, step);
                    planning::plan(request, Target::Handle(&handle), &mut report, step, execute);
                    (report.not_executed, report.problems) = (executor.refusal, executor.problems);
                }
                Err(error) => report.fail(&error, "cudnnCreate"),
            }
        }
        Err(reason) => {
            let description = request.device.as_deref().map_or_else(|| H200.to_owned(), crate::device::completed);
            report.device = crate::device::name(&description).unwrap_or_else(|| "an unnamed device".to_owned());
            report.not_executed = Some(reason);
            if let Err(refusal) = device::check_sizes(description.as_bytes()) {
                (report.status, report.reason) = ("SKIPPED".to_owned(), Some(refusal));
                return report;
            }
            match device::from_json(&description) {
                Ok(device) => planning::plan(request, Target::Device(&device), &mut report, step, &mut |_, _, _| {}),
                Err(error) => report.fail(&error, "the description of the device (cuDNN 9.8 or newer accepts one)"),
            }
        }
    }
    report
}
