//! The environment as it was when cuDNN's graph library was loaded, for layers. cuDNN reads some variables then, and layers
//! may begin later.

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_os::environment;

use super::{link, requests};
use crate::events::Event;
use crate::sub_library::SubLibrary;

/// Null, or strings with a NUL behind each, and one more at the end.
static AT_LOAD: AtomicPtr<c_char> = AtomicPtr::new(null_mut());

/// Keeps the environment if the graph library is about to be loaded and a layer may want it.
pub(super) fn note(event: &Event<'_>) {
    match event {
        Event::Loading { library: SubLibrary::Graph, .. } => {}
        // Somebody else may load it next.
        Event::LoadFailed { error } if error.library() == SubLibrary::Graph => {
            return AT_LOAD.store(null_mut(), Ordering::Release);
        }
        _ => return,
    }
    if link::has_begun() || !requests::has_any() {
        return;
    }
    if let Some(mut block) = environment::block() {
        block.push(0);
        // Layers may read it until the process ends.
        AT_LOAD.store(Box::leak(block.into_boxed_slice()).as_mut_ptr().cast(), Ordering::Release);
    }
}

/// `environment` of the header.
pub(super) fn at_load() -> *const c_char {
    AT_LOAD.load(Ordering::Acquire)
}
