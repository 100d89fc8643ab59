//! `cudnnSetCallback`: a program that sets a callback also gets the loader's log entries, even if cuDNN cannot be
//! loaded.

use std::ffi::{c_uint, c_void};

use cudnn_sys::types::{cudnnCallback_t, cudnnStatus_t};

use crate::function::Function;
use crate::guard::ffi_guard;
use crate::logging::callback::{self, Callback};
use crate::resolve::libraries;

/// # Safety
/// The obligations of cuDNN's `cudnnSetCallback`: `callback` accepts cuDNN's arguments and `data`, in any thread.
pub(super) unsafe extern "C-unwind" fn set_callback(
    mask: c_uint,
    data: *mut c_void,
    function: cudnnCallback_t,
) -> cudnnStatus_t {
    callback::set(Callback::new(mask, data, function));
    let name = || Function::CudnnSetCallback.to_string();
    match ffi_guard(&|| libraries::address(Function::CudnnSetCallback), &name) {
        Ok(_) => callback::install(),
        // The callback is kept and has received the reason. cuDNN gets the callback if it is ever loaded.
        Err(_) => cudnnStatus_t::CUDNN_STATUS_SUCCESS,
    }
}
