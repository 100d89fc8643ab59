//! Loading ahead, from C (`dist/cudnn_shim.h`) and by an environment variable.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::{Mutex, Once, PoisonError};

use cudnn_loader::SubLibrary;
use cudnn_loader::preload::{Devices, Preload, PreloadError, PreloadHandle, Report};

use crate::beyond::{catch_panic, write};
use crate::versioned;

/// Names what to load ahead as soon as the library is loaded into a program that is linked to it, in a thread of its own:
/// `libraries`, `contexts` (that of the first device), `engines`, with commas between them, or `everything`. A program that
/// was given the library by LD_PRELOAD and needs no cuDNN is left alone.
pub const VARIABLE: &str = "CUDNN_LOADER_PRELOAD";

const CONTEXTS: c_uint = 32;
const ENGINES: c_uint = 64;
const EVERYTHING: c_uint = 127;
/// CUDNN_STATUS_INTERNAL_ERROR.
const INTERNAL_ERROR: c_int = 4000;

static STARTED: Mutex<Option<PreloadHandle>> = Mutex::new(None);
static LAST: Mutex<(c_int, String)> = Mutex::new((0, String::new()));

/// Loads ahead, and waits.
///
/// # Safety
/// `devices` points to so many numbers, or the number is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimPreload(what: c_uint, devices: *const c_int, device_count: c_int) -> c_int {
    // SAFETY: the caller's obligation, passed on.
    let what = unsafe { wanted(what, devices, device_count) };
    catch_panic(|| end(what.run())).unwrap_or(INTERNAL_ERROR)
}
versioned!(cudnnShimPreload @@ "libcudnn_shim_1");

/// Loads ahead in a thread of its own.
///
/// # Safety
/// As [`cudnnShimPreload`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimPreloadStart(what: c_uint, devices: *const c_int, device_count: c_int) -> c_int {
    // SAFETY: the caller's obligation, passed on.
    let what = unsafe { wanted(what, devices, device_count) };
    catch_panic(|| {
        start(what);
        0
    })
    .unwrap_or(INTERNAL_ERROR)
}
versioned!(cudnnShimPreloadStart @@ "libcudnn_shim_1");

/// Waits for what was started last.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnShimPreloadWait() -> c_int {
    catch_panic(|| {
        wait();
        LAST.lock().unwrap_or_else(PoisonError::into_inner).0
    })
    .unwrap_or(INTERNAL_ERROR)
}
versioned!(cudnnShimPreloadWait @@ "libcudnn_shim_1");

/// The steps of the last preload.
///
/// # Safety
/// `text` is null or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetPreloadReport(text: *mut c_char, size: usize) -> usize {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).1.clone();
    // SAFETY: the caller's obligation, passed on.
    unsafe { write(&last, text, size) }
}
versioned!(cudnnShimGetPreloadReport @@ "libcudnn_shim_1");

/// # Safety
/// As [`cudnnShimPreload`].
unsafe fn wanted(what: c_uint, devices: *const c_int, device_count: c_int) -> Preload {
    let numbers = match usize::try_from(device_count) {
        // SAFETY: the caller says that there are so many.
        Ok(count) if count > 0 && !devices.is_null() => unsafe { std::slice::from_raw_parts(devices, count) }.to_vec(),
        _ => Vec::new(),
    };
    let devices = match what & CONTEXTS {
        0 => Devices::List(Vec::new()),
        _ if numbers.is_empty() => Devices::Current,
        _ => Devices::List(numbers),
    };
    let libraries: Vec<SubLibrary> = SubLibrary::ALL
        .iter()
        .copied()
        .enumerate()
        .filter(|(bit, _)| what >> bit & 1 == 1)
        .map(|(_, one)| one)
        .collect();
    Preload::new().libraries(&libraries).devices(devices).engines(what & ENGINES != 0)
}

/// Keeps the report, and gives the status.
fn end(outcome: Result<Report, PreloadError>) -> c_int {
    let (status, text) = match outcome {
        Ok(report) => (0, report.to_string()),
        Err(error) => (error.failed.outcome.status().0, error.report.to_string()),
    };
    let status = c_int::try_from(status).unwrap_or(INTERNAL_ERROR);
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = (status, text);
    status
}

/// Starts it in a thread of its own, once what was started before is done.
fn start(what: Preload) {
    static ONCE: Once = Once::new();
    // Neither an exit nor a fork comes upon libraries that are half loaded: both wait.
    // SAFETY: the functions live as long as the library, which is never unloaded once cuDNN is in use.
    ONCE.call_once(|| unsafe {
        libc::atexit(wait);
        libc::pthread_atfork(Some(wait_before_fork), None, None);
    });
    wait();
    *STARTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.start());
}

/// Waits for what was started, if anything was, and keeps its report.
extern "C" fn wait() {
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(started) = started {
        end(started.join());
    }
}

unsafe extern "C" fn wait_before_fork() {
    wait();
}

/// Run by the dynamic linker when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static INIT_ENTRY: extern "C" fn() = at_loading;

extern "C" fn at_loading() {
    let _ = catch_panic(|| {
        let Some(value) = std::env::var_os(VARIABLE).filter(|_| !cudnn_loader::is_secure_execution()) else { return };
        let value = value.to_string_lossy();
        let mask = value.split(',').fold(0, |mask, word| {
            mask | match word.trim() {
                "everything" | "1" => EVERYTHING,
                "libraries" => 31,
                "contexts" => CONTEXTS,
                "engines" => ENGINES | 1,
                // What is not understood is not done.
                _ => 0,
            }
        });
        if mask != 0 && cudnn_loader::process_needs_shim() {
            // SAFETY: no devices are named.
            let what = unsafe { wanted(mask, std::ptr::null(), 0) };
            // The thread waits for the linker to be done with this library.
            start(what);
        }
    });
}
