//! The C entry points of a layer written in Rust, which call the [`Layer`] and catch panics.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi;
use crate::layer::{Event, Host, Layer, NextFunction};

/// Implements [`abi::Begin`] for a layer in Rust. If the layer panics, it stays off.
///
/// # Safety
/// `host` must be valid until the process exits, and `layer` for the duration of the call.
pub unsafe extern "C" fn begin<L: Layer>(host: *const abi::Host, layer: *mut abi::Layer) -> c_int {
    // SAFETY: the pointer is null or the loader's host, guaranteed by the caller.
    let Some(host) = (unsafe { Host::new(host) }) else { return 1 };
    // SAFETY: as above. Every version of the structure starts with its size.
    if layer.is_null() || unsafe { (*layer).size } < abi::Layer::MIN_SIZE {
        return 1;
    }
    match catch_unwind(AssertUnwindSafe(|| L::begin(host))) {
        Ok(Ok(begun)) => {
            // SAFETY: the structure contains these fields.
            unsafe {
                (*layer).data = Box::into_raw(Box::new(begun)).cast();
                (*layer).wrap = Some(wrap::<L>);
                (*layer).event = Some(event::<L>);
            }
            0
        }
        Ok(Err(reason)) => {
            host.error(&reason);
            1
        }
        Err(payload) => {
            // Leak the payload, because dropping it could panic again.
            std::mem::forget(payload);
            host.error("the layer panicked while it started");
            1
        }
    }
}

/// Implements [`abi::Check`] for a layer in Rust.
#[must_use]
pub fn check<L: Layer>() -> *const c_char {
    let reason = match catch_unwind(L::check) {
        Ok(Ok(())) => return std::ptr::null(),
        Ok(Err(reason)) => reason.replace('\0', ""),
        Err(payload) => {
            std::mem::forget(payload);
            "the layer panicked".to_owned()
        }
    };
    CString::new(reason).unwrap_or_default().into_raw()
}

/// # Safety
/// `data` comes from [`begin`] with the same `L`, `function` is a C string, and `next` is the function's address.
unsafe extern "C" fn wrap<L: Layer>(data: *mut c_void, function: *const c_char, next: *mut c_void) -> *mut c_void {
    // SAFETY: guaranteed by the caller; `data` is a leaked box.
    let Some(layer) = (unsafe { data.cast::<L>().as_ref() }) else { return next };
    // SAFETY: guaranteed by the caller.
    let function = NextFunction::new(unsafe { CStr::from_ptr(function) }, next);
    catch_unwind(AssertUnwindSafe(|| layer.wrap(function))).map_or_else(
        |payload| {
            std::mem::forget(payload);
            next
        },
        |chosen| chosen.address().cast_mut(),
    )
}

/// # Safety
/// `data` comes from [`begin`] with the same `L`, and `event` from a loader.
unsafe extern "C" fn event<L: Layer>(data: *mut c_void, event: *const abi::Event) {
    // SAFETY: guaranteed by the caller.
    let (Some(layer), Some(event)) = (unsafe { data.cast::<L>().as_ref() }, unsafe { Event::new(event) }) else {
        return;
    };
    std::mem::forget(catch_unwind(AssertUnwindSafe(|| layer.event(&event))));
}
