//! RAII descriptors for cuDNN's backend API, and what a program builds from them: tensors, operations, graphs,
//! engines and plans. The examples in `examples/`, `cudnn-doctor demo` and the end-to-end tests share this crate. Its
//! interface follows what they need, and may change with each release.
//!
//! # Loaded or linked
//! The source calls cuDNN as `cudnn::cudnnBackendFinalize(..)`. [`cudnn`] is cudnn-loader with the feature `load`, which
//! is on by default, and cudnn-sys with `link` alone. A program calls cuDNN's other functions by the same name, and so
//! switches with the feature. Where cargo unites the features of several packages, the calls are those of `load`, and the
//! build still needs a cuDNN.
//!
//! A trait or a table of function pointers would show in every signature, and this crate is there to be read.
//!
//! # Modules
//! A module imports only modules above it in this list:
//!
//! | module | |
//! | --- | --- |
//! | [`descriptor`] | a descriptor: create, set and get attributes, finalize, destroy |
//! | [`handle`] | cuDNN's handle |
//! | [`tensor`] | tensors: id, data type, extents, strides |
//! | [`graph`] | operations, and the graph of them |
//! | [`device`] | the device to plan for: a handle's, or one described in JSON |
//! | [`engine`] | engines, knobs and configurations; what the heuristics propose |
//! | [`plan`] | a configuration made ready to run |
//! | `gpu` | the first GPU: its memory, and timing |
//! | `execute` | running a plan |
//! | `reference` | the same convolution on the CPU |
//! | `program` | how an example starts and ends |
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

/// The most telling line of cuDNN's error text: the first with a reason, or else the first that is not empty.
pub fn first_reason(text: &str) -> &str {
    let line = text.lines().find(|line| line.contains("Reason: "));
    line.or_else(|| text.lines().find(|line| !line.trim().is_empty())).unwrap_or_default().trim()
}
