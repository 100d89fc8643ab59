//! The files of the lab: captures, cached plans, and tuned choices.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`captures`] | the work that a program has given to cuDNN |
//! | [`plans`] | compiled plans, which processes share |
//! | [`choices`] | rankings of engines, and rules |
//!
//! This crate is independent of layers and of the loader. It does not call cuDNN.
#![forbid(unsafe_code)]

pub mod captures;
pub mod choices;
mod object;
pub mod plans;
mod unique;

pub use object::{read_object, read_objects};
pub use unique::read_unique;
