//! Loads cuDNN ahead of time: files, libraries, CUDA contexts and engines, in parallel where cuDNN and ld.so allow it.
//!
//! ```no_run
//! use cudnn_loader::preload::Preload;
//!
//! let handle = Preload::new().engines(true).start();
//! // ... read the model's weights in the meantime ...
//! println!("{}", handle.join()?); // the duration of each step
//! # Ok::<(), cudnn_loader::preload::PreloadError>(())
//! ```

mod background;
mod critical;
mod driver;
mod engines;
mod files;
pub mod pages;
mod parts;
mod report;
mod run;

pub use background::{PreloadHandle, is_nested};
pub use parts::{Devices, Preload};
pub use report::{PreloadError, PreloadOutcome, PreloadReport, PreloadStep, StepReport};
