//! Tests that `check!` accepts a function by any path, and takes the message from the same API.
#![allow(non_snake_case, clippy::unwrap_used, reason = "functions with cuDNN's names, in a test")]

use cudnn_sys::{Error, check, cudnnStatus_t};

/// An API with the layout of `cudnn-sys` and `cudnn-loader`, without an implementation.
mod api {
    use std::ffi::{c_char, c_int};

    use cudnn_sys::cudnnStatus_t;

    pub(crate) use graph::*;
    pub(crate) use ops::*;

    pub(crate) mod graph {
        use super::*;

        pub(crate) unsafe extern "C" fn cudnnDestroy(status: c_int) -> cudnnStatus_t {
            cudnnStatus_t(status.cast_unsigned())
        }

        pub(crate) unsafe extern "C" fn cudnnGetLastErrorString(text: *mut c_char, size: usize) {
            let message = c"the reason";
            assert!(size > message.count_bytes());
            // SAFETY: the buffer has `size` bytes, which is enough.
            unsafe { text.copy_from_nonoverlapping(message.as_ptr(), message.count_bytes() + 1) };
        }
    }

    pub(crate) mod ops {
        use super::*;

        pub(crate) unsafe extern "C" fn cudnnAddTensor(_: c_int, status: c_int) -> cudnnStatus_t {
            cudnnStatus_t(status.cast_unsigned())
        }
    }
}

mod deeper {
    pub(crate) use super::api;
}

fn failed(result: Result<(), Error>, function: &str) {
    let error = result.unwrap_err();
    assert_eq!((error.function, error.text.as_str()), (function, "the reason"));
    assert_eq!(error.status, cudnnStatus_t::CUDNN_STATUS_BAD_PARAM);
    assert_eq!(error.to_string(), format!("{function} returned CUDNN_STATUS_BAD_PARAM (2000): the reason"));
}

#[test]
fn a_function_may_be_named_by_any_path() {
    use api::{cudnnDestroy, cudnnGetLastErrorString};
    // SAFETY: the functions have no preconditions.
    unsafe {
        assert_eq!(check!(api::cudnnDestroy(0)), Ok(()));
        failed(check!(api::cudnnDestroy(2000)), "cudnnDestroy");
        failed(check!(api::graph::cudnnDestroy(2000)), "cudnnDestroy");
        failed(check!(api::ops::cudnnAddTensor(1, 2000,)), "cudnnAddTensor");
        failed(check!(crate::deeper::api::cudnnAddTensor(1, 1000 + 1000)), "cudnnAddTensor");
        failed(check!(self::deeper::api::ops::cudnnAddTensor(1, 2000)), "cudnnAddTensor");
        failed(check!(cudnnDestroy(2000)), "cudnnDestroy");
    }
}
