//! Plans and executes a graph with the loaded cuDNN.
//!
//! Graphs are replayed in a child process, because cuDNN may crash, hang or abort. The parent sends a [`Request`] for
//! each graph, and the child appends it to a [`Queue`] and returns a [`ReplayReport`]. A module imports only modules
//! above it in this list:
//!
//! | module | purpose |
//! | --- | --- |
//! | `status` | how the replay of a graph has ended |
//! | `request` | the request and the report |
//! | [`mod@capture`] | the requests for the graphs of a capture |
//! | `planning` | heuristics, engines and plans |
//! | `element` | the elements of tensors as bytes |
//! | `threads` | threads on all processors |
//! | `tensor` | tensors, and walks through their elements |
//! | `reference` | the outputs of a graph, computed on the CPU |
//! | `captured` | the captured values of tensors |
//! | `accuracy` | the error of a result |
//! | `data` | the values of inputs |
//! | `memory` | buffers with red zones |
//! | `host_memory` | a limit for graphs that are prepared ahead |
//! | `prepared` | the values of a data set, and the comparison of outputs |
//! | `ahead` | data sets that threads prepare ahead |
//! | `stopwatch` | measures executions with an empty L2 cache |
//! | `execution` | executions on the GPU |
//! | `queue` | graphs that are replayed in turn, and prepared ahead |
//! | [`mod@comparison`] | the changes between two releases |
//! | `tuning` | graphs that are tuned in turn |
//! | [`mod@page`] | the comparison as an HTML page |

mod accuracy;
mod ahead;
pub mod capture;
pub(crate) mod captured;
pub mod comparison;
mod data;
mod element;
mod execution;
mod host_memory;
mod memory;
pub mod page;
mod planning;
mod prepared;
mod queue;
mod reference;
mod request;
mod status;
mod stopwatch;
mod tensor;
mod threads;
mod tuning;

pub use captured::open_values;
pub use queue::Queue;
pub use request::{
    CapturedValues, DEFAULT_MAX_BYTES, DataSet, Engines, OutputError, PlanReport, ReplayReport, Request, Run,
};
pub use status::ReportStatus;
pub use tuning::{Tuner, TuningStep};
