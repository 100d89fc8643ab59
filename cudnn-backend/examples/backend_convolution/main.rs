//! Runs convolutions with the backend API: layouts, groups, alpha and beta, stride and dilation, three dimensions.
//! cuDNN is loaded at run time.
//!
//! `cargo run --release -p cudnn-backend --example backend_convolution`

use std::process::ExitCode;

mod convolution;

fn main() -> ExitCode {
    cudnn_backend::program::run_on_gpu(convolution::run)
}
