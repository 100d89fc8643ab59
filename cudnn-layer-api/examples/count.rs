//! A layer that counts the tensor descriptors that a program makes, and those that it forgets to destroy. `count.c` is
//! the same layer in C.
//!
//! ```sh
//! cargo build -p cudnn-layer-api --example cudnn_layer_count
//! CUDNN_LAYERS=count CUDNN_LAYER_PATH=$PWD/target/debug/examples ./program
//! ```

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cudnn_layer_api::types::{cudnnStatus_t, cudnnTensorDescriptor_t};
use cudnn_layer_api::wrappers::{Next, Replacement, replace};
use cudnn_layer_api::{Host, Layer, NextFunction, export_layer};

static NEXT: Next = Next::new();
static MADE: AtomicU64 = AtomicU64::new(0);
static DESTROYED: AtomicU64 = AtomicU64::new(0);

const REPLACEMENTS: &[Replacement] =
    &[Replacement::cudnnCreateTensorDescriptor(create), Replacement::cudnnDestroyTensorDescriptor(destroy)];

struct Count;
export_layer!(Count);

impl Layer for Count {
    fn begin(_host: Host) -> Result<Self, String> {
        // A layer is never dropped. Therefore a function that runs at exit writes the report.
        // SAFETY: the loader never unloads this library, so `report` stays valid.
        match unsafe { libc::atexit(report) } {
            0 => Ok(Count),
            _ => Err("atexit has failed".into()),
        }
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        replace(&NEXT, REPLACEMENTS, next)
    }
}

/// "C-unwind", because a callback of a C++ program may throw an exception through cuDNN.
unsafe extern "C-unwind" fn create(descriptor: *mut cudnnTensorDescriptor_t) -> cudnnStatus_t {
    let Some(next) = NEXT.cudnnCreateTensorDescriptor() else { return cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED };
    // SAFETY: the argument is the program's.
    let status = unsafe { next(descriptor) };
    if status.is_success() {
        MADE.fetch_add(1, Relaxed);
    }
    status
}

unsafe extern "C-unwind" fn destroy(descriptor: cudnnTensorDescriptor_t) -> cudnnStatus_t {
    let Some(next) = NEXT.cudnnDestroyTensorDescriptor() else { return cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED };
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
