//! The crates' interfaces as a program in Rust meets them: glob imports, the error that `main` returns, what is unsafe.

use cudnn_loader::Options;

/// The names of other crates that programs import beside cuDNN's.
mod other_crates {
    pub(crate) mod log {
        pub(crate) fn info() {}
    }
    pub(crate) mod tracing {
        pub(crate) fn info() {}
    }
}

/// Both globs have equal rank: a name that both have is an error where it is used.
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

    // Names that programs have themselves.
    pub(crate) struct Error;
    pub(crate) struct Function;
    pub(crate) struct Options;

    pub(super) fn call() -> (usize, cudnnStatus_t, Option<cudnnHandle_t>) {
        let _ = (Error, Function, Options);
        // SAFETY: the function has no parameters.
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
fn a_glob_import_leaves_the_names_of_other_crates_alone() {
    let _ = with_globs::use_both();
    let _: fn() -> _ = with_cudnns_names_alone::call;
    assert!(with_cudnns_names_alone::of_cudnn_sys::status().is_success());
}

#[test]
fn the_error_that_main_returns_is_printed_as_the_report() {
    let error = Options::new().path("/nowhere").load().unwrap_err();
    // What Rust prints when `main` returns it: `Error: `, and this.
    let printed = format!("{error:?}");
    assert_eq!(printed, error.report());
    assert!(printed.starts_with("libcudnn_graph.so.9 cannot be loaded: "), "{printed}");
    assert!(printed.contains("\nhelp: ") && !printed.contains("function: None"), "{printed}");
}

/// cuDNN corrupts memory on some descriptions, and `Error::check` calls a function that the caller passes.
#[test]
#[deny(unused_unsafe, reason = "a block that is not needed shows that the function has become safe")]
fn what_reaches_undefined_behaviour_is_unsafe() {
    use cudnn_loader::preload::Preload;
    // SAFETY: the preload is not started.
    let _ = unsafe { Preload::new().device_description("{}") };
    unsafe extern "C" fn write_nothing(_: *mut std::ffi::c_char, _: usize) {}
    let status = cudnn_sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS;
    // SAFETY: the function writes nothing.
    let checked = unsafe { cudnn_sys::Error::check(status, "cudnnCreate", write_nothing) };
    assert!(checked.is_ok());
}
