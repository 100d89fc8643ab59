//! Stores the environment at the time when cuDNN's graph library is loaded. cuDNN reads some variables at that time,
//! but layers may start later and need the same values.

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_os::environment;
use cudnn_probe::Library;

use super::{link, requests};
use crate::events::LoaderEvent;

/// Null, or NUL-terminated strings followed by a final NUL.
static AT_LOAD: AtomicPtr<c_char> = AtomicPtr::new(null_mut());

/// Stores the environment if the graph library is about to be loaded and layers may need it.
pub(super) fn save_if_needed(event: &LoaderEvent<'_>) {
    match event {
        LoaderEvent::Loading { library: Library::Graph, .. } => {}
        // Another component may load the library next, in a different environment.
        LoaderEvent::LoadFailed { error } if error.library() == Library::Graph => {
            return AT_LOAD.store(null_mut(), Ordering::Release);
        }
        _ => return,
    }
    if link::has_begun() || !requests::has_any() {
        return;
    }
    if let Some(mut block) = environment::block() {
        block.push(0);
        // Leaked, because layers may read it at any time.
        AT_LOAD.store(Box::leak(block.into_boxed_slice()).as_mut_ptr().cast(), Ordering::Release);
    }
}

/// Returns the value of `environment` in the layer header.
pub(super) fn at_load() -> *const c_char {
    AT_LOAD.load(Ordering::Acquire)
}
