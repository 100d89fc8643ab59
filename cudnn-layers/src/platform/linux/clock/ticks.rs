//! The processor's counter of time: on x86-64 the time-stamp counter, on aarch64 the virtual counter.

/// The counter's value. It may be read some instructions early or late.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn now() -> u64 {
    // SAFETY: every processor of this architecture has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(super) fn now() -> u64 {
    let ticks;
    // SAFETY: Linux lets programs read the register.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// As above: there is none.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(super) fn now() -> u64 {
    0
}

/// Whether it counts at one rate and alike on all cores: the kernel has checked that if it keeps its time by it.
pub(super) fn are_trusted() -> bool {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    source.is_ok_and(|source| is_counter(source.trim_end())) && may_be_read()
}

#[cfg(target_arch = "x86_64")]
fn is_counter(source: &str) -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    #[allow(unused_unsafe, reason = "it is safe in newer compilers")]
    // SAFETY: every processor of this architecture has the instruction.
    let is_invariant =
        unsafe { __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT && __cpuid(POWER_MANAGEMENT).edx & INVARIANT != 0 };
    source == "tsc" && is_invariant
}

/// A program may have forbidden itself to read the counter: that would be a SIGSEGV.
#[cfg(target_arch = "x86_64")]
fn may_be_read() -> bool {
    let mut state: std::ffi::c_int = 0;
    // SAFETY: the answer has room.
    let asked = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut state) };
    asked == 0 && state == libc::PR_TSC_ENABLE
}

#[cfg(target_arch = "aarch64")]
fn is_counter(source: &str) -> bool {
    source == "arch_sys_counter"
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn is_counter(_: &str) -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn may_be_read() -> bool {
    true
}
