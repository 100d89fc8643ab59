//! Provides preloading to C programs (`dist/cudnn_shim.h`) and, through an environment variable, to unmodified
//! programs.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_loader::__private::{lock, write_text};
use cudnn_loader::Library;
use cudnn_loader::preload::{Devices, Preload, PreloadError, PreloadHandle, PreloadReport, is_nested};
use cudnn_os::{at_load, versioned};

use crate::c_abi::catch_panic;

/// Starts a preload in a background thread when the drop-in is loaded. The value is a comma-separated list of `files`,
/// `libraries`, `contexts` (of the first device) and `engines`. Only `files` is safe in every program. The variable is
/// ignored if the drop-in comes from LD_PRELOAD and the program is not linked to cuDNN.
pub const VARIABLE: &str = "CUDNN_LOADER_PRELOAD";

/// The flag of each sub-library in `cudnn_shim.h`.
const SUB_LIBRARIES: [(c_uint, Library); 5] =
    [(1, Library::Graph), (2, Library::Ops), (4, Library::Cnn), (8, Library::Adv), (16, Library::Ext)];
const LIBRARIES: c_uint = 31;
const CONTEXTS: c_uint = 32;
const ENGINES: c_uint = 64;
/// Always on.
const FILES: c_uint = 128;
/// `CUDNN_STATUS_INTERNAL_ERROR`.
const INTERNAL_ERROR: c_int = 4000;

/// A program that starts more preloads at the same time is in a loop.
const MAX_RUNNING: usize = 16;
/// Preloads that the program has started in the background.
static STARTED: Mutex<Vec<PreloadHandle>> = Mutex::new(Vec::new());
/// The preload of [`VARIABLE`].
static OF_VARIABLE: Mutex<Vec<PreloadHandle>> = Mutex::new(Vec::new());
/// Whether the program preloads itself. It then gets status and report only of its own preloads.
static PRELOADS_ITSELF: AtomicBool = AtomicBool::new(false);
/// Status and report that the last call of a C function has returned.
static LAST: Mutex<(c_int, String)> = Mutex::new((0, String::new()));

/// Preloads and waits until the preload has finished. A call by a preload, for example in a log callback, has no effect.
///
/// # Safety
/// `devices` points to `device_count` numbers, or `device_count` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimPreload(flags: c_uint, devices: *const c_int, device_count: c_int) -> c_int {
    // SAFETY: the caller's obligation, passed on.
    let devices = unsafe { numbers(devices, device_count) };
    catch_panic(|| {
        if is_nested() {
            return 0;
        }
        PRELOADS_ITSELF.store(true, Ordering::Relaxed);
        finish(preload(flags, devices).run())
    })
    .unwrap_or(INTERNAL_ERROR)
}
versioned!(cudnnShimPreload @@ "libcudnn_shim_1");

/// Starts a preload in a background thread.
///
/// # Safety
/// See [`cudnnShimPreload`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimPreloadStart(flags: c_uint, devices: *const c_int, device_count: c_int) -> c_int {
    // SAFETY: the caller's obligation, passed on.
    let devices = unsafe { numbers(devices, device_count) };
    catch_panic(|| {
        if !is_nested() {
            PRELOADS_ITSELF.store(true, Ordering::Relaxed);
            start(&STARTED, preload(flags, devices));
        }
    })
    .map_or(INTERNAL_ERROR, |()| 0)
}
versioned!(cudnnShimPreloadStart @@ "libcudnn_shim_1");

/// Waits for the preloads that were started, and returns their first failure.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnShimPreloadWait() -> c_int {
    catch_panic(|| {
        let of_variable = join(&OF_VARIABLE)?.filter(|_| !PRELOADS_ITSELF.load(Ordering::Relaxed));
        let awaited = join(&STARTED)?.or(of_variable);
        awaited.map(finish).or_else(|| lock(&LAST).map(|last| last.0))
    })
    .flatten()
    .unwrap_or(INTERNAL_ERROR)
}
versioned!(cudnnShimPreloadWait @@ "libcudnn_shim_1");

/// Writes the steps of the preload whose status was returned last to `buffer`.
///
/// # Safety
/// `buffer` is null or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetPreloadReport(buffer: *mut c_char, size: usize) -> usize {
    let last = lock(&LAST).map(|last| last.1.clone()).unwrap_or_default();
    // SAFETY: the caller's obligation, passed on.
    unsafe { write_text(&last, buffer, size) }
}
versioned!(cudnnShimGetPreloadReport @@ "libcudnn_shim_1");

/// # Safety
/// See [`cudnnShimPreload`].
unsafe fn numbers(devices: *const c_int, device_count: c_int) -> Vec<c_int> {
    match usize::try_from(device_count) {
        // SAFETY: the caller guarantees that `devices` points to `count` numbers.
        Ok(count) if count > 0 && !devices.is_null() => unsafe { std::slice::from_raw_parts(devices, count) }.to_vec(),
        _ => Vec::new(),
    }
}

/// `devices` is empty for the current device.
fn preload(flags: c_uint, devices: Vec<c_int>) -> Preload {
    let devices = match flags & CONTEXTS {
        0 => Devices::List(Vec::new()),
        _ if devices.is_empty() => Devices::Current,
        _ => Devices::List(devices),
    };
    let libraries = SUB_LIBRARIES.into_iter().filter(|(flag, _)| flags & flag != 0);
    let libraries: Vec<Library> = libraries.map(|(_, library)| library).collect();
    Preload::new().libraries(&libraries).devices(devices).engines(flags & ENGINES != 0)
}

/// Stores the report and returns the status.
fn finish(result: Result<PreloadReport, PreloadError>) -> c_int {
    let (status, report) = match result {
        Ok(report) => (0, report),
        Err(error) => (c_int::try_from(error.failed.outcome.status().0).unwrap_or(INTERNAL_ERROR), error.report),
    };
    if let Some(mut last) = lock(&LAST) {
        *last = (status, report.to_string());
    }
    status
}

/// Waits for these preloads and removes them. Returns the first failure or else the last result. The outer `Option` is
/// `None` if another thread holds the lock for too long.
fn join(started: &Mutex<Vec<PreloadHandle>>) -> Option<Option<Result<PreloadReport, PreloadError>>> {
    lock(started)?.retain(|handle| !handle.is_inherited());
    let handles = if is_nested() { Vec::new() } else { lock(started)?.clone() };
    let mut awaited = None;
    for handle in handles {
        let result = handle.join();
        // Otherwise a constructor has called this and cannot wait.
        if handle.is_finished() {
            lock(started)?.retain(|other| *other != handle);
            awaited = awaited.filter(Result::is_err).or(Some(result));
        }
    }
    Some(awaited)
}

/// Starts a preload in a background thread.
fn start(started: &Mutex<Vec<PreloadHandle>>, preload: Preload) {
    let is_full = lock(started).is_none_or(|mut started| {
        if started.len() >= MAX_RUNNING {
            forget_finished(&mut started);
        }
        started.len() >= MAX_RUNNING
    });
    let handle = (!is_full).then(|| preload.start());
    if let Some(mut started) = lock(started) {
        started.extend(handle);
    }
}

/// Removes finished preloads of a program that does not wait for them, except the first failed one.
fn forget_finished(started: &mut Vec<PreloadHandle>) {
    let mut has_failed = false;
    started.retain(|handle| {
        if !handle.is_finished() {
            return true;
        }
        let is_first_failure = !has_failed && handle.join().is_err();
        has_failed |= is_first_failure;
        is_first_failure
    });
}

at_load!(INIT_ENTRY: preload_from_env);

extern "C" fn preload_from_env() {
    let _ = catch_panic(|| {
        let Some(value) = std::env::var_os(VARIABLE).filter(|_| !cudnn_os::environment::is_secure_execution()) else {
            return;
        };
        // There is no word for all steps, because their safety depends on how the program exits and forks.
        let flag = |word: &str| match word.trim() {
            "files" => FILES,
            "libraries" => LIBRARIES,
            "contexts" => CONTEXTS,
            "engines" => ENGINES | 1,
            // Unknown words are ignored.
            _ => 0,
        };
        let flags = value.to_string_lossy().split(',').fold(0, |flags, word| flags | flag(word));
        if flags != 0 && !is_nested() && cudnn_loader::__private::process_needs_shim() {
            // The new thread waits until ld.so has finished loading the drop-in.
            start(&OF_VARIABLE, preload(flags, vec![0]));
        }
    });
}
