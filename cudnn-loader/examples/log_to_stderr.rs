//! Prints cuDNN's log to stderr, including the loader's own entries about the search for cuDNN.
//!
//! `cargo run -p cudnn-loader --example log_to_stderr [LEVEL]`. Level 1 shows errors, 2 also warnings, 3 also calls.

use std::error::Error;

use cudnn_loader::logging::{Destination, LogSeverity, write_to};
use cudnn_loader::{self as cudnn, check};

fn main() -> Result<(), Box<dyn Error>> {
    let level = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 3,
    };
    // If this comes before the first call, the log also shows how cuDNN is found and loaded.
    write_to(LogSeverity::up_to(level), Destination::Stderr)?;
    let mut descriptor = std::ptr::null_mut();
    let kind = cudnn::cudnnBackendDescriptorType_t::CUDNN_BACKEND_TENSOR_DESCRIPTOR;
    // SAFETY: `descriptor` is valid for writes.
    unsafe { check!(cudnn::cudnnBackendCreateDescriptor(kind, &mut descriptor)) }?;
    // This call fails, because the tensor has no dimensions yet. The log contains cuDNN's reason.
    // SAFETY: the descriptor was created above.
    let status = unsafe { cudnn::cudnnBackendFinalize(descriptor) };
    println!("cudnnBackendFinalize returned {status:?}");
    // SAFETY: the descriptor is not used again.
    unsafe { check!(cudnn::cudnnBackendDestroyDescriptor(descriptor)) }?;
    Ok(())
}
