//! Copies memory at addresses that may be invalid.

use windows_sys::Win32::System::Diagnostics::Debug::ReadProcessMemory;
use windows_sys::Win32::System::Threading::GetCurrentProcess;

pub const MAX_COPY: usize = 4096;

pub fn copy(address: usize, len: usize) -> Option<Vec<u8>> {
    let mut copy: Vec<u8> = Vec::new();
    copy.try_reserve_exact(Some(len).filter(|len| *len <= MAX_COPY)?).ok()?;
    let (from, to, mut copied) = (std::ptr::with_exposed_provenance(address), copy.as_mut_ptr().cast(), 0);
    // SAFETY: `to` is valid for writes, and the kernel checks `from`.
    let is_copied = unsafe { ReadProcessMemory(GetCurrentProcess(), from, to, len, &raw mut copied) } != 0;
    if !is_copied || copied != len {
        return None;
    }
    // SAFETY: the kernel has written these bytes.
    unsafe { copy.set_len(len) };
    Some(copy)
}

/// Returns `None`, because job limits on Windows apply to committed memory and not to address space.
pub fn address_space_limit() -> Option<u64> {
    None
}
