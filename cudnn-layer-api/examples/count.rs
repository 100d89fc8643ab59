//! A layer that counts the tensor descriptors that a program makes, and those that it forgets to destroy. `count.c` is
//! the same layer in C.
//!
//! ```sh
//! cargo build -p cudnn-layer-api --example cudnn_layer_count
//! CUDNN_LAYERS=count CUDNN_LAYER_PATH=$PWD/target/debug/examples ./program
//! ```

use std::ffi::{CStr, c_void};
use std::io::Write;
use std::mem::transmute;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cudnn_layer_api::{Host, Layer, export_layer};
use cudnn_sys::signatures::unwinding::{cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor};
use cudnn_sys::types::{cudnnStatus_t, cudnnTensorDescriptor_t};

static NEXT_CREATE: OnceLock<cudnnCreateTensorDescriptor> = OnceLock::new();
static NEXT_DESTROY: OnceLock<cudnnDestroyTensorDescriptor> = OnceLock::new();
static MADE: AtomicU64 = AtomicU64::new(0);
static DESTROYED: AtomicU64 = AtomicU64::new(0);

struct Count;
export_layer!(Count);

// SAFETY: the replacements have the types of the functions that they replace, and pass on the program's arguments.
unsafe impl Layer for Count {
    fn begin(_host: Host) -> Result<Self, String> {
        // A layer is never dropped. Therefore a function that runs at exit writes the report.
        // SAFETY: the loader never unloads this library, so `report` stays valid.
        match unsafe { libc::atexit(report) } {
            0 => Ok(Count),
            _ => Err("atexit has failed".into()),
        }
    }

    fn wrap(&self, function: &CStr, next: *const c_void) -> *const c_void {
        match function.to_bytes() {
            b"cudnnCreateTensorDescriptor" => {
                // SAFETY: `next` has the type of the function that it is passed for.
                NEXT_CREATE.get_or_init(|| unsafe { transmute::<*const c_void, cudnnCreateTensorDescriptor>(next) });
                create as cudnnCreateTensorDescriptor as *const c_void
            }
            b"cudnnDestroyTensorDescriptor" => {
                // SAFETY: as above.
                NEXT_DESTROY.get_or_init(|| unsafe { transmute::<*const c_void, cudnnDestroyTensorDescriptor>(next) });
                destroy as cudnnDestroyTensorDescriptor as *const c_void
            }
            _ => next,
        }
    }
}

/// "C-unwind", because a callback of a C++ program may throw an exception through cuDNN.
unsafe extern "C-unwind" fn create(descriptor: *mut cudnnTensorDescriptor_t) -> cudnnStatus_t {
    let Some(next) = NEXT_CREATE.get() else { return cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR };
    // SAFETY: the argument is the program's.
    let status = unsafe { next(descriptor) };
    if status.is_success() {
        MADE.fetch_add(1, Relaxed);
    }
    status
}

unsafe extern "C-unwind" fn destroy(descriptor: cudnnTensorDescriptor_t) -> cudnnStatus_t {
    let Some(next) = NEXT_DESTROY.get() else { return cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR };
    DESTROYED.fetch_add(1, Relaxed);
    // SAFETY: as above.
    unsafe { next(descriptor) }
}

extern "C" fn report() {
    let (made, destroyed) = (MADE.load(Relaxed), DESTROYED.load(Relaxed));
    // Unlike `eprintln!`, this cannot panic if stderr is closed.
    let left = made.saturating_sub(destroyed);
    let _ = writeln!(std::io::stderr(), "tensor descriptors: {made} made, {left} left");
}
