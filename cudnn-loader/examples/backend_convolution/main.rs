//! A convolution by the backend API alone, in each of the ways that people ask about; cuDNN is loaded.
//!
//! `cargo run --release -p cudnn-loader --example backend_convolution`

use std::process::ExitCode;

use cudnn_loader as cudnn;

#[path = "../backend/mod.rs"]
mod backend;
mod convolution;

fn main() -> ExitCode {
    backend::on_a_gpu(convolution::run)
}
