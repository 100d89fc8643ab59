//! The GPU, by the driver's API alone, which is loaded when it is there.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};

use super::Failure;

/// The first GPU, with a context.
pub(crate) struct Gpu {
    pub(crate) context: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
}

impl Gpu {
    /// The first GPU; or, in words, why there is none, which is no failure.
    pub(crate) fn first() -> Result<Result<Gpu, String>, Failure> {
        if !has_driver() {
            return Ok(Err("libcuda.so.1, the driver's library, is not here".into()));
        }
        match CudaContext::device_count() {
            Ok(0) => return Ok(Err("the driver sees no device".into())),
            Err(error) => return Ok(Err(format!("the driver says {error:?}"))),
            Ok(_) => {}
        }
        let context = CudaContext::new(0).map_err(|error| {
            format!("The first GPU cannot be used: {error:?}. See whether `nvidia-smi` shows it, and as free.")
        })?;
        let stream = context.default_stream();
        Ok(Ok(Gpu { context, stream }))
    }
}

/// Is the driver's library here?
pub(crate) fn has_driver() -> bool {
    // SAFETY: the driver's library is opened, as every CUDA program does.
    unsafe { cudarc::driver::sys::is_culib_present() }
}
