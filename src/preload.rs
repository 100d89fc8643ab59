//! Provides preloading to C programs (`dist/cudnn_shim.h`) and, through an environment variable, to unmodified
//! programs.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::Mutex;

use cudnn_loader::__private::{is_nested, lock, write_text};
use cudnn_loader::Library;
use cudnn_loader::preload::{Devices, Preload, PreloadError, PreloadHandle, Report};
use cudnn_os::{at_load, versioned};

use crate::c_abi::catch_panic;

/// Starts a preload in a background thread when the drop-in is loaded. The value is a comma-separated list of `files`,
/// `libraries`, `contexts` (of the first device) and `engines`. Only `files` is safe in every program. The variable is
/// ignored if the drop-in comes from LD_PRELOAD and the program is not linked to cuDNN.
pub const VARIABLE: &str = "CUDNN_LOADER_PRELOAD";

const LIBRARIES: c_uint = 31;
const CONTEXTS: c_uint = 32;
const ENGINES: c_uint = 64;
/// Makes the kernel read the files ahead. Without libraries or engines, cuDNN is not loaded.
const FILES: c_uint = 128;
/// `CUDNN_STATUS_INTERNAL_ERROR`.
const INTERNAL_ERROR: c_int = 4000;

/// More preloads than a program would wait for. Additional ones run without a report.
const MAX_RUNNING: usize = 64;
/// Preloads that are running in the background.
static RUNNING: Mutex<Vec<PreloadHandle>> = Mutex::new(Vec::new());
/// Status and report of the preload that finished last.
static LAST: Mutex<(c_int, String)> = Mutex::new((0, String::new()));

/// Preloads and waits until the preload has finished.
///
/// # Safety
/// `devices` points to `device_count` numbers, or `device_count` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimPreload(flags: c_uint, devices: *const c_int, device_count: c_int) -> c_int {
    // SAFETY: the caller's obligation, passed on.
    let preload = unsafe { preload(flags, devices, device_count) };
    catch_panic(|| finish(preload.run())).unwrap_or(INTERNAL_ERROR)
}
versioned!(cudnnShimPreload @@ "libcudnn_shim_1");

/// Starts a preload in a background thread.
///
/// # Safety
/// See [`cudnnShimPreload`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimPreloadStart(flags: c_uint, devices: *const c_int, device_count: c_int) -> c_int {
    // SAFETY: the caller's obligation, passed on.
    let preload = unsafe { preload(flags, devices, device_count) };
    catch_panic(|| {
        start(preload);
        0
    })
    .unwrap_or(INTERNAL_ERROR)
}
versioned!(cudnnShimPreloadStart @@ "libcudnn_shim_1");

/// Waits for the preloads that were started.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnShimPreloadWait() -> c_int {
    catch_panic(|| {
        // A preload must not wait for the preload that called it. It must also leave the list intact for the program.
        if !is_nested() {
            let running = lock(&RUNNING).map(|mut running| std::mem::take(&mut *running))?;
            for preload in running {
                finish(preload.join());
            }
        }
        lock(&LAST).map(|last| last.0)
    })
    .flatten()
    .unwrap_or(INTERNAL_ERROR)
}
versioned!(cudnnShimPreloadWait @@ "libcudnn_shim_1");

/// Writes the steps of the last finished preload to `buffer`.
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
unsafe fn preload(flags: c_uint, devices: *const c_int, device_count: c_int) -> Preload {
    let numbers = match usize::try_from(device_count) {
        // SAFETY: the caller guarantees that `devices` points to `count` numbers.
        Ok(count) if count > 0 && !devices.is_null() => unsafe { std::slice::from_raw_parts(devices, count) }.to_vec(),
        _ => Vec::new(),
    };
    let devices = if flags & CONTEXTS != 0 && numbers.is_empty() {
        Devices::Current
    } else if flags & CONTEXTS != 0 {
        Devices::List(numbers)
    } else {
        Devices::List(Vec::new())
    };
    let loads_nothing = flags & (LIBRARIES | ENGINES) == 0 && flags & (FILES | CONTEXTS) != 0;
    let libraries = if loads_nothing && flags & FILES != 0 { LIBRARIES } else { flags };
    let libraries: Vec<Library> = Library::WITH_API
        .iter()
        .copied()
        .enumerate()
        .filter(|(bit, _)| libraries >> bit & 1 == 1)
        .map(|(_, library)| library)
        .collect();
    let preload = Preload::new().libraries(&libraries).devices(devices).engines(flags & ENGINES != 0);
    if loads_nothing { preload.loading_nothing() } else { preload }
}

/// Stores the report and returns the status.
fn finish(result: Result<Report, PreloadError>) -> c_int {
    let (status, text) = match result {
        Ok(report) => (0, report.to_string()),
        Err(error) => (error.failed.outcome.status().0, error.report.to_string()),
    };
    let status = c_int::try_from(status).unwrap_or(INTERNAL_ERROR);
    if let Some(mut last) = lock(&LAST) {
        *last = (status, text);
    }
    status
}

/// Starts a preload in a background thread.
fn start(preload: Preload) {
    let started = preload.start();
    // A preload that is not in the list only loses its report.
    if let Some(mut running) = lock(&RUNNING)
        && running.len() < MAX_RUNNING
    {
        running.push(started);
    }
}

at_load!(INIT_ENTRY: preload_from_env);

extern "C" fn preload_from_env() {
    let _ = catch_panic(|| {
        let Some(value) = std::env::var_os(VARIABLE).filter(|_| !cudnn_os::environment::is_secure_execution()) else {
            return;
        };
        let value = value.to_string_lossy();
        let flags = value.split(',').fold(0, |flags, word| {
            flags
                | match word.trim() {
                    // There is no shorthand for all steps, because their safety depends on how the program exits and
                    // forks.
                    "files" => FILES,
                    "libraries" => LIBRARIES,
                    "contexts" => CONTEXTS,
                    "engines" => ENGINES | 1,
                    // Unknown words are ignored.
                    _ => 0,
                }
        });
        if flags != 0 && cudnn_loader::__private::process_needs_shim() {
            // SAFETY: the list of devices is empty.
            let preload = unsafe { preload(flags, std::ptr::null(), 0) };
            // The new thread waits until ld.so has finished loading the drop-in.
            start(preload);
        }
    });
}
