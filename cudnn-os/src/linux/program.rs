//! Describes how this program was started.

use std::ffi::{CStr, OsStr, OsString};
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Returns the words before this program on the command line, if ld.so was started with the program as an argument.
/// They include the options of ld.so.
pub fn launcher() -> Vec<OsString> {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words: Vec<&[u8]> = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0).collect();
    // ld.so removes these words from the arguments.
    let count = words.len().saturating_sub(std::env::args_os().count());
    let options = words.iter().take(count).skip(1).map(|word| OsStr::from_bytes(word).to_owned());
    let loader = std::env::current_exe().ok().filter(|_| count > 0).map(PathBuf::into_os_string);
    loader.into_iter().chain(options).collect()
}

/// Returns the executable file of this program, or without /proc the path that was used to start the program.
pub fn executable() -> Result<PathBuf> {
    // In this case, /proc reports ld.so as the program.
    if let (false, Some(program)) = (launcher().is_empty(), std::env::args_os().next()) {
        return std::path::absolute(program);
    }
    std::env::current_exe().or_else(|error| {
        // SAFETY: the call can be made at any time.
        let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
        if path.is_null() {
            return Err(error);
        }
        // SAFETY: the kernel stores a NUL-terminated path there, which is valid for the lifetime of the process.
        let path = unsafe { CStr::from_ptr(path) };
        std::path::absolute(OsStr::from_bytes(path.to_bytes()))
    })
}
