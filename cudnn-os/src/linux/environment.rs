//! Reads current and original environment variables.

#[cfg(feature = "native")]
use std::ffi::{CStr, c_char};
use std::ffi::{OsString, c_ulong};

use super::files::path_from_bytes;

/// Returns the value of an environment variable at the start of the process. The outer `Option` is `None` if the
/// original environment is unreadable.
pub fn initial_value(name: &str) -> Option<Option<OsString>> {
    let block = std::fs::read("/proc/self/environ").ok()?;
    let value = value_in(&block, name)?;
    Some(value.map(|value| path_from_bytes(value).into_os_string()))
}

/// Finds a variable in a block of NUL-terminated `NAME=VALUE` entries. The outer `Option` is `None` if the block is
/// invalid, for example because the program changed its title (`setproctitle`).
fn value_in<'a>(block: &'a [u8], name: &str) -> Option<Option<&'a [u8]>> {
    let entries = block.strip_suffix(b"\0")?;
    let is_entry = |entry: &[u8]| entry.iter().position(|byte| *byte == b'=').is_some_and(|end| end > 0);
    if !entries.split(|byte| *byte == 0).all(is_entry) {
        return None;
    }
    let value = |entry: &'a [u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    Some(entries.split(|byte| *byte == 0).find_map(value))
}

/// Returns the value unchanged, because a shell has already removed quotes.
pub fn without_quotes(value: OsString) -> OsString {
    value
}

/// Returns whether the process runs in secure-execution mode (`AT_SECURE`), because of setuid, setgid or file
/// capabilities. The environment then comes from a less privileged user and must not be trusted.
pub fn is_secure_execution() -> bool {
    const AT_SECURE: c_ulong = 23;
    // Declared here, because crates that only read files do not depend on libc.
    unsafe extern "C" {
        safe fn getauxval(kind: c_ulong) -> c_ulong;
    }
    getauxval(AT_SECURE) != 0
}

#[cfg(feature = "native")]
unsafe extern "C" {
    static environ: *const *const c_char;
}

/// An upper bound that exceeds the limit of the kernel.
#[cfg(feature = "native")]
const LIMIT: usize = 64 << 20;

/// Returns the environment as NUL-terminated `NAME=value` strings.
///
/// Reading is not thread-safe while another thread calls `setenv`, because the C library then replaces the array. The
/// same applies to `getenv` in libraries that are loaded next. To keep the window short, this function does not
/// allocate while it reads.
#[cfg(feature = "native")]
pub fn block() -> Option<Vec<u8>> {
    let mut room = 1 << 16;
    while room <= LIMIT {
        let mut block = Vec::with_capacity(room);
        if copy_to(&mut block) {
            return Some(block);
        }
        room *= 4;
    }
    None
}

/// Copies the environment into the buffer. Returns `false` if the buffer is too small.
#[cfg(feature = "native")]
fn copy_to(block: &mut Vec<u8>) -> bool {
    // SAFETY: the C library defines this variable.
    let mut next = unsafe { environ };
    while !next.is_null() {
        // SAFETY: the array ends with a null pointer.
        let entry = unsafe { *next };
        if entry.is_null() {
            break;
        }
        // SAFETY: entries of the environment are NUL-terminated strings.
        let text = unsafe { CStr::from_ptr(entry) }.to_bytes_with_nul();
        // Skip empty entries, because an empty string marks the end of the block.
        if text.len() == 1 {
            next = next.wrapping_add(1);
            continue;
        }
        if text.len() > block.capacity() - block.len() {
            return false;
        }
        block.extend_from_slice(text);
        // SAFETY: this entry was not the terminating null pointer.
        next = unsafe { next.add(1) };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_initial_environment_is_parsed_strictly() {
        let block = b"A=1\0LD_LIBRARY_PATH=/x:/y\0E=\0";
        assert_eq!(value_in(block, "LD_LIBRARY_PATH"), Some(Some(&b"/x:/y"[..])));
        assert_eq!(value_in(block, "E"), Some(Some(&b""[..])));
        assert_eq!(value_in(block, "LD_LIBRARY"), Some(None));
        // setproctitle leaves the title, followed by zeros.
        for overwritten in [&b""[..], b"\0\0\0", b"ray::worker A=1\0\0\0\0", b"ray::idle\0A=1\0", b"A=1", b"=1\0"] {
            assert_eq!(value_in(overwritten, "LD_LIBRARY_PATH"), None, "{overwritten:?}");
        }
    }

    #[test]
    #[cfg(feature = "native")]
    fn the_block_has_each_variable() {
        let block = block().unwrap_or_default();
        for (name, value) in std::env::vars_os() {
            let entry = [name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat();
            assert!(block.split(|byte| *byte == 0).any(|other| other == entry), "{}", name.display());
        }
        assert!(!copy_to(&mut Vec::with_capacity(3)));
    }
}
