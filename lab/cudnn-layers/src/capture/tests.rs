//! Tests the layer in a child process, because a layer that has begun affects other tests.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use cudnn_layer_api::{abi, begin};
use cudnn_os::testing::check_in_child;
use cudnn_store::captures::{Capture, Record};
use cudnn_sys::types::cudnnStatus_t as Status;

use super::failure::FAILURES;
use super::{Capture as Layer, VARIABLE};

unsafe extern "C" fn no_function(_: *const abi::Host, _: *const c_char) -> *mut c_void {
    null_mut()
}

unsafe extern "C" fn no_message(_: *const abi::Host, _: c_int, _: *const c_char) {}

unsafe extern "C" fn no_missed_call(_: *const abi::Host) -> u64 {
    0
}

/// The wrapped functions have up to four pointers as arguments.
type Function = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void) -> Status;

unsafe extern "C-unwind" fn refuse(_: *mut c_void, _: *mut c_void, _: *mut c_void, _: *mut c_void) -> Status {
    Status::CUDNN_STATUS_BAD_PARAM
}

/// Begins the layer, and calls a function that fails.
fn failing(name: &CStr) -> impl Fn() {
    let host = abi::Host {
        size: size_of::<abi::Host>(),
        abi: abi::ABI,
        cudnn_version: 91_900,
        cudnn_dir: c"".as_ptr(),
        name: c"capture".as_ptr(),
        loader: null_mut(),
        next: no_function,
        message: no_message,
        missed_calls: no_missed_call,
        inside: c"".as_ptr(),
        environment: null(),
        cudart_version: 0,
    };
    let mut layer = abi::Layer { size: size_of::<abi::Layer>(), data: null_mut(), wrap: None, event: None };
    // SAFETY: the host is valid until the process exits.
    assert_eq!(unsafe { begin::<Layer>(Box::leak(Box::new(host)), &raw mut layer) }, 0);
    // SAFETY: the layer has begun, and the function ignores its arguments.
    let wrapped = unsafe { layer.wrap.unwrap()(layer.data, name.as_ptr(), refuse as Function as *mut c_void) };
    move || {
        // SAFETY: the layer returns a function that reads at most four arguments.
        let function = unsafe { std::mem::transmute::<*mut c_void, Function>(wrapped) };
        // SAFETY: the function accepts all arguments.
        let status = unsafe { function(null_mut(), null_mut(), null_mut(), null_mut()) };
        assert_eq!(status, Status::CUDNN_STATUS_BAD_PARAM);
    }
}

/// Runs a test again in a child process with the layer. Returns the captures.
fn capture(test: &str, dir: &Path) -> Vec<Capture> {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let test = format!("capture::tests::{test}");
    assert!(child.args(["--exact", &test]).env(VARIABLE, dir.join("capture")).status().unwrap().success());
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| Capture::read(file).unwrap()).collect()
}

#[test]
fn a_failure_without_the_lock_is_not_one_beyond_the_limit() {
    if std::env::var_os(VARIABLE).is_some() {
        let finalize = failing(c"cudnnBackendFinalize");
        // This thread gives up at once, because it holds the lock itself.
        FAILURES.lock().hold();
        finalize();
        FAILURES.lock().release();
        return finalize();
    }
    let dir = tempfile::tempdir().unwrap();
    let captures = capture("a_failure_without_the_lock_is_not_one_beyond_the_limit", dir.path());
    let [Capture { records, .. }] = captures.as_slice() else { panic!("{captures:#?}") };
    assert!(matches!(records.as_slice(), [Record::Start(_), Record::Failure(_)]), "{records:?}");
}

#[cfg(all(test, unix))]
const CALLS_OF_CHILDREN: &[(&str, u64)] = &[("cudnnScaleTensor", 1)];
/// Windows has no `fork`.
#[cfg(all(test, windows))]
const CALLS_OF_CHILDREN: &[(&str, u64)] = &[];

#[test]
fn calls_are_counted_and_a_forked_child_counts_its_own() {
    if std::env::var_os(VARIABLE).is_some() {
        let scale = failing(c"cudnnScaleTensor");
        (0..1000).for_each(|_| scale());
        let call = || {
            scale();
            true
        };
        // SAFETY: the child only calls the function.
        assert_ne!(unsafe { check_in_child(call) }, Some(false));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let captures = capture("calls_are_counted_and_a_forked_child_counts_its_own", dir.path());
    let calls: Vec<_> = captures.iter().flat_map(Capture::calls).collect();
    let [(_, 1000), children @ ..] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(children, CALLS_OF_CHILDREN);
    assert!(captures.iter().all(|capture| capture.records.len() < 15), "{captures:#?}");
}
