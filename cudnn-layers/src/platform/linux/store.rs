//! A store that the end of the process cannot cut in two.

/// Writes 16 bytes by one instruction: a process that is killed has executed it or has not.
///
/// # Safety
/// The bytes may be written, in any alignment.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn store(to: *mut u8, word: u128) {
    // SAFETY: both are 16 bytes.
    let word: std::arch::x86_64::__m128i = unsafe { std::mem::transmute(word.to_le_bytes()) };
    // SAFETY: the caller's obligation.
    unsafe {
        std::arch::asm!("movups [{to}], {word}", to = in(reg) to, word = in(xmm_reg) word,
            options(nostack, preserves_flags));
    }
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(super) unsafe fn store(to: *mut u8, word: u128) {
    // SAFETY: both are 16 bytes.
    let word: std::arch::aarch64::uint8x16_t = unsafe { std::mem::transmute(word.to_le_bytes()) };
    // SAFETY: the caller's obligation.
    unsafe {
        std::arch::asm!("str {word:q}, [{to}]", to = in(reg) to, word = in(vreg) word,
            options(nostack, preserves_flags));
    }
}

/// As above, but a process that is killed may have written a part: there is no cuDNN for other machines.
///
/// # Safety
/// As above.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(super) unsafe fn store(to: *mut u8, word: u128) {
    // SAFETY: the caller's obligation.
    unsafe { to.cast::<[u8; 16]>().write_unaligned(word.to_le_bytes()) };
}
