//! Inspects and opens shared libraries in this process. The callers decide which library to open and why.

pub(crate) mod dlerror;
mod dlls;
pub(crate) mod objects;
pub(crate) mod run_paths;
pub(crate) mod search_path;

use std::cell::Cell;
use std::path::Path;

use cudnn_os::IS_WINDOWS;
use cudnn_os::environment::is_secure_execution;
pub(crate) use cudnn_os::libraries::{Library as Handle, wait_for_lock};
use cudnn_probe::Host;

use dlerror::{DlErrorKind, OpenError};
use objects::LoadedObjects;

/// The error message of an opening that was refused.
pub(crate) const PROCESS_IS_ENDING: &str = "the process is ending";

thread_local! {
    static AROUND: Cell<Option<Around>> = const { Cell::new(None) };
}

/// Calls the argument once or not at all.
type Around = fn(&mut dyn FnMut());

/// Wraps each [`open`] of this thread in `around` while `work` runs.
pub(crate) fn around_openings<T>(around: Around, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Around>);
    impl Drop for Restore {
        fn drop(&mut self) {
            AROUND.set(self.0);
        }
    }
    let _restore = Restore(AROUND.replace(Some(around)));
    work()
}

/// Opens the library at this absolute path, with all dependencies. The driver is opened by name.
///
/// # Errors
/// Returns the message of the system's loader and the cause.
pub(crate) fn open(path: &Path) -> Result<Handle, OpenError> {
    let Some(around) = AROUND.get() else { return open_now(path) };
    let mut opened = Err(OpenError { cause: DlErrorKind::Other, message: PROCESS_IS_ENDING.into() });
    around(&mut || opened = open_now(path));
    opened
}

fn open_now(path: &Path) -> Result<Handle, OpenError> {
    // SAFETY: the library's constructors run, which the caller of a cuDNN function expects. The file has been
    // identified as cuDNN's or is the driver's.
    unsafe { Handle::open(path) }.map_err(|message| {
        if IS_WINDOWS { dlls::to_open_error(message, path) } else { dlerror::to_open_error(message, path) }
    })
}

/// Returns whether this code is in ld.so's first namespace.
pub(crate) fn is_in_first_namespace() -> bool {
    containing_library().is_none_or(Handle::is_in_first_namespace)
}

/// Pins and returns the library that contains this code, or returns `None` for the main program.
fn containing_library() -> Option<Handle> {
    Handle::pin(&LoadedObjects::snapshot().containing_library()?)
}

/// Keeps the library that contains this code loaded until the process ends. A plugin host may close it while threads
/// and exit handlers still need the code.
pub(crate) fn pin_this_library() {
    containing_library();
}

/// Returns this process as the search and the ld.so model see it.
pub(crate) fn host() -> Host {
    Host::current().secure_execution(is_secure_execution())
}
