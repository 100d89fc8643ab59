//! Runs many threads in every part of the loader at once for ThreadSanitizer: first and warm calls, errors, changes of
//! the log, reports and preloads. The test only detects data races and ignores the results.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use cudnn_loader::logging::{Destination, LogSeverity, set_hook, write_to};
use cudnn_loader::preload::{Devices, Preload};
use cudnn_loader::{Function, Library, cudnnStatus_t, load_library, loaded_library, signatures};

use super::Shim;

const THREADS: usize = 16;

/// A unit of work. The number selects the variant, such as the function or the level.
type Task<'a> = fn(&Stress<'a>, usize);

struct Stress<'a> {
    shim: Option<&'a Shim>,
    log: &'a str,
}

/// Runs every task in many threads for `seconds`, and writes the log to a file.
pub(crate) fn stress(seconds: u64, log: &str, shim: Option<&Shim>) {
    let tasks: &[Task<'_>] = match shim {
        None => &[
            Stress::first_call,
            Stress::error_string,
            Stress::last_error,
            Stress::callback,
            Stress::ask_loader,
            Stress::hook,
            Stress::write,
            Stress::preload,
        ],
        Some(_) => &[
            Stress::first_call,
            Stress::error_string,
            Stress::last_error,
            Stress::callback,
            Stress::ask_drop_in,
            Stress::preload_drop_in,
        ],
    };
    let stress = Stress { shim, log };
    let barrier = Barrier::new(THREADS);
    let rounds: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (stress, barrier) = (&stress, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    let mut round = 0;
                    while start.elapsed() < Duration::from_secs(seconds) {
                        tasks[(thread + round) % tasks.len()](stress, thread * 7 + round);
                        round += 1;
                    }
                    round
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no task panics")).sum()
    });
    println!("stress = {}", if rounds > THREADS * tasks.len() { "done" } else { "too few rounds" });
}

/// Functions that accept zeros without effect, or are missing.
const CALLED: [Function; 6] = [
    Function::CudnnGetVersion,
    Function::CudnnDestroy,
    Function::CudnnDestroyTensorDescriptor,
    Function::CudnnDestroyConvolutionDescriptor,
    Function::CudnnDestroyRNNDescriptor,
    Function::CudnnBackendFinalize,
];

impl Stress<'_> {
    fn call(&self, function: Function) {
        super::call(function, self.shim.map(|shim| shim.address(function.name())));
    }

    fn first_call(&self, number: usize) {
        self.call(CALLED[number % CALLED.len()]);
        match self.shim {
            Some(shim) => drop(shim.address(Function::ALL[number % Function::ALL.len()].name())),
            None => drop(Function::ALL[number % Function::ALL.len()].resolve()),
        }
    }

    fn error_string(&self, number: usize) {
        type Signature = signatures::cudnnGetErrorString;
        let function: Signature = match self.shim {
            // SAFETY: the address belongs to the function with this name.
            Some(shim) => unsafe { std::mem::transmute::<*mut (), Signature>(shim.address("cudnnGetErrorString")) },
            None => cudnn_loader::cudnnGetErrorString,
        };
        let status = [cudnnStatus_t::CUDNN_STATUS_SUCCESS, cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED][number % 2];
        // SAFETY: it accepts any status.
        assert!(!unsafe { function(status) }.is_null());
    }

    fn last_error(&self, _: usize) {
        super::last_error(self.shim);
    }

    fn callback(&self, number: usize) {
        type Signature = signatures::cudnnSetCallback;
        unsafe extern "C" fn ignore(
            _: cudnn_loader::cudnnSeverity_t,
            _: *mut c_void,
            _: *const cudnn_loader::cudnnDebug_t,
            _: *const c_char,
        ) {
        }
        let function: Signature = match self.shim {
            // SAFETY: the address belongs to the function with this name.
            Some(shim) => unsafe { std::mem::transmute::<*mut (), Signature>(shim.address("cudnnSetCallback")) },
            None => cudnn_loader::cudnnSetCallback,
        };
        // SAFETY: the callback has the right type.
        let _ = unsafe {
            function(number as u32 % 16, std::ptr::null_mut(), (!number.is_multiple_of(3)).then_some(ignore))
        };
    }

    fn ask_loader(&self, number: usize) {
        let library = Library::WITH_API[number % Library::WITH_API.len()];
        let _ = (loaded_library(library), load_library(library).map(|_| ()), cudnn_loader::last_load_error());
        let _ = (cudnn_loader::installation(), cudnn_loader::nvidia_shim());
        let _ = cudnn_loader::Options::new().strict(number.is_multiple_of(2)).load();
    }

    fn hook(&self, number: usize) {
        let severities = LogSeverity::up_to((number % 4) as u8);
        let _ = set_hook(severities, move |event| assert!(event.entry.to_string().len() < 1 << 20));
    }

    fn write(&self, number: usize) {
        let destination = if number.is_multiple_of(2) { Destination::File(self.log.into()) } else { Destination::None };
        let _ = write_to(LogSeverity::up_to((number % 4) as u8), destination);
    }

    fn preload(&self, number: usize) {
        let preload = Preload::new().devices(Devices::List(Vec::new())).engines(number.is_multiple_of(2));
        match number % 3 {
            0 => drop(preload.run()),
            1 => drop(preload.start().join()),
            _ => drop(preload.start()),
        }
    }

    fn ask_drop_in(&self, number: usize) {
        type Signature = unsafe extern "C" fn(*mut c_char, usize) -> usize;
        let name = ["cudnnShimGetReport", "cudnnShimGetLastLoadError", "cudnnShimGetPreloadReport"][number % 3];
        let Some(shim) = self.shim else { return };
        // SAFETY: the address belongs to the function with this name.
        let function = unsafe { std::mem::transmute::<*mut (), Signature>(shim.address(name)) };
        let mut text = [0 as c_char; 256];
        // SAFETY: the buffer is as long as the call says.
        unsafe { function(text.as_mut_ptr(), text.len()) };
    }

    fn preload_drop_in(&self, number: usize) {
        type Preload = unsafe extern "C" fn(c_uint, *const c_int, c_int) -> c_int;
        /// All libraries and the engines; no context.
        const FLAGS: c_uint = 31 | 64;
        let Some(shim) = self.shim else { return };
        let name = ["cudnnShimPreload", "cudnnShimPreloadStart", "cudnnShimPreloadWait"][number % 3];
        if name == "cudnnShimPreloadWait" {
            // SAFETY: the address belongs to the function with this name.
            let wait = unsafe { std::mem::transmute::<*mut (), extern "C" fn() -> c_int>(shim.address(name)) };
            wait();
            return;
        }
        // SAFETY: the address belongs to the function with this name.
        let preload = unsafe { std::mem::transmute::<*mut (), Preload>(shim.address(name)) };
        // SAFETY: the list of devices is empty.
        unsafe { preload(FLAGS, std::ptr::null(), 0) };
    }
}
