//! Provides cuDNN's handle, which is destroyed when dropped. Independent of descriptors.

use std::ptr::null_mut;

use crate::cudnn::{self, Error, check, cudnnHandle_t};

/// A handle: cuDNN's state on the device that is current when it is created.
pub struct Handle(cudnnHandle_t);

impl Handle {
    /// Creates a handle on the current device.
    ///
    /// # Errors
    /// Returns an error if cuDNN cannot be loaded, or there is no usable GPU.
    pub fn new() -> Result<Self, Error> {
        let mut raw = null_mut();
        // SAFETY: cuDNN writes the new handle to `raw`.
        unsafe { check!(cudnn::cudnnCreate(&raw mut raw)) }?;
        Ok(Handle(raw))
    }

    /// Returns cuDNN's pointer, which is valid as long as this value exists.
    pub fn raw(&self) -> cudnnHandle_t {
        self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is live and not used again.
        let _ = unsafe { cudnn::cudnnDestroy(self.0) };
    }
}
