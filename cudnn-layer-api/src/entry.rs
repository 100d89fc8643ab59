//! The C functions of a layer that is written in Rust: they call its [`Layer`] and contain its panics.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi;
use crate::layer::{Event, Host, Layer};

/// [`abi::Begin`] for a layer in Rust. Contains its panics: a layer that panics while it begins stays off.
///
/// # Safety
/// `host` is valid until the process ends, and `layer` for this call.
pub unsafe extern "C" fn begin<L: Layer>(host: *const abi::Host, layer: *mut abi::Layer) -> c_int {
    // SAFETY: the caller's obligation.
    let (Some(host), Some(layer)) = (unsafe { host.as_ref() }, unsafe { layer.as_mut() }) else { return 1 };
    // A loader of an older interface lacks what this one relies on.
    if host.abi < abi::ABI || host.size < size_of::<abi::Host>() || layer.size < size_of::<abi::Layer>() {
        return 1;
    }
    let host = Host::new(host);
    match catch_unwind(AssertUnwindSafe(|| L::begin(host))) {
        Ok(Ok(begun)) => {
            layer.data = Box::into_raw(Box::new(begun)).cast();
            layer.wrap = Some(wrap::<L>);
            layer.event = Some(event::<L>);
            0
        }
        Ok(Err(reason)) => {
            host.error(&reason);
            1
        }
        Err(payload) => {
            // The destructor of a panic's payload may panic too.
            std::mem::forget(payload);
            host.error("it panicked while it began");
            1
        }
    }
}

/// # Safety
/// `data` is from [`begin`] of the same `L`, `function` a C string, `next` its address.
unsafe extern "C" fn wrap<L: Layer>(data: *mut c_void, function: *const c_char, next: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's obligation: a leaked box.
    let Some(layer) = (unsafe { data.cast::<L>().as_ref() }) else { return next };
    // SAFETY: the caller's obligation.
    let function = unsafe { CStr::from_ptr(function) };
    catch_unwind(AssertUnwindSafe(|| layer.wrap(function, next))).map_or_else(
        |payload| {
            std::mem::forget(payload);
            next
        },
        <*const c_void>::cast_mut,
    )
}

/// # Safety
/// `data` is from [`begin`] of the same `L`, `event` an event of a loader whose interface is this one or newer.
unsafe extern "C" fn event<L: Layer>(data: *mut c_void, event: *const abi::Event) {
    // SAFETY: the caller's obligation.
    let (Some(layer), Some(event)) = (unsafe { data.cast::<L>().as_ref() }, unsafe { event.as_ref() }) else { return };
    if let Some(event) = Event::new(event) {
        std::mem::forget(catch_unwind(AssertUnwindSafe(|| layer.event(&event))));
    }
}
