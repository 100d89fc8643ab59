//! `cudnnSetCallback`, in place of cuDNN's own: so who sets a callback gets this crate's entries too, and gets them also when cuDNN
//! cannot be loaded.

use std::ffi::{c_uint, c_void};

use crate::guarded::ffi_guard;
use crate::log::Callback;
use crate::{Function, cudnnCallback_t, cudnnStatus_t, loading, log};

/// The function that this crate answers itself.
pub(crate) fn builtin(function: Function) -> Option<*mut ()> {
    (function == Function::CudnnSetCallback).then_some(set_callback as *const () as *mut ())
}

/// # Safety
/// As cuDNN's own: the function takes what cuDNN gives, with this data, in any thread.
unsafe extern "C-unwind" fn set_callback(mask: c_uint, data: *mut c_void, function: cudnnCallback_t) -> cudnnStatus_t {
    log::set(Callback::new(mask, data, function));
    let name = || Function::CudnnSetCallback.to_string();
    match ffi_guard(&|| loading::address(Function::CudnnSetCallback), &name) {
        Ok(_) => log::tell(),
        // Kept, and told why by now; cuDNN learns of it if it is ever loaded.
        Err(_) => cudnnStatus_t::CUDNN_STATUS_SUCCESS,
    }
}
