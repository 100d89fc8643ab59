//! Calls cuDNN, either linked at build time (feature `link`) or loaded at run time (feature `load`), with the same
//! source except for the imports.

#[cfg(not(any(feature = "link", feature = "load")))]
compile_error!("enable a feature of link-or-load: `load` for cuDNN at run time, `link` for cuDNN at build time");

#[cfg(feature = "load")]
use cudnn_loader as cudnn;
#[cfg(all(feature = "link", not(feature = "load")))]
use cudnn_sys as cudnn;

#[cfg(any(feature = "link", feature = "load"))]
pub use implementation::{Dropout, version};

#[cfg(any(feature = "link", feature = "load"))]
mod implementation {
    use super::cudnn;

    /// Returns cuDNN's version, for example 91900 for 9.19.0, or 0 if cuDNN cannot be loaded.
    pub fn version() -> usize {
        // SAFETY: the call passes no pointers.
        unsafe { cudnn::cudnnGetVersion() }
    }

    /// A descriptor that libcudnn_ops implements.
    pub struct Dropout(cudnn::cudnnDropoutDescriptor_t);

    impl Dropout {
        /// Creates the descriptor. Works without a GPU.
        ///
        /// # Errors
        /// Returns the failure that cuDNN or the loader reports.
        pub fn new() -> Result<Self, cudnn::Error> {
            let mut descriptor = std::ptr::null_mut();
            // SAFETY: the descriptor is valid for writes.
            unsafe { cudnn::check!(cudnn::cudnnCreateDropoutDescriptor(&mut descriptor)) }?;
            Ok(Dropout(descriptor))
        }
    }

    impl Drop for Dropout {
        fn drop(&mut self) {
            // SAFETY: the descriptor is live and not used again.
            let _ = unsafe { cudnn::cudnnDestroyDropoutDescriptor(self.0) };
        }
    }
}
