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

/// Marks that this library contains the layer. The loader and `cudnn-doctor layers` look for this symbol.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "an exported symbol")]
pub static cudnn_layer_trace: u8 = 1;

/// Marks that this library contains the layer, like [`cudnn_layer_trace`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "an exported symbol")]
pub static cudnn_layer_plans: u8 = 1;

/// Marks that this library contains the layer, like [`cudnn_layer_trace`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "an exported symbol")]
pub static cudnn_layer_errata: u8 = 1;

/// Marks that this library contains the layer, like [`cudnn_layer_trace`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "an exported symbol")]
pub static cudnn_layer_explain: u8 = 1;

/// Marks that this library contains the layer, like [`cudnn_layer_trace`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "an exported symbol")]
pub static cudnn_layer_validate: u8 = 1;

/// Marks that this library contains the layer, like [`cudnn_layer_trace`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "an exported symbol")]
pub static cudnn_layer_capture: u8 = 1;

/// Marks that this library contains the layer, like [`cudnn_layer_trace`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "an exported symbol")]
pub static cudnn_layer_tuned: u8 = 1;

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
    let name = unsafe { CStr::from_ptr(known.name) };
    match name.to_bytes() {
        // SAFETY: guaranteed by the caller.
        b"capture" => unsafe { begin::<Capture>(host, layer) },
        // SAFETY: guaranteed by the caller.
        b"errata" => unsafe { begin::<Errata>(host, layer) },
        // SAFETY: guaranteed by the caller.
        b"explain" => unsafe { begin::<Explain>(host, layer) },
        // SAFETY: guaranteed by the caller.
        b"plans" => unsafe { begin::<Plans>(host, layer) },
        // SAFETY: guaranteed by the caller.
        b"trace" => unsafe { begin::<Trace>(host, layer) },
        // SAFETY: guaranteed by the caller.
        b"tuned" => unsafe { begin::<Tuned>(host, layer) },
        // SAFETY: guaranteed by the caller.
        b"validate" => unsafe { begin::<Validate>(host, layer) },
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
        b"capture" => check::<Capture>(),
        b"errata" => check::<Errata>(),
        b"explain" => check::<Explain>(),
        b"plans" => check::<Plans>(),
        b"trace" => check::<Trace>(),
        b"tuned" => check::<Tuned>(),
        b"validate" => check::<Validate>(),
        _ => std::ptr::null(),
    }
}
