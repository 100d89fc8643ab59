//! The functions of cuDNN that this crate answers itself. To add one, write it in a file here and name it in
//! [`builtin`].

pub(crate) mod c_buffer;
mod callback;
mod cudnn_reason;
mod device;
pub(crate) mod error_strings;

use crate::function::Function;

/// The address of this crate's implementation of a function, if it has one.
pub(crate) fn builtin(function: Function) -> Option<Builtin> {
    match function {
        Function::CudnnGetErrorString => {
            Some(Builtin { address: error_strings::get_error_string as *const () as *mut (), needs_cudnn: false })
        }
        Function::CudnnGetLastErrorString => {
            Some(Builtin { address: error_strings::get_last_error_string as *const () as *mut (), needs_cudnn: false })
        }
        Function::CudnnSetCallback => {
            Some(Builtin { address: callback::set_callback as *const () as *mut (), needs_cudnn: true })
        }
        Function::CudnnGetCallback => {
            Some(Builtin { address: callback::get_callback as *const () as *mut (), needs_cudnn: true })
        }
        _ => None,
    }
}

/// This crate's implementation of a function.
#[derive(Clone, Copy)]
pub(crate) struct Builtin {
    pub(crate) address: *mut (),
    /// Whether [`Function::resolve`] reports the function as available only if cuDNN can be loaded.
    pub(crate) needs_cudnn: bool,
}
