//! Provides RAII descriptors for cuDNN's backend API, and higher-level types: tensors, operations, graphs, engines and
//! plans. The examples, `cudnn-doctor demo`, the lab and the end-to-end tests share this crate. The API follows their
//! needs and may change in any release.
//!
//! # Loaded or linked
//! The source calls cuDNN as `cudnn::cudnnBackendFinalize(..)`. With the default feature `load`, [`cudnn`] is
//! cudnn-loader, and with only `link`, it is cudnn-sys. Programs can call all functions of cuDNN by this path. If cargo
//! unifies the features of several packages, `load` takes precedence, but the build still needs cuDNN.
//!
//! A trait or a table of function pointers would appear in every signature, and make the source less readable.
//!
//! # Modules
//! A module imports only modules above it in this list:
//!
//! | module | |
//! | --- | --- |
//! | [`handle`] | cuDNN's handle |
//! | [`descriptor`] | a descriptor: create, set and get attributes, finalize, destroy |
//! | [`tensor`] | tensors: id, data type, extents, strides |
//! | [`graph`] | operations, and the graph of them |
//! | [`device`] | the target device: a handle's device, or a JSON description |
//! | [`engine`] | engines, knobs and configurations; the heuristics' proposals |
//! | [`plan`] | execution plans |
//! | `gpu` | the first GPU: its memory, and timing |
//! | `execute` | runs a plan |
//! | `reference` | the same convolution on the CPU |
//! | `program` | runs an example, and sets the exit status |
//!
//! The last four need the feature `gpu`.

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(not(any(feature = "link", feature = "load")))]
compile_error!("enable a feature of cudnn-backend: `load` for cuDNN at run time, `link` for cuDNN at build time");

/// cuDNN's functions, loaded at run time.
#[cfg(feature = "load")]
pub use cudnn_loader as cudnn;
/// cuDNN's functions, linked.
#[cfg(all(feature = "link", not(feature = "load")))]
pub use cudnn_sys as cudnn;

pub mod descriptor;
pub mod device;
pub mod engine;
pub mod graph;
pub mod handle;
pub mod plan;
mod platform;
pub mod tensor;

#[cfg(feature = "gpu")]
pub mod execute;
#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "gpu")]
pub mod program;
#[cfg(feature = "gpu")]
pub mod reference;

/// Any error, for programs that only print it.
pub type Failure = Box<dyn std::error::Error>;

/// Returns the first line of cuDNN's error text that contains a reason, or otherwise the first non-empty line.
pub fn first_reason(text: &str) -> &str {
    let line = text.lines().find(|line| line.contains("Reason: "));
    line.or_else(|| text.lines().find(|line| !line.trim().is_empty())).unwrap_or_default().trim()
}
