//! ld.so: opening libraries and looking up symbols. It does not know which library to open, or why.

use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library as Opened, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};

/// A library that this process has loaded. It is never closed: handles, streams and callbacks may outlive any point at
/// which it could be unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library(*mut c_void);

// SAFETY: a handle is a token that dlsym takes from any thread; it is never closed.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Opens the library at this absolute path, or of this name, with its dependencies, and resolves all symbols that it
    /// needs.
    ///
    /// # Errors
    /// ld.so's message, in English.
    ///
    /// # Safety
    /// The library's constructors run.
    pub unsafe fn open(path: &Path) -> Result<Self, String> {
        // Programs parse the message, so it must not be in the user's language.
        let _locale = CLocale::set();
        // SAFETY: the caller's obligation, passed on.
        unsafe { Opened::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(leak).map_err(|error| dlerror_text(&error))
    }

    /// Opens a library, and lets ld.so resolve functions on their first calls.
    ///
    /// # Errors
    /// ld.so's message.
    ///
    /// # Safety
    /// The library's constructors run.
    pub unsafe fn open_lazily(path: &Path) -> Result<Self, String> {
        // SAFETY: the caller's obligation, passed on.
        unsafe { Opened::open(Some(path), RTLD_LAZY | RTLD_LOCAL) }.map(leak).map_err(|error| dlerror_text(&error))
    }

    /// Returns the loaded library that ld.so finds for this name or path, without loading anything.
    pub fn loaded(name: &Path) -> Option<Self> {
        // SAFETY: RTLD_NOLOAD runs no code; it only looks the library up.
        unsafe { Opened::open(Some(name), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD) }.ok().map(leak)
    }

    /// Returns the loaded library at this path, and prevents ld.so from unloading it from now on.
    pub fn pin(path: &Path) -> Option<Self> {
        // SAFETY: RTLD_NOLOAD runs no code; it only looks the library up.
        unsafe { Opened::open(Some(path), RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) }.ok().map(leak)
    }

    /// Returns the address of a symbol in the library, or in one of its dependencies.
    pub fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle was never closed, and the name ends in NUL.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// Whether the library is in the first namespace of ld.so. `dlmopen` creates others, with a second libc in each, whose
    /// threads lose unlocks of ld.so's locks.
    #[cfg(target_env = "gnu")]
    pub fn is_in_first_namespace(self) -> bool {
        let mut namespace: libc::Lmid_t = libc::LM_ID_BASE;
        // SAFETY: the handle is open, and the answer has room.
        let answered = unsafe { libc::dlinfo(self.0, libc::RTLD_DI_LMID, (&raw mut namespace).cast()) };
        answered != 0 || namespace == libc::LM_ID_BASE
    }

    /// Whether the library is in the first namespace of ld.so. Only glibc has `dlmopen`.
    #[cfg(not(target_env = "gnu"))]
    pub fn is_in_first_namespace(self) -> bool {
        true
    }
}

fn leak(library: Opened) -> Library {
    Library(library.into_raw())
}

/// Whether the process has loaded the library that ld.so finds for this name or path.
pub fn is_loaded(name: &Path) -> bool {
    // SAFETY: RTLD_NOLOAD runs no code; it only looks the library up.
    unsafe { Opened::open(Some(name), RTLD_LAZY | libc::RTLD_NOLOAD) }.is_ok()
}

/// Whether the loaded library at this path exports a symbol.
pub fn exports(path: &Path, symbol: &CStr) -> bool {
    // SAFETY: RTLD_NOLOAD runs no code; it only looks the library up.
    let library = unsafe { Opened::open(Some(path), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD) };
    // SAFETY: the symbol is not called.
    library.is_ok_and(|library| unsafe { library.get::<*const c_void>(symbol.to_bytes_with_nul()) }.is_ok())
}

/// Waits for ld.so's lock, unless this thread has it, and releases it.
pub fn wait_for_lock() {
    // SAFETY: this opens the program itself, which runs no code.
    let program = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if !program.is_null() {
        // SAFETY: opened above. The program itself is never unloaded.
        unsafe { libc::dlclose(program) };
    }
}

/// The directory of the system's libraries, if drivers install their libraries in a fixed one: only on Windows.
pub fn system_dir() -> Option<PathBuf> {
    None
}

/// The directory that the program has added to the search for libraries: only on Windows.
pub fn added_dir() -> Option<PathBuf> {
    None
}

/// ld.so's text, which libloading keeps in its error's source.
fn dlerror_text(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { source } | libloading::Error::DlSym { source } => source.to_string(),
        other => other.to_string(),
    }
}

/// Makes this thread's messages English while the value lives.
struct CLocale {
    english: libc::locale_t,
    previous: libc::locale_t,
}

impl CLocale {
    fn set() -> Option<Self> {
        // SAFETY: the name ends in NUL; the call makes a new locale and changes none.
        let english = unsafe { libc::newlocale(libc::LC_MESSAGES_MASK, c"C".as_ptr(), std::ptr::null_mut()) };
        if english.is_null() {
            return None;
        }
        // SAFETY: the locale lives until `drop`, which first takes it from the thread.
        Some(CLocale { english, previous: unsafe { libc::uselocale(english) } })
    }
}

impl Drop for CLocale {
    fn drop(&mut self) {
        // SAFETY: the locale that the thread had before; its owner still uses it.
        unsafe { libc::uselocale(self.previous) };
        // SAFETY: `set` made it, and nothing uses it any more.
        unsafe { libc::freelocale(self.english) };
    }
}
