//! Runs the examples of all crates with a real cuDNN, without a GPU.

mod backend;
mod crates;
