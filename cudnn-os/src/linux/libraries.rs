//! Opens libraries with ld.so. They are never closed, because handles, streams and callbacks may live forever. The
//! caller selects the library.

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use libloading::os::unix::{Library as DlHandle, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};

use super::files::file_id;
pub use super::library::Library;
use super::memory;
use super::objects::{ObjectEntry, read_list};
use crate::open_error::OpenError;

impl Library {
    /// Opens the library with this absolute path or name and all dependencies, and resolves all required symbols.
    ///
    /// # Errors
    /// Returns ld.so's error message in English, or the file that was opened instead.
    ///
    /// # Safety
    /// The constructors of the library run.
    pub unsafe fn open(path: &Path) -> Result<Self, OpenError> {
        // SAFETY: guaranteed by the caller.
        unsafe { open(path) }?.find(&read_list())
    }

    /// Opens a library that resolves functions lazily, on their first calls.
    ///
    /// # Errors
    /// See [`Library::open`].
    ///
    /// # Safety
    /// The constructors of the library run.
    pub unsafe fn open_lazily(path: &Path) -> Result<Self, OpenError> {
        // SAFETY: guaranteed by the caller.
        unsafe { dlopen(path, RTLD_LAZY) }?.find(&read_list())
    }

    /// Returns the library that ld.so uses for this name or path, if it is already loaded and stays loaded.
    ///
    /// This does not wait for a thread that loads another library, because that thread may wait for the caller.
    pub fn loaded(name: &Path) -> Option<Self> {
        read_list().iter().find(|entry| entry.is_at(name)).map(ObjectEntry::library)
    }
}

/// The result of `dlopen` for a path.
pub struct OpenedLibrary {
    path: PathBuf,
    handle: *mut c_void,
}

/// Opens the library with this absolute path or name, like [`Library::open`].
///
/// # Errors
/// Returns ld.so's error message in English.
///
/// # Safety
/// The constructors of the library run.
pub unsafe fn open(path: &Path) -> Result<OpenedLibrary, OpenError> {
    // Programs parse the message, so it must not be localized.
    let _locale = CLocale::set();
    // SAFETY: guaranteed by the caller.
    unsafe { dlopen(path, RTLD_NOW) }
}

/// # Safety
/// The constructors of the library run.
unsafe fn dlopen(path: &Path, binding: c_int) -> Result<OpenedLibrary, OpenError> {
    // SAFETY: guaranteed by the caller.
    let handle = match unsafe { DlHandle::open(Some(path), binding | RTLD_LOCAL) } {
        Ok(handle) => handle.into_raw(),
        Err(libloading::Error::DlOpenUnknown) => null_mut(),
        Err(error) => return Err(OpenError::Refused(dlerror_text(&error))),
    };
    Ok(OpenedLibrary { path: path.to_owned(), handle })
}

impl OpenedLibrary {
    /// Finds the library in a list that was read after it was opened. The handle does not identify the library, because
    /// the program or a tool may replace `dlopen` and return anything.
    ///
    /// # Errors
    /// Returns the file that was opened instead.
    pub fn find(&self, objects: &[ObjectEntry]) -> Result<Library, OpenError> {
        let at_path = || objects.iter().find(|entry| entry.is_at(&self.path));
        let same_file = || {
            let file = file_id(&self.path)?;
            objects.iter().find(|entry| file_id(&entry.path) == Some(file))
        };
        match at_path().or_else(same_file) {
            Some(entry) if !self.handle.is_null() => Ok(entry.library()),
            _ => Err(OpenError::Intercepted { opened: path_of(self.handle, objects), by: interceptor(objects) }),
        }
    }
}

/// Returns the file of a handle. Handles of glibc and musl begin with the load address.
fn path_of(handle: *mut c_void, objects: &[ObjectEntry]) -> Option<PathBuf> {
    let base = memory::copy(handle.addr(), size_of::<usize>())?;
    let base = usize::from_ne_bytes(base.try_into().ok()?);
    objects.iter().find(|entry| entry.is_loaded_at(base)).map(file_of)
}

/// Returns the file that contains this process's `dlopen`, unless it is the C library.
fn interceptor(objects: &[ObjectEntry]) -> Option<PathBuf> {
    let file = file_of(objects.iter().find(|entry| entry.contains(libc::dlopen as *const c_void))?);
    let name = file.file_name()?.as_encoded_bytes();
    let is_system =
        ["libc.", "libc-", "libdl.", "libdl-", "ld-"].iter().any(|start| name.starts_with(start.as_bytes()));
    (!is_system).then_some(file)
}

fn file_of(entry: &ObjectEntry) -> PathBuf {
    if entry.is_program() { std::env::current_exe().unwrap_or_default() } else { entry.path.clone() }
}

/// Prevents ld.so from unloading a library. Returns `false` if it is not loaded.
pub fn pin(name: &Path) -> bool {
    // SAFETY: RTLD_NOLOAD runs no code, it only searches loaded libraries.
    let library = unsafe { DlHandle::open(Some(name), RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    library.is_ok_and(|library| !library.into_raw().is_null())
}

/// Returns whether the process has loaded the library that ld.so finds under this name or path.
pub fn is_loaded(name: &Path) -> bool {
    // SAFETY: RTLD_NOLOAD runs no code, it only searches loaded libraries.
    unsafe { DlHandle::open(Some(name), RTLD_LAZY | libc::RTLD_NOLOAD) }.is_ok()
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

/// Returns the fixed directory for libraries of drivers, which only Windows has.
pub fn system_dir() -> Option<PathBuf> {
    None
}

/// Returns the directory that the program added to the library search path, which only Windows supports.
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
