//! The convolutions of the example `backend_convolution`, from the same source file, with `libcudnn_graph.so.9` linked
//! instead of loaded.
//!
//! `cargo run --release -p cudnn-backend-linked --features link-graph`
//!
//! At build time cudnn-sys needs a cuDNN to link to (`CUDNN_SYS_LIB_DIR`); at run time ld.so must find it
//! (`LD_LIBRARY_PATH`).

extern crate cudnn_backend_linked as cudnn_backend;

use std::process::ExitCode;

#[path = "../examples/backend_convolution/convolution.rs"]
mod convolution;

fn main() -> ExitCode {
    cudnn_backend::program::run_on_gpu(convolution::run)
}
