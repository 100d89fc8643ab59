//! Turns on the layer `trace` in the program itself. Prints a line for each cuDNN call, and writes a timeline that
//! Perfetto (<https://ui.perfetto.dev>) shows.
//!
//! `cargo run -p cudnn-layers --example trace_calls -- trace.json`

use std::error::Error;

use cudnn_layers::trace::{Destination, Options, Trace, configure};
use cudnn_loader::{self as cudnn, check};

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    options.chrome = std::env::args_os().nth(1).map(Into::into);
    options.lines = Some(Destination::Stdout);
    configure(options);
    // Add layers before the first cuDNN call, which starts them.
    cudnn_loader::layers::add::<Trace>("trace")?;

    let mut tensor = std::ptr::null_mut();
    let kind = cudnn::cudnnBackendDescriptorType_t::CUDNN_BACKEND_TENSOR_DESCRIPTOR;
    // SAFETY: `tensor` is valid for writes.
    unsafe { check!(cudnn::cudnnBackendCreateDescriptor(kind, &mut tensor)) }?;
    // SAFETY: the descriptor was created above and is not used again.
    unsafe { check!(cudnn::cudnnBackendDestroyDescriptor(tensor)) }?;
    Ok(())
}
