//! cuDNN's handle, destroyed when dropped. Knows nothing of descriptors.

use std::ptr::null_mut;

use crate::cudnn::{self, Error, check, cudnnHandle_t};

/// A handle: cuDNN's state on the device that is current when it is created.
pub struct Handle(cudnnHandle_t);

impl Handle {
    /// Creates a handle on the current device.
    ///
    /// # Errors
    /// When cuDNN cannot be loaded, or there is no usable GPU.
    pub fn new() -> Result<Self, Error> {
        let mut raw = null_mut();
        // SAFETY: cuDNN writes the new handle to `raw`.
        unsafe { check!(cudnn::cudnnCreate(&raw mut raw)) }?;
        Ok(Handle(raw))
    }

    /// cuDNN's pointer. It is valid as long as this value.
    pub fn raw(&self) -> cudnnHandle_t {
        self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and this is its last use.
        let _ = unsafe { cudnn::cudnnDestroy(self.0) };
    }
}
