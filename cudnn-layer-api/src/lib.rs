//! The interface between `cudnn-loader` and layers, which run between a program and cuDNN.
//!
//! Implement the trait [`Layer`] to write a layer in Rust. Then either export it from a shared library with
//! [`export_layer!`], or add it to a program with `cudnn_loader::layers::add`. The module [`abi`] contains the
//! structures of `cudnn_layer.h`.
//!
//! ```
//! use std::ffi::{CStr, c_void};
//! use cudnn_layer_api::{Host, Layer};
//!
//! /// Logs the functions that the program uses.
//! struct Names(Host);
//!
//! // SAFETY: `wrap` returns its argument, which has the right signature.
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
//! A layer exists until the process exits and is never dropped. To write a report at exit, register a C function with
//! `atexit` in [`Layer::begin`] and store the data in a `static`, as the example `count.rs` of this crate does.
//!
//! This crate depends on neither the loader nor cuDNN's functions.

pub mod abi;
mod entry;
mod layer;

pub use entry::begin;
pub use layer::{Event, EventKind, Host, Layer};

/// The name of the function that a layer library exports.
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
        /// Starts the layer: see `cudnn_layer.h`.
        ///
        /// # Safety
        /// `host` and `layer` must come from the loader.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn cudnnLayerBegin(
            host: *const $crate::abi::Host,
            layer: *mut $crate::abi::Layer,
        ) -> ::std::ffi::c_int {
            // SAFETY: guaranteed by the caller.
            unsafe { $crate::begin::<$layer>(host, layer) }
        }
    };
}
