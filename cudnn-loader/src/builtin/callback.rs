//! Implements `cudnnSetCallback` and `cudnnGetCallback`.
//!
//! A program's callback also receives the loader's log entries, even without a usable cuDNN. `cudnnGetCallback` returns
//! the program's function, although cuDNN itself stores one of the loader's.

use std::ffi::{c_uint, c_void};

use cudnn_sys::signatures::unwinding;
use cudnn_sys::types::{cudnnCallback_t, cudnnStatus_t};

use crate::function::Function;
use crate::guard::ffi_guard;
use crate::logging::callback::{self, Callback};
use crate::resolve::functions::address;

/// # Safety
/// As for cuDNN's `cudnnSetCallback`: `callback` accepts cuDNN's arguments and `data`, in any thread.
pub(super) unsafe extern "C-unwind" fn set_callback(
    mask: c_uint,
    data: *mut c_void,
    function: cudnnCallback_t,
) -> cudnnStatus_t {
    callback::set(Callback::new(mask, data, function));
    let name = || Function::CudnnSetCallback.to_string();
    match ffi_guard(&|objects| address(Function::CudnnSetCallback, objects), &name) {
        Ok(_) => callback::install(),
        // The callback is stored and has received the reason. cuDNN gets it later, if it is ever loaded.
        Err(_) => cudnnStatus_t::CUDNN_STATUS_SUCCESS,
    }
}

/// # Safety
/// As for cuDNN's `cudnnGetCallback`: each pointer is null or has room for its value.
pub(super) unsafe extern "C-unwind" fn get_callback(
    mask: *mut c_uint,
    data: *mut *mut c_void,
    function: *mut cudnnCallback_t,
) -> cudnnStatus_t {
    let name = || Function::CudnnGetCallback.to_string();
    let address = match ffi_guard(&|objects| address(Function::CudnnGetCallback, objects), &name) {
        Ok(address) => address,
        Err(status) => return status.into(),
    };
    // SAFETY: the address belongs to cuDNN's function of this name.
    let get_callback = unsafe { std::mem::transmute::<*mut (), unwinding::cudnnGetCallback>(address) };
    // SAFETY: the caller's obligation, passed on.
    let status = unsafe { get_callback(mask, data, function) };
    if status.is_success()
        // SAFETY: cuDNN has accepted the pointer and written to it.
        && let Some(function) = unsafe { function.as_mut() }
        && let Some((programs_mask, programs_function)) = callback::program_callback(*function)
    {
        *function = programs_function;
        // SAFETY: as above.
        if let Some(mask) = unsafe { mask.as_mut() } {
            *mask = programs_mask;
        }
    }
    status
}
