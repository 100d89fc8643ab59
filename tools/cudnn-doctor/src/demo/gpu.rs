//! The first GPU, with the driver's errors as the demo reports them.

use std::fmt::Display;

use cudnn_backend::gpu::{Gpu, NoGpu};

use super::Failure;

/// The first GPU; or why there is none, which is no failure of the demo.
pub(crate) fn first() -> Result<Result<Gpu, NoGpu>, Failure> {
    match Gpu::first() {
        Err(NoGpu::Driver(error)) => Err(driver_failure(error)),
        Err(error @ (NoGpu::Start(_) | NoGpu::NoFunction(_))) => Err(driver_failure(error)),
        gpu => Ok(gpu),
    }
}

/// An error of the driver, with help.
pub(crate) fn driver_failure(error: impl Display) -> Failure {
    format!(
        "the GPU cannot be used: {error}\nhelp: check that `nvidia-smi` works and lists the GPU as free; if it does not, \
         reinstall the driver, or reboot if it was just updated"
    )
    .into()
}
