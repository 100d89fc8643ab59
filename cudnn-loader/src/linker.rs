//! The dynamic linker, asked in the few ways that loading needs. The one module that opens libraries; it knows nothing
//! of which to open or why.

use std::ffi::{CStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// A library that this process holds, for good.
#[derive(Debug)]
pub(crate) struct Handle(*mut c_void);

// SAFETY: a handle is a token that dlsym takes from any thread; it is never closed.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// Opens the library at this absolute path, with all that it needs. On failure, the linker's own words.
pub(crate) fn open(path: &Path) -> Result<Handle, String> {
    // SAFETY: the library's constructors run. That is what loading cuDNN means: the file has been identified, and the
    // caller of a cuDNN function wants cuDNN's code to run.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(keep).map_err(|error| words(&error))
}

/// The files that the process has loaded, in the order in which they were, each as the linker found it.
///
/// Asked of the linker's list. Opening by name with RTLD_NOLOAD would search hundreds of folders for a library that is
/// not there.
pub(crate) fn loaded() -> Vec<PathBuf> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, files: *mut c_void) -> c_int {
        // SAFETY: `loaded` passes its own vector, which nobody else uses meanwhile.
        let files = unsafe { &mut *files.cast::<Vec<PathBuf>>() };
        // SAFETY: the linker passes a structure of its own.
        let name = unsafe { (*info).dlpi_name };
        if !name.is_null() {
            // SAFETY: the name ends in NUL, and stays while the linker lists it.
            files.push(path(unsafe { CStr::from_ptr(name) }));
        }
        0
    }
    let mut files = Vec::new();
    // SAFETY: the callback keeps nothing and calls nothing of the linker's.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut files).cast()) };
    files
}

/// Never closed: handles, streams and callbacks outlive any notion of unloading.
fn keep(library: Library) -> Handle {
    Handle(library.into_raw())
}

/// libloading puts the linker's words into its error's source.
fn words(error: &libloading::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(inner) = source.source() {
        source = inner;
    }
    source.to_string()
}

/// The address of a function or datum in the library, or in those that it needs.
pub(crate) fn symbol(handle: &Handle, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the handle was never closed, and the name ends in NUL.
    let address = unsafe { libc::dlsym(handle.0, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// The file that the code or data at this address was loaded from.
pub(crate) fn file_of(address: *const c_void) -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr takes any address, and writes the structure only.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: all zeros is a valid value of it, and dladdr may have filled it.
    let name = unsafe { info.assume_init() }.dli_fname;
    if found == 0 || name.is_null() {
        return None;
    }
    // SAFETY: the name is the linker's own, ends in NUL, and lives as long as the library, which is not closed.
    Some(path(unsafe { CStr::from_ptr(name) }))
}

fn path(name: &CStr) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()))
}

/// Does this process run with more rights than the user who started it, so that variables are not to be believed?
pub(crate) fn is_privileged() -> bool {
    // SAFETY: the call reads the process's own auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
