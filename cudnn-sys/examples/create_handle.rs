//! Links cuDNN and creates a handle. Prints the error that cuDNN reports if that fails, for example without a GPU.
//!
//! `CUDNN_SYS_LIB_DIR=DIR LD_LIBRARY_PATH=DIR cargo run -p cudnn-sys --features link-graph --example create_handle`

use cudnn_sys as cudnn;

fn main() -> Result<(), cudnn::Error> {
    // SAFETY: the function has no parameters.
    println!("cuDNN {}", unsafe { cudnn::cudnnGetVersion() });
    let mut handle = std::ptr::null_mut();
    // SAFETY: `handle` is valid for writes.
    unsafe { cudnn::check!(cudnn::cudnnCreate(&mut handle)) }?;
    println!("created a handle");
    // SAFETY: `cudnnCreate` returned the handle, and it is not used again.
    unsafe { cudnn::check!(cudnn::cudnnDestroy(handle)) }
}
