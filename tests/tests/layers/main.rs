//! Tests layers between a program and cuDNN, with a child process for every case.

mod capture;
mod emit;
mod errata;
mod explain;
mod full_releases;
mod guest;
mod mechanism;
mod planning;
mod plans;
mod trace;
mod tuned;
mod validate;
