//! Provides the functions that only the drop-in exports: its version, a report and the last load error. See
//! `dist/cudnn_shim.h` for their C documentation.

use std::ffi::c_char;
use std::fmt::Write;

use cudnn_loader::__private::{shown_path, write_text};
use cudnn_loader::{Library, loaded_library};
use cudnn_os::versioned;

use crate::c_abi::catch_panic;

/// Precedes the version in the file, where `cudnn-doctor` reads it without loading the library.
const VERSION_MARKER: &str = "cudnn-shim drop-in ";

/// Returns the drop-in's version.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnShimGetVersion() -> *const c_char {
    const TEXT: &str = concat!("cudnn-shim drop-in ", env!("CARGO_PKG_VERSION"), "\0");
    // The text after the marker is the NUL-terminated version.
    TEXT.split_at(VERSION_MARKER.len()).1.as_ptr().cast()
}
versioned!(cudnnShimGetVersion @@ "libcudnn_shim_1");

/// Writes a description of the loaded libraries and their locations to `buffer`.
///
/// # Safety
/// `buffer` is null or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetReport(buffer: *mut c_char, size: usize) -> usize {
    let text = catch_panic(report).unwrap_or_default();
    // SAFETY: the caller's obligation, passed on.
    unsafe { write_text(&text, buffer, size) }
}
versioned!(cudnnShimGetReport @@ "libcudnn_shim_1");

/// Writes the calling thread's last load error to `buffer`.
///
/// # Safety
/// `buffer` is null or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetLastLoadError(buffer: *mut c_char, size: usize) -> usize {
    let text = catch_panic(cudnn_loader::last_load_error).flatten().unwrap_or_default();
    // SAFETY: the caller's obligation, passed on.
    unsafe { write_text(&text, buffer, size) }
}
versioned!(cudnnShimGetLastLoadError @@ "libcudnn_shim_1");

fn report() -> String {
    let mut text = format!("cudnn-shim {}", env!("CARGO_PKG_VERSION"));
    match cudnn_loader::installation() {
        Some(selected) => {
            let cuda = selected.cuda_major.map_or(String::new(), |major| format!(" for CUDA {major}"));
            let dir = shown_path(&selected.dir);
            let _ = write!(text, "\ncuDNN {}{cuda} in {dir} ({})", selected.version, selected.origin);
        }
        None => text.push_str("\nno cuDNN selected yet"),
    }
    for library in Library::WITH_API {
        let _ = match loaded_library(*library) {
            Some(loaded) => {
                let micros = loaded.duration.as_micros() as u64;
                write!(text, "\n{library}: {}, loaded in {micros} us", shown_path(&loaded.path))
            }
            None => write!(text, "\n{library}: not loaded"),
        };
    }
    if let Some(path) = cudnn_loader::nvidia_shim() {
        let path = shown_path(&path);
        let _ = write!(text, "\nNVIDIA's shim is loaded too; calls that reach it bypass the drop-in: {path}");
    }
    text
}
