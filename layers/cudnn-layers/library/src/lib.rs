//! `libcudnn_layers.so` or `cudnn_layers.dll`: a shared library with all layers. The loader finds it beside the
//! drop-in, and asks it for a layer by name. It knows the names of the layers, and nothing of what they do.

use std::ffi::{CStr, c_int};

use cudnn_layer_api::{abi, begin};
use cudnn_layers::plans::Plans;
use cudnn_layers::trace::Trace;

/// States that this library has the layer: the loader and `cudnn-doctor layers` look for it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a name for other languages")]
pub static cudnn_layer_trace: u8 = 1;

/// As above.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a name for other languages")]
pub static cudnn_layer_plans: u8 = 1;

/// Turns the layer on that the host names: see `cudnn_layer.h`. Refuses names that it does not know.
///
/// # Safety
/// `host` and `layer` are the loader's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnLayerBegin(host: *const abi::Host, layer: *mut abi::Layer) -> c_int {
    // SAFETY: the caller's obligation.
    let Some(known) = (unsafe { host.as_ref() }) else { return 1 };
    // SAFETY: the loader's string.
    let name = unsafe { CStr::from_ptr(known.name) };
    match name.to_bytes() {
        // SAFETY: the caller's obligation, passed on.
        b"plans" => unsafe { begin::<Plans>(host, layer) },
        // SAFETY: as above.
        b"trace" => unsafe { begin::<Trace>(host, layer) },
        _ => 2,
    }
}
