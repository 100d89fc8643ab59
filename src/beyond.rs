//! What the drop-in can be asked beyond cuDNN's functions: `dist/cudnn_shim.h`, which documents it.

use std::ffi::c_char;
use std::fmt::Write;

use cudnn_loader::SubLibrary;

use crate::versioned;

/// The drop-in's own version.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnShimGetVersion() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
versioned!(cudnnShimGetVersion @@ "libcudnn_shim_1");

/// What is loaded, from where.
///
/// # Safety
/// `text` is null or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetReport(text: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller's obligation, passed on.
    unsafe { write(&catch_panic(report).unwrap_or_default(), text, size) }
}
versioned!(cudnnShimGetReport @@ "libcudnn_shim_1");

/// The thread's last failure to load.
///
/// # Safety
/// `text` is null or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetLastLoadError(text: *mut c_char, size: usize) -> usize {
    let story = catch_panic(cudnn_loader::last_load_error).flatten().unwrap_or_default();
    // SAFETY: the caller's obligation, passed on.
    unsafe { write(&story, text, size) }
}
versioned!(cudnnShimGetLastLoadError @@ "libcudnn_shim_1");

/// Nothing here panics by design; a defect must still not unwind into C.
pub(crate) fn catch_panic<T>(ask: impl FnOnce() -> T + std::panic::UnwindSafe) -> Option<T> {
    // A cancellation unwinds too, and Rust code ends the process when it is unwound so.
    let _uncancelled = cudnn_loader::CancelDisabled::new();
    std::panic::catch_unwind(ask).ok()
}

fn report() -> String {
    let mut text = format!("cudnn-shim {}", env!("CARGO_PKG_VERSION"));
    match cudnn_loader::installation() {
        Some(found) => {
            let cuda = found.cuda_major.map_or(String::new(), |major| format!(" for CUDA {major}"));
            let _ = write!(text, "\ncuDNN {}{cuda} in {:?} ({})", found.version, found.dir, found.origin);
        }
        None => text.push_str("\nno cuDNN in use yet"),
    }
    for library in SubLibrary::ALL {
        match library.loaded() {
            Some(opened) => {
                let took = opened.duration.as_micros() as u64;
                let _ = write!(text, "\n{library}: {:?}, loaded in {took} us", opened.path);
            }
            None => drop(write!(text, "\n{library}: not loaded")),
        }
    }
    if let Some(other) = cudnn_loader::nvidia_shim() {
        let _ = write!(text, "\nNVIDIA's own shim is loaded too, and calls that reach it do not come here: {other:?}");
    }
    text
}

/// Writes a text as `snprintf` does.
///
/// # Safety
/// `to` is null or has room for `size` bytes.
pub(crate) unsafe fn write(text: &str, to: *mut c_char, size: usize) -> usize {
    if !to.is_null() && size > 0 {
        let mut end = text.len().min(size - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // SAFETY: `end` is less than `size`, and at most the text's length.
        unsafe { to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), end) };
        // SAFETY: `end` is less than `size`.
        unsafe { to.add(end).write(0) };
    }
    text.len()
}
