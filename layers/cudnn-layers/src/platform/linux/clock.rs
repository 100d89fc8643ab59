//! The monotonic clock.

/// Nanoseconds since the machine started: `CLOCK_MONOTONIC`, which other tracers use too.
#[inline]
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the answer has room. The call reads shared memory and usually makes no system call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.cast_unsigned())
}
