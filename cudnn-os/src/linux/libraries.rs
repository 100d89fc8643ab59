//! Opens libraries with ld.so and looks up symbols. The caller decides which library to open.

use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library as Opened, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};

/// A library that this process has loaded. It is never closed, because handles, streams and callbacks may outlive any
/// point where it could be unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library(*mut c_void);

// SAFETY: dlsym accepts the handle on any thread, and the handle is never closed.
unsafe impl Send for Library {}
// SAFETY: dlsym accepts the handle on any thread, and the handle is never closed.
unsafe impl Sync for Library {}

impl Library {
    /// Opens the library with this absolute path or name, together with all dependencies. All required symbols are
    /// resolved immediately.
    ///
    /// # Errors
    /// Returns the English error message of ld.so.
    ///
    /// # Safety
    /// The constructors of the library run.
    pub unsafe fn open(path: &Path) -> Result<Self, String> {
        // Programs parse the message, so it must not be localized.
        let _locale = CLocale::set();
        // SAFETY: guaranteed by the caller.
        unsafe { Opened::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(leak).map_err(|error| dlerror_text(&error))
    }

    /// Opens a library and resolves functions lazily, on their first calls.
    ///
    /// # Errors
    /// Returns the error message of ld.so.
    ///
    /// # Safety
    /// The constructors of the library run.
    pub unsafe fn open_lazily(path: &Path) -> Result<Self, String> {
        // SAFETY: guaranteed by the caller.
        unsafe { Opened::open(Some(path), RTLD_LAZY | RTLD_LOCAL) }.map(leak).map_err(|error| dlerror_text(&error))
    }

    /// Returns the library that ld.so finds under this name or path, if it is already loaded.
    pub fn loaded(name: &Path) -> Option<Self> {
        // SAFETY: RTLD_NOLOAD runs no code, it only searches loaded libraries.
        unsafe { Opened::open(Some(name), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD) }.ok().map(leak)
    }

    /// Returns the library at this path if it is already loaded, and prevents ld.so from unloading it.
    pub fn pin(path: &Path) -> Option<Self> {
        // SAFETY: RTLD_NOLOAD runs no code, it only searches loaded libraries.
        unsafe { Opened::open(Some(path), RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) }.ok().map(leak)
    }

    /// Returns the address of a symbol in the library or in a dependency.
    pub fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open, and the name is NUL-terminated.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// Returns whether the library is in the base namespace of ld.so. `dlmopen` creates other namespaces with a second
    /// libc, in which threads fail to release locks of ld.so.
    #[cfg(target_env = "gnu")]
    pub fn is_in_first_namespace(self) -> bool {
        let mut namespace: libc::Lmid_t = libc::LM_ID_BASE;
        // SAFETY: the handle is open, and the output pointer is valid.
        let answered = unsafe { libc::dlinfo(self.0, libc::RTLD_DI_LMID, (&raw mut namespace).cast()) };
        answered != 0 || namespace == libc::LM_ID_BASE
    }

    /// Returns `true`, because only glibc supports `dlmopen`.
    #[cfg(not(target_env = "gnu"))]
    pub fn is_in_first_namespace(self) -> bool {
        true
    }
}

fn leak(library: Opened) -> Library {
    Library(library.into_raw())
}

/// Returns whether the process has loaded the library that ld.so finds under this name or path.
pub fn is_loaded(name: &Path) -> bool {
    // SAFETY: RTLD_NOLOAD runs no code, it only searches loaded libraries.
    unsafe { Opened::open(Some(name), RTLD_LAZY | libc::RTLD_NOLOAD) }.is_ok()
}

/// Returns whether the loaded library at this path exports a symbol.
pub fn exports(path: &Path, symbol: &CStr) -> bool {
    // SAFETY: RTLD_NOLOAD runs no code, it only searches loaded libraries.
    let library = unsafe { Opened::open(Some(path), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD) };
    // SAFETY: the symbol is only looked up, not used.
    library.is_ok_and(|library| unsafe { library.get::<*const c_void>(symbol.to_bytes_with_nul()) }.is_ok())
}

/// Waits until other threads have released the lock of ld.so.
pub fn wait_for_lock() {
    // SAFETY: this opens the program itself, which runs no code.
    let program = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if !program.is_null() {
        // SAFETY: the handle was opened above. The program itself is never unloaded.
        unsafe { libc::dlclose(program) };
    }
}

/// Returns the fixed directory into which drivers install libraries. Only Windows has one.
pub fn system_dir() -> Option<PathBuf> {
    None
}

/// Returns the directory that the program added to the library search path. Only Windows supports this.
pub fn added_dir() -> Option<PathBuf> {
    None
}

/// Returns the text of ld.so, which libloading stores as the source of the error.
fn dlerror_text(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { source } | libloading::Error::DlSym { source } => source.to_string(),
        other => other.to_string(),
    }
}

/// Switches the messages of this thread to English while the value exists.
struct CLocale {
    english: libc::locale_t,
    previous: libc::locale_t,
}

impl CLocale {
    fn set() -> Option<Self> {
        // SAFETY: the name is NUL-terminated. The call creates a locale and does not change existing ones.
        let english = unsafe { libc::newlocale(libc::LC_MESSAGES_MASK, c"C".as_ptr(), std::ptr::null_mut()) };
        if english.is_null() {
            return None;
        }
        // SAFETY: the locale exists until `drop`, which first restores the previous one.
        Some(CLocale { english, previous: unsafe { libc::uselocale(english) } })
    }
}

impl Drop for CLocale {
    fn drop(&mut self) {
        // SAFETY: this is the previous locale of the thread, which is still valid.
        unsafe { libc::uselocale(self.previous) };
        // SAFETY: `set` created the locale, and it is no longer in use.
        unsafe { libc::freelocale(self.english) };
    }
}
