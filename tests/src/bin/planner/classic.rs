//! Calls functions outside the backend API without a handle, which cuDNN refuses, and prints the statuses.

use std::ptr::{null, null_mut};

/// Calls one function a thousand times, and another one three times.
pub(crate) fn run() {
    let activation = || {
        let (handle, descriptor, tensor) = (null_mut(), null_mut(), null_mut());
        // SAFETY: cuDNN refuses to work without a handle.
        unsafe {
            cudnn_loader::cudnnActivationForward(handle, descriptor, null(), tensor, null(), null(), tensor, null_mut())
        }
    };
    let pooling = || {
        let (handle, descriptor, tensor) = (null_mut(), null_mut(), null_mut());
        // SAFETY: as above.
        unsafe {
            cudnn_loader::cudnnPoolingForward(handle, descriptor, null(), tensor, null(), null(), tensor, null_mut())
        }
    };
    let statuses = (0..1000).map(|_| activation()).chain((0..3).map(|_| pooling()));
    println!("{:?}", statuses.collect::<Vec<_>>());
}
