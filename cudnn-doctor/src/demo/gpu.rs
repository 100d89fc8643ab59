//! The GPU, by the driver's API alone, which is loaded when it is there.

use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, CudaStream, DriverError};

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
            Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => return Ok(Err("the driver sees no device".into())),
            Err(error) => return Err(refused(error)),
            Ok(_) => {}
        }
        let context = CudaContext::new(0).map_err(refused)?;
        let stream = context.default_stream();
        Ok(Ok(Gpu { context, stream }))
    }
}

/// A failure of the driver's, with what may help.
pub(crate) fn refused(error: DriverError) -> Failure {
    format!(
        "The GPU cannot be used: {error:?}. See whether `nvidia-smi` works and shows it as free; if it does not, the \
         driver is to be installed again, or the machine started again after its update."
    )
    .into()
}

/// Is the driver's library here?
pub(super) fn has_driver() -> bool {
    // SAFETY: the driver's library is opened, as every CUDA program does.
    unsafe { cudarc::driver::sys::is_culib_present() }
}
