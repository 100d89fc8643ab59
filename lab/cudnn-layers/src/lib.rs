//! Layers that run between a program and cuDNN.
//!
//! | layer | description |
//! | --- | --- |
//! | [`capture`] | writes the graphs, plans, executions and failures of a program to a file that can be replayed |
//! | [`errata`] | blocks plans that are known to be wrong or slow, so that programs use another engine |
//! | [`explain`] | reports why a graph has no engine, and which engine a program uses |
//! | [`plans`] | caches compiled execution plans on disk, so that later processes start faster |
//! | [`trace`] | records every call with its time, arguments and status, for Perfetto, as text lines, or as a summary |
//! | [`tuned`] | lets programs choose the engines that were measured as the fastest |
//! | [`validate`] | reports mistakes that cuDNN accepts or does not explain |
//!
//! Rust programs add a layer in code before the first cuDNN call:
//!
//! ```no_run
//! # mod cudnn_loader { pub mod layers { pub fn add<L>(_: &str) -> Result<(), std::fmt::Error> { Ok(()) } } }
//! use cudnn_layers::trace::{self, Trace};
//!
//! let mut options = trace::Options::default();
//! options.chrome = Some("trace.json".into());
//! trace::configure(options);
//! cudnn_loader::layers::add::<Trace>("trace")?;
//! # Ok::<(), std::fmt::Error>(())
//! ```
//!
//! The options of the other layers are set in the same way, such as [`capture::Options::new`] with the name of the
//! capture, or the environment's [`plans::Options`] with another directory. Without `configure`, layers read
//! environment variables.
//!
//! For other programs, the package `cudnn-layers-library` of the repository builds a shared library with all layers
//! (`libcudnn_layers.so` or `cudnn_layers.dll`). The loader finds it next to the drop-in and starts the layers listed
//! in `CUDNN_LAYERS`.
//!
//! Each layer is a module that depends on cuDNN's types and on `cudnn-layer-api`, but not on other layers.
#![allow(deprecated, reason = "programs also call deprecated functions")]

// The private modules, which layers share:
//
// | module | |
// | --- | --- |
// | `active` | the state of a layer |
// | `bypass` | notices calls that a layer has not seen |
// | `configured` | the options that a program sets in code |
// | `cudnn`, `engine` | calls below a layer |
// | `device` | the device of a plan |
// | `driver` | calls of NVIDIA's driver |
// | `follow` | reports returned calls to the shadow, and restores error texts |
// | `fork` | prepares all layers for forks |
// | `json` | parses |
// | `last_error` | hides the errors of calls below a layer |
// | `leaked` | values that are replaced while other threads read them |
// | `lock` | protects values for a few nanoseconds |
// | `plan_configurations` | the engines of plans |
// | `program_memory` | reads memory of the program; nothing else does |
// | `report` | opens the output files |
// | `serialized` | recognizes restored plans |
// | `shadow` | tracks the attributes of backend descriptors |
// | `table` | what a layer knows about descriptors |
// | `thread` | numbers threads |
// | `trial` | hides calls below a layer from the other layers |
// | `wrappers` | names the wrappers of `cudnn-layer-api` |
// | `written` | remembers what was written |
mod active;
mod bypass;
pub mod capture;
mod configured;
mod cudnn;
mod device;
mod driver;
mod engine;
pub mod errata;
pub mod explain;
mod follow;
mod fork;
mod json;
mod last_error;
mod leaked;
mod lock;
mod plan_configurations;
pub mod plans;
mod program_memory;
mod report;
mod serialized;
mod shadow;
mod table;
mod thread;
pub mod trace;
mod trial;
pub mod tuned;
pub mod validate;
mod wrappers;
mod written;
