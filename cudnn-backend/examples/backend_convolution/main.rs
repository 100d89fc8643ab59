//! Runs convolutions with the backend API, with cuDNN loaded at run time: layouts, groups, alpha and beta, stride and
//! dilation, three dimensions.
//!
//! `cargo run --release -p cudnn-backend --example backend_convolution`

use std::process::ExitCode;

mod convolution;

fn main() -> ExitCode {
    cudnn_backend::program::run_on_gpu(convolution::run)
}
