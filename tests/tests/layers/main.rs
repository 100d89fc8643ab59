//! Layers between a program and cuDNN, each case in a child process.

mod full_releases;
mod mechanism;
mod plans;
mod trace;
