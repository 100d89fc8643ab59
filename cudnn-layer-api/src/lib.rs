//! The interface between `cudnn-loader` and layers, which run between a program and cuDNN.
//!
//! Implement the trait [`Layer`] to write a layer in Rust. Then either export it from a shared library with
//! [`export_layer!`], or add it to a program with `cudnn_loader::layers::add`. The module [`abi`] contains the
//! structures of `cudnn_layer.h`.
//!
//! ```
//! use cudnn_layer_api::{Host, Layer, NextFunction};
//!
//! /// Logs the functions that the program uses.
//! struct Names(Host);
//!
//! impl Layer for Names {
//!     fn begin(host: Host) -> Result<Self, String> {
//!         Ok(Names(host))
//!     }
//!     fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
//!         self.0.info(&format!("the program uses {}", next.name().to_string_lossy()));
//!         next
//!     }
//! }
//! ```
//!
//! A layer exists until the process exits and is never dropped. To write a report at exit, register a C function with
//! `atexit` in [`Layer::begin`] and keep the data in a `static`, as the example `count.rs` of this crate does.
//!
//! The module [`wrappers`] replaces and calls cuDNN's functions with their types. It is a default feature, and the rest of
//! the crate depends on neither the loader nor cuDNN's functions.
#![allow(deprecated, reason = "programs also call deprecated functions")]

pub mod abi;
mod entry;
mod layer;
#[cfg(feature = "wrappers")]
pub mod wrappers;

#[cfg(feature = "wrappers")]
#[doc(no_inline)]
pub use cudnn_sys::types;
pub use entry::{begin, check};
pub use layer::{Event, EventKind, Host, Layer, NextFunction};

/// The name of the function that a layer library exports.
pub const ENTRY_POINT: &std::ffi::CStr = c"cudnnLayerBegin";

/// The name of the function that checks a layer's variables. It is optional.
pub const CHECK: &std::ffi::CStr = c"cudnnLayerCheck";

/// Exports a [`Layer`] from a shared library (`crate-type = ["cdylib"]`).
///
/// ```
/// # use cudnn_layer_api::NextFunction;
/// # struct Names;
/// # impl cudnn_layer_api::Layer for Names {
/// #     fn begin(_: cudnn_layer_api::Host) -> Result<Self, String> { Ok(Names) }
/// #     fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> { next }
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

        /// Checks the variables of the layer: see `cudnn_layer.h`.
        #[unsafe(no_mangle)]
        pub extern "C" fn cudnnLayerCheck(_: *const ::std::ffi::c_char) -> *const ::std::ffi::c_char {
            $crate::check::<$layer>()
        }
    };
}
