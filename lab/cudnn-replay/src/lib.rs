//! Replays captured cuDNN work.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`mod@device`] | reads and completes cuDNN's descriptions of devices |
//! | [`mod@known_devices`] | describes well-known GPUs |
//! | [`mod@rebuild`] | creates the descriptors of a graph with the loaded cuDNN |
//! | [`mod@emit`] | writes a graph as a program in C++ or Python |
//! | [`mod@reduce`] | makes a graph smaller while a condition holds |
//! | [`mod@tune`] | the rules to find the fastest correct engine of a graph |
//! | [`mod@replay`] | plans, executes and tunes a graph with the loaded cuDNN |
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it never runs in a process of others")]

mod attention_inputs;
mod captured_memory;
pub mod device;
pub mod emit;
pub mod known_devices;
pub mod rebuild;
pub mod reduce;
pub mod replay;
pub mod tune;
