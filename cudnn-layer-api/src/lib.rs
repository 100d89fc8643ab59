//! The interface between cudnn-loader and layers, which stand between a program and cuDNN.
//!
//! [`abi`] is `cudnn_layer.h` in Rust. [`Layer`] is the same as a trait: implement it, and either export it from a shared
//! library with [`export_layer!`], or add it to a program with `cudnn_loader::layers::add`.
//!
//! ```
//! use std::ffi::{CStr, c_void};
//! use cudnn_layer_api::{Host, Layer};
//!
//! /// Says which functions the program uses.
//! struct Names(Host);
//!
//! // SAFETY: `wrap` returns the address that it was given.
//! unsafe impl Layer for Names {
//!     fn begin(host: Host) -> Result<Self, String> {
//!         Ok(Names(host))
//!     }
//!     fn wrap(&self, function: &CStr, next: *const c_void) -> *const c_void {
//!         self.0.info(&format!("the program uses {}", function.to_string_lossy()));
//!         next
//!     }
//! }
//! ```
//!
//! A layer lives until the process ends and is never dropped. To report at exit, register a function of the C library with
//! `atexit` in [`Layer::begin`], and keep the report's data in a `static`.
//!
//! This crate knows neither the loader nor cuDNN's functions.

pub mod abi;
mod entry;
mod layer;

pub use entry::begin;
pub use layer::{Event, EventKind, Host, Layer};

/// The name of the function that a layer's library exports.
pub const ENTRY_POINT: &std::ffi::CStr = c"cudnnLayerBegin";

/// Exports a [`Layer`] from a shared library (`crate-type = ["cdylib"]`).
///
/// ```
/// # use std::ffi::{CStr, c_void};
/// # struct Names;
/// # unsafe impl cudnn_layer_api::Layer for Names {
/// #     fn begin(_: cudnn_layer_api::Host) -> Result<Self, String> { Ok(Names) }
/// #     fn wrap(&self, _: &CStr, next: *const c_void) -> *const c_void { next }
/// # }
/// cudnn_layer_api::export_layer!(Names);
/// ```
#[macro_export]
macro_rules! export_layer {
    ($layer:ty) => {
        /// Turns the layer on: see `cudnn_layer.h`.
        ///
        /// # Safety
        /// `host` and `layer` are the loader's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn cudnnLayerBegin(
            host: *const $crate::abi::Host,
            layer: *mut $crate::abi::Layer,
        ) -> ::std::ffi::c_int {
            // SAFETY: the caller's obligation, passed on.
            unsafe { $crate::begin::<$layer>(host, layer) }
        }
    };
}
