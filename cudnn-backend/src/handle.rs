//! Provides cuDNN's handle. Independent of descriptors.

use std::ptr::null_mut;
use std::rc::Rc;

use crate::cudnn::{self, Error, check, cudnnHandle_t};

/// cuDNN's state on the device that is current when it is created. cuDNN's handle is destroyed when this value and all
/// descriptors that refer to it are dropped.
#[derive(Clone)]
pub struct Handle(Rc<Owned>);

impl Handle {
    /// Creates a handle on the current device.
    ///
    /// # Errors
    /// Returns an error if cuDNN cannot be loaded, or there is no usable GPU.
    pub fn new() -> Result<Self, Error> {
        let mut raw = null_mut();
        // SAFETY: cuDNN writes the new handle to `raw`.
        unsafe { check!(cudnn::cudnnCreate(&raw mut raw)) }?;
        Ok(Handle(Rc::new(Owned(raw))))
    }

    /// Returns cuDNN's pointer, which is valid as long as this value exists.
    pub fn raw(&self) -> cudnnHandle_t {
        self.0.0
    }
}

struct Owned(cudnnHandle_t);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the handle is live and not used again.
        let _ = unsafe { cudnn::cudnnDestroy(self.0) };
    }
}
