//! Reads the version of a loaded library, and the CUDA major that it was built with, in memory.

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use cudnn_probe::{Library, Version};
use cudnn_sys::signatures::unwinding;

use crate::dl::Handle;
use crate::dl::objects::LoadedObjects;
use crate::function::Function;
use crate::sync::once::RaceOnce;
use crate::thread::reentrancy::ReentrancyGuard;

/// The version that a loaded library states; `None` for the libraries that state none.
pub(crate) fn version(handle: &Handle, library: Library) -> Option<Version> {
    let name = CString::new(library.version_symbol()?).ok()?;
    let address = handle.symbol(&name)?;
    // SAFETY: the symbol is four bytes of read-only data in every cuDNN 9, and the library stays loaded.
    let bytes = unsafe { address.cast::<[u8; 4]>().read_unaligned() };
    Some(Version::from_symbol(bytes))
}

/// The answer of the graph library; 0 before the loader has asked.
static CUDA_MAJOR: AtomicU32 = AtomicU32::new(0);
/// Published with the answer.
///
/// The threads share one call: cuDNN logs it, and closes its log file, without waiting for a thread that writes there,
/// when it gets a callback. No thread sets the callback before the call has returned.
static QUERIED: RaceOnce<()> = RaceOnce::new();

thread_local! {
    static IS_QUERYING: Cell<bool> = const { Cell::new(false) };
}

/// The CUDA major of a loaded graph library. Its file does not state it, but the loaded library does.
///
/// The loader asks once, because cuDNN logs the call and runs the program's log callback. The callback may call this
/// crate, which must not ask again meanwhile.
pub(crate) fn cuda_major(graph: &Handle) -> Option<u32> {
    if QUERIED.get().is_none() {
        let _querying = ReentrancyGuard::enter(&IS_QUERYING)?;
        // Not while other threads wait for the answer: this waits for ld.so's lock.
        let address = graph.symbol(Function::CudnnGetCudartVersion.symbol())?;
        // SAFETY: the address is that of cuDNN's function of this name.
        let function = unsafe { std::mem::transmute::<*mut c_void, unwinding::cudnnGetCudartVersion>(address) };
        QUERIED.get_or_init(|| {
            // SAFETY: it takes nothing and returns a constant.
            let version = unsafe { function() };
            CUDA_MAJOR.store(u32::try_from(version / 1000).unwrap_or_default(), Ordering::Relaxed);
        });
    }
    let major = CUDA_MAJOR.load(Ordering::Relaxed);
    (major != 0).then_some(major)
}

/// Caches the CUDA major of a cuDNN that the process loaded before this crate did. The caller must be outside
/// `catch_unwind`, because the program may have set a log callback that throws.
pub(crate) fn query_loaded_cuda_major() {
    if QUERIED.get().is_none()
        && let Some(graph) = LoadedObjects::snapshot().find(Library::Graph.file_name())
    {
        cuda_major(&graph.handle);
    }
}
