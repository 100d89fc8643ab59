//! How this program was started.

use std::ffi::{CStr, OsStr, OsString};
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Returns the words before this program on its command line: an ld.so that was started with the program as its argument, and
/// ld.so's options.
#[must_use]
pub fn launcher() -> Vec<OsString> {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words: Vec<&[u8]> = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0).collect();
    // ld.so takes its own words away.
    let count = words.len().saturating_sub(std::env::args_os().count());
    let options = words.iter().take(count).skip(1).map(|word| OsStr::from_bytes(word).to_owned());
    let loader = std::env::current_exe().ok().filter(|_| count > 0).map(PathBuf::into_os_string);
    loader.into_iter().chain(options).collect()
}

/// Returns this program's file. Without /proc, this is the path by which it was started.
///
/// # Errors
/// The system's.
pub fn executable() -> Result<PathBuf> {
    // The process's program is ld.so.
    if let (false, Some(program)) = (launcher().is_empty(), std::env::args_os().next()) {
        return std::path::absolute(program);
    }
    std::env::current_exe().or_else(|error| {
        // SAFETY: the call has no requirements.
        let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
        if path.is_null() {
            return Err(error);
        }
        // SAFETY: the kernel has put a path there that ends with a zero byte, and that stays as long as the process.
        let path = unsafe { CStr::from_ptr(path) };
        std::path::absolute(OsStr::from_bytes(path.to_bytes()))
    })
}
