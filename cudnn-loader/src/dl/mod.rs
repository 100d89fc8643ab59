//! The border to ld.so, the dynamic loader: opening libraries, looking up symbols, and the list of what is loaded. The
//! only module that opens libraries; it does not know which to open, or why.

pub(crate) mod dlerror;
pub(crate) mod objects;
pub(crate) mod run_paths;

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::path::Path;

use cudnn_probe::Host;
use dlerror::{CLocale, dlerror_text};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use objects::LoadedObjects;

/// A library that this process has loaded. It is never closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle(*mut c_void);

// SAFETY: a handle is a token that dlsym takes from any thread; it is never closed.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// Why a library was not opened.
pub(crate) const PROCESS_IS_ENDING: &str = "the process is ending";

thread_local! {
    static AROUND: Cell<Option<Around>> = const { Cell::new(None) };
}

/// Calls its argument once, or not at all.
type Around = fn(&mut dyn FnMut());

/// Lets a function surround each [`open`] of this thread, as long as the work runs.
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

/// Opens the library at this absolute path, or of this name (the driver's), with its dependencies.
///
/// # Errors
/// ld.so's message.
pub(crate) fn open(path: &Path) -> Result<Handle, String> {
    let Some(around) = AROUND.get() else { return open_now(path) };
    let mut opened = Err(PROCESS_IS_ENDING.into());
    around(&mut || opened = open_now(path));
    opened
}

fn open_now(path: &Path) -> Result<Handle, String> {
    // This crate parses the message, so it must not be in the user's language.
    let _locale = CLocale::set();
    // SAFETY: the library's constructors run, as the caller of a cuDNN function expects. The file has been identified
    // as cuDNN's, or is the driver's.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(leak).map_err(|error| dlerror_text(&error))
}

/// Waits for ld.so's lock, unless this thread has it, and releases it.
pub(crate) fn wait_for_lock() {
    // SAFETY: this opens the program itself, which runs no code.
    let program = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if !program.is_null() {
        // SAFETY: opened above. The program itself is never unloaded.
        unsafe { libc::dlclose(program) };
    }
}

/// Whether this code is in the first namespace of ld.so. `dlmopen` makes others, with a second libc in each, whose
/// threads lose unlocks of ld.so's locks.
#[cfg(target_env = "gnu")]
pub(crate) fn is_in_first_namespace() -> bool {
    let Some(Handle(library)) = containing_library() else { return true };
    let mut namespace: libc::Lmid_t = libc::LM_ID_BASE;
    // SAFETY: the handle is open, and the answer has room.
    let answered = unsafe { libc::dlinfo(library, libc::RTLD_DI_LMID, (&raw mut namespace).cast()) };
    answered != 0 || namespace == libc::LM_ID_BASE
}

/// Only glibc has `dlmopen`.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn is_in_first_namespace() -> bool {
    true
}

/// The library that contains this code, never to be unloaded from now on; `None` for the program itself.
fn containing_library() -> Option<Handle> {
    let file = LoadedObjects::snapshot().containing_library()?;
    // SAFETY: RTLD_NOLOAD runs no code; it only looks the library up.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    library.ok().map(leak)
}

/// Keeps the library that contains this code loaded until the process ends: a plugin's host may close it, while threads
/// and exit handlers still need the code.
pub(crate) fn pin_this_library() {
    containing_library();
}

/// Never closes the library: handles, streams and callbacks may outlive any point at which it could be unloaded.
fn leak(library: Library) -> Handle {
    Handle(library.into_raw())
}

/// The address of a symbol in the library, or in one of its dependencies.
pub(crate) fn symbol(handle: &Handle, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the handle was never closed, and the name ends in NUL.
    let address = unsafe { libc::dlsym(handle.0, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// This process, as the search and the model of ld.so see it.
pub(crate) fn host() -> Host {
    Host::current().secure_execution(is_secure_execution())
}

/// Whether the process runs in secure-execution mode (`AT_SECURE`: setuid, setgid, file capabilities). The environment
/// of such a process comes from a less privileged user and must not be trusted.
#[must_use]
pub fn is_secure_execution() -> bool {
    // SAFETY: the call reads the process's auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
