//! Layers between a program and cuDNN, each case in a child process.

mod mechanism;
mod plans;
mod trace;
