//! Reads a loaded library's version and CUDA major version from memory.

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

/// Returns the version of a loaded library, or `None` if the library has no version symbol.
pub(crate) fn version(handle: &Handle, library: Library) -> Option<Version> {
    let name = CString::new(library.version_symbol()?).ok()?;
    let address = handle.symbol(&name)?;
    // SAFETY: the symbol is four bytes of read-only data in every cuDNN 9, and the library stays loaded.
    let bytes = unsafe { address.cast::<[u8; 4]>().read_unaligned() };
    Some(Version::from_symbol(bytes))
}

/// The CUDA version of the graph library, such as 12090; 0 if unknown.
static CUDART_VERSION: AtomicU32 = AtomicU32::new(0);
/// Published when `CUDART_VERSION` is available.
///
/// All threads share a single call, because cuDNN logs it. When cuDNN gets a callback, it closes the log file without
/// waiting for threads that are writing to it. This call must return before the callback is set.
static QUERIED: RaceOnce<()> = RaceOnce::new();

thread_local! {
    static IS_QUERYING: Cell<bool> = const { Cell::new(false) };
}

/// Returns the CUDA major version of a loaded graph library. The file does not contain it.
///
/// The loader calls cuDNN only once for this, because cuDNN logs the call and thereby runs the program's log callback.
/// The callback may use this crate, which must not repeat the call at that point.
pub(crate) fn cuda_major(graph: &Handle) -> Option<u32> {
    if QUERIED.get().is_none() {
        let _querying = ReentrancyGuard::enter(&IS_QUERYING)?;
        let address = graph.symbol(Function::CudnnGetCudartVersion.symbol())?;
        // SAFETY: the address belongs to cuDNN's function of this name.
        let function = unsafe { std::mem::transmute::<*mut c_void, unwinding::cudnnGetCudartVersion>(address) };
        QUERIED.get_or_init(|| {
            // SAFETY: the function has no parameters and returns a constant.
            let version = unsafe { function() };
            CUDART_VERSION.store(u32::try_from(version).unwrap_or_default(), Ordering::Relaxed);
        });
    }
    let version = cudart_version();
    (version != 0).then_some(version / 1000)
}

/// Returns the CUDA version of the graph library, such as 12090, or 0 before the loader needed it.
pub(crate) fn cudart_version() -> u32 {
    CUDART_VERSION.load(Ordering::Relaxed)
}

/// Caches the CUDA major version of a cuDNN that the process had already loaded. Must be called outside `catch_unwind`,
/// because the program's log callback may throw.
pub(crate) fn query_loaded_cuda_major(objects: &LoadedObjects) {
    if QUERIED.get().is_none()
        && let Some(graph) = objects.find(Library::Graph.file_name())
    {
        cuda_major(&graph.handle);
    }
}
