//! Inspects and opens shared libraries in this process. The callers decide which library to open and why.

pub(crate) mod dlerror;
mod dlls;
pub(crate) mod objects;
pub(crate) mod run_paths;
pub(crate) mod search_path;

use std::path::Path;

use cudnn_os::IS_WINDOWS;
use cudnn_os::libraries;
pub(crate) use cudnn_os::libraries::{Library as Handle, wait_for_lock};
use cudnn_os::open_error;

use dlerror::{DlErrorKind, DlopenError};
use objects::LoadedObjects;

/// Opens the library at this absolute path, with all dependencies. The driver is opened by name.
///
/// # Errors
/// Returns the message of the system's loader and the cause.
pub(crate) fn open(path: &Path) -> Result<Handle, DlopenError> {
    open_and_list(path, &mut LoadedObjects::snapshot())
}

/// Like [`open`], and makes the list of loaded objects include the library.
pub(crate) fn open_and_list(path: &Path, objects: &mut LoadedObjects) -> Result<Handle, DlopenError> {
    // SAFETY: the library's constructors run, which the caller of a cuDNN function expects. The file has been
    // identified as cuDNN's or is the driver's.
    let opened = unsafe { libraries::open(path) };
    objects.forget();
    opened.and_then(|opened| opened.find(objects.entries())).map_err(|error| match error {
        open_error::OpenError::Refused(message) if IS_WINDOWS => dlls::to_open_error(message, path),
        open_error::OpenError::Refused(message) => dlerror::to_open_error(message, path),
        open_error::OpenError::Intercepted { ref opened, ref by } => {
            let cause = DlErrorKind::Intercepted { opened: opened.clone(), by: by.clone() };
            DlopenError { cause, message: error.to_string() }
        }
    })
}

/// Returns whether this code is in ld.so's first namespace, which is the one with the program. `dlmopen` creates other
/// namespaces with a second libc, in which threads fail to release locks of ld.so.
pub(crate) fn is_in_first_namespace() -> bool {
    LoadedObjects::snapshot().contains_program()
}

/// Keeps the library that contains this code loaded until the process exits. A plugin host may close it while threads
/// and exit handlers still need the code.
pub(crate) fn pin_this_library() {
    if let Some(library) = LoadedObjects::snapshot().containing_library() {
        libraries::pin(&library);
    }
}
