//! Checks the crates' interfaces from a Rust program: glob imports, the error that `main` returns, unsafe functions.

use cudnn_loader::Options;

/// Names of other crates that programs import together with cuDNN's.
mod other_crates {
    pub(crate) mod log {
        pub(crate) fn info() {}
    }
    pub(crate) mod tracing {
        pub(crate) fn info() {}
    }
}

/// Both globs have equal rank, so a name in both of them is an error where it is used.
mod with_globs {
    use cudnn_loader::*;

    use super::other_crates::*;

    pub(super) fn use_both() -> Options {
        log::info();
        tracing::info();
        Options::new()
    }
}

mod with_cudnns_names_alone {
    use cudnn_loader::api::*;

    pub(crate) struct Error;
    pub(crate) struct Function;
    pub(crate) struct Options;

    pub(super) fn call() -> (usize, cudnnStatus_t, Option<cudnnHandle_t>) {
        let _ = (Error, Function, Options);
        // SAFETY: the call passes no pointers.
        (unsafe { cudnnGetVersion() }, cudnnStatus_t::CUDNN_STATUS_SUCCESS, None)
    }

    pub(super) mod of_cudnn_sys {
        use cudnn_sys::api::*;

        pub(crate) fn status() -> cudnnStatus_t {
            cudnnStatus_t::CUDNN_STATUS_SUCCESS
        }
    }
}

#[test]
fn glob_imports_do_not_shadow_names_of_other_crates() {
    let _ = with_globs::use_both();
    let _: fn() -> _ = with_cudnns_names_alone::call;
    assert!(with_cudnns_names_alone::of_cudnn_sys::status().is_success());
}

#[test]
fn an_error_returned_by_main_is_printed_as_the_report() {
    let error = Options::new().path("/nowhere").load().unwrap_err();
    let printed = format!("{error:?}");
    assert_eq!(printed, error.report());
    assert!(printed.starts_with("libcudnn_graph.so.9 cannot be loaded: "), "{printed}");
    assert!(printed.contains("\nhelp: ") && !printed.contains("function: None"), "{printed}");
}

/// `Error::check` calls a function that the caller passes.
#[test]
#[deny(unused_unsafe, reason = "an unneeded block shows that the function has become safe")]
fn functions_that_can_cause_undefined_behavior_are_unsafe() {
    unsafe extern "C" fn write_nothing(_: *mut std::ffi::c_char, _: usize) {}
    let status = cudnn_sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS;
    // SAFETY: the function leaves the buffer unchanged.
    let checked = unsafe { cudnn_sys::Error::check(status, "cudnnCreate", write_nothing) };
    assert!(checked.is_ok());
}
