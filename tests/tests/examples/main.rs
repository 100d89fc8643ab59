//! Runs the examples of all crates and the tutorial with a real cuDNN, without a GPU.

mod backend;
mod crates;
mod tutorial;
