//! ld.so: opening libraries and looking up symbols. The only module that opens libraries; it does not know which to open,
//! or why.

use std::ffi::{CStr, c_void};
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::dlerror::{CLocale, dlerror_text, meaning};
use super::names::driver_file;
use crate::dl::dlerror::OpenError;

/// There is a cuDNN for this system.
pub(crate) const HAS_CUDNN: bool = true;

/// A library that this process has loaded. It is never closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle(*mut c_void);

// SAFETY: a handle is a token that dlsym takes from any thread; it is never closed.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// Opens the library at this absolute path, or of this name (the driver's), with its dependencies.
///
/// # Errors
/// ld.so's message.
pub(crate) fn open(path: &Path) -> Result<Handle, OpenError> {
    // This crate parses the message, so it must not be in the user's language.
    let _locale = CLocale::set();
    // SAFETY: the library's constructors run, as the caller of a cuDNN function expects. The file has been identified
    // as cuDNN's, or is the driver's.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(leak).map_err(|error| {
        let message = dlerror_text(&error);
        OpenError { cause: meaning(&message, path), message }
    })
}

/// The driver's library, as ld.so finds it.
pub(crate) fn driver_path() -> &'static str {
    driver_file!()
}

/// The loaded library that ld.so returns for this name.
pub(crate) fn open_loaded(name: &str) -> Option<Handle> {
    // SAFETY: RTLD_NOLOAD runs no code; it only looks the library up.
    unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD) }.ok().map(leak)
}

/// As above, for a library that must never be unloaded.
pub(crate) fn pin(file: &Path) -> Option<Handle> {
    // SAFETY: RTLD_NOLOAD runs no code; it only looks the library up.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    library.ok().map(leak)
}

/// Whether the loaded library at this path exports a symbol.
pub(crate) fn exports(path: &Path, symbol: &CStr) -> bool {
    // SAFETY: RTLD_NOLOAD runs no code; it only looks the library up.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD) };
    // SAFETY: the symbol is not called.
    library.is_ok_and(|library| unsafe { library.get::<*const c_void>(symbol.to_bytes_with_nul()) }.is_ok())
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

/// Whether a library is in the first namespace of ld.so. `dlmopen` makes others, with a second libc in each, whose
/// threads lose unlocks of ld.so's locks.
#[cfg(target_env = "gnu")]
pub(crate) fn is_in_first_namespace(Handle(library): Handle) -> bool {
    let mut namespace: libc::Lmid_t = libc::LM_ID_BASE;
    // SAFETY: the handle is open, and the answer has room.
    let answered = unsafe { libc::dlinfo(library, libc::RTLD_DI_LMID, (&raw mut namespace).cast()) };
    answered != 0 || namespace == libc::LM_ID_BASE
}

/// Only glibc has `dlmopen`.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn is_in_first_namespace(_: Handle) -> bool {
    true
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

/// Whether the process runs in secure-execution mode (`AT_SECURE`: setuid, setgid, file capabilities). The environment
/// of such a process comes from a less privileged user and must not be trusted.
#[must_use]
pub fn is_secure_execution() -> bool {
    // SAFETY: the call reads the process's auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
