//! The environment as a whole.

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// More than the kernel passes to a program.
const LIMIT: usize = 64 << 20;

/// The strings `NAME=value`, with a NUL behind each.
///
/// The C library replaces its array while another thread calls `setenv`, and reading the array is not safe then, as it is
/// not in the `getenv` of the libraries that are loaded next. So this allocates nothing while it reads.
pub(crate) fn block() -> Option<Vec<u8>> {
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

/// `false` if there is not enough room.
fn copy_to(block: &mut Vec<u8>) -> bool {
    // SAFETY: the C library's variable.
    let mut next = unsafe { environ };
    while !next.is_null() {
        // SAFETY: the array ends in null.
        let entry = unsafe { *next };
        if entry.is_null() {
            break;
        }
        // SAFETY: a string of the environment.
        let text = unsafe { CStr::from_ptr(entry) }.to_bytes_with_nul();
        // An empty string is the end of the block.
        if text.len() == 1 {
            next = next.wrapping_add(1);
            continue;
        }
        if text.len() > block.capacity() - block.len() {
            return false;
        }
        block.extend_from_slice(text);
        // SAFETY: the entry was not the last.
        next = unsafe { next.add(1) };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_has_each_variable() {
        let block = block().unwrap_or_default();
        for (name, value) in std::env::vars_os() {
            let entry = [name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat();
            assert!(block.split(|byte| *byte == 0).any(|other| other == entry), "{}", name.display());
        }
        assert!(!copy_to(&mut Vec::with_capacity(3)));
    }
}
