//! Contains the cuDNN functions that this crate implements itself. To add a function, write it in a file of this module
//! and list it in [`builtin`].

mod callback;

use cudnn_sys::signatures::unwinding;

use crate::error_strings;
use crate::function::Function;

/// Returns the address of this crate's implementation of a function, if there is one.
pub(crate) fn builtin(function: Function) -> Option<Builtin> {
    // These constants fail to compile if an implementation's signature differs from cuDNN's.
    const GET_ERROR_STRING: unwinding::cudnnGetErrorString = error_strings::get_error_string;
    const GET_LAST_ERROR_STRING: unwinding::cudnnGetLastErrorString = error_strings::get_last_error_string;
    const SET_CALLBACK: unwinding::cudnnSetCallback = callback::set_callback;
    const GET_CALLBACK: unwinding::cudnnGetCallback = callback::get_callback;
    let (address, needs_cudnn) = match function {
        Function::CudnnGetErrorString => (GET_ERROR_STRING as *mut (), false),
        Function::CudnnGetLastErrorString => (GET_LAST_ERROR_STRING as *mut (), false),
        Function::CudnnSetCallback => (SET_CALLBACK as *mut (), true),
        Function::CudnnGetCallback => (GET_CALLBACK as *mut (), true),
        _ => return None,
    };
    Some(Builtin { address, needs_cudnn })
}

/// This crate's implementation of a function.
#[derive(Clone, Copy)]
pub(crate) struct Builtin {
    pub(crate) address: *mut (),
    /// Whether [`Function::resolve`] reports the function as available only if cuDNN can be loaded.
    pub(crate) needs_cudnn: bool,
}
