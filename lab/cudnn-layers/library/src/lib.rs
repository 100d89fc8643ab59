//! Builds `libcudnn_layers.so` or `cudnn_layers.dll`, a shared library with all layers.
//!
//! The loader finds the library next to the drop-in and requests layers by name.

use std::ffi::{CStr, c_char, c_int};

use cudnn_layer_api::{abi, begin, check};
use cudnn_layers::capture::Capture;
use cudnn_layers::errata::Errata;
use cudnn_layers::explain::Explain;
use cudnn_layers::plans::Plans;
use cudnn_layers::trace::Trace;
use cudnn_layers::tuned::Tuned;
use cudnn_layers::validate::Validate;

macro_rules! layers {
    ($($name:literal $mark:ident $layer:ty;)*) => {
        $(
            /// Marks that this library contains the layer, for the loader and `cudnn-doctor layers`.
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals, reason = "an exported symbol")]
            pub static $mark: u8 = 1;
        )*

        /// Starts the layer with the requested name: see `cudnn_layer.h`. Rejects unknown names.
        ///
        /// # Safety
        /// `host` and `layer` come from the loader.
        #[expect(clippy::disallowed_methods, reason = "these are values of the loader")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn cudnnLayerBegin(host: *const abi::Host, layer: *mut abi::Layer) -> c_int {
            // SAFETY: guaranteed by the caller.
            let Some(known) = (unsafe { host.as_ref() }) else { return 1 };
            // SAFETY: the loader passes a C string.
            match unsafe { CStr::from_ptr(known.name) }.to_bytes() {
                // SAFETY: guaranteed by the caller.
                $($name => unsafe { begin::<$layer>(host, layer) },)*
                _ => 2,
            }
        }

        /// Checks the variables of the layer with this name: see `cudnn_layer.h`.
        ///
        /// # Safety
        /// `name` is a C string.
        #[expect(clippy::disallowed_methods, reason = "this is a value of the caller")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn cudnnLayerCheck(name: *const c_char) -> *const c_char {
            // SAFETY: guaranteed by the caller.
            match unsafe { CStr::from_ptr(name) }.to_bytes() {
                $($name => check::<$layer>(),)*
                _ => std::ptr::null(),
            }
        }
    };
}
layers! {
    b"capture" cudnn_layer_capture Capture;
    b"errata" cudnn_layer_errata Errata;
    b"explain" cudnn_layer_explain Explain;
    b"plans" cudnn_layer_plans Plans;
    b"trace" cudnn_layer_trace Trace;
    b"tuned" cudnn_layer_tuned Tuned;
    b"validate" cudnn_layer_validate Validate;
}
