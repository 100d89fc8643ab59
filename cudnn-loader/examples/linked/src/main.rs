//! The convolution of `backend_convolution`, from the same source file, with `libcudnn_graph.so.9` linked instead of loaded.
//!
//! `cargo run --release -p cudnn-example-linked --features link-graph`, where cudnn-sys finds a cuDNN to link to; to run, the
//! dynamic linker has to find it too.

use std::process::ExitCode;

use cudnn_sys as cudnn;

#[path = "../../backend/mod.rs"]
mod backend;
#[path = "../../backend_convolution/convolution.rs"]
mod convolution;

fn main() -> ExitCode {
    backend::on_a_gpu(convolution::run)
}
