//! Registers functions for forks on Linux. Windows has no `fork`.

use std::sync::atomic::AtomicU32;

pub fn call_at_forks(_: unsafe extern "C" fn(), _: unsafe extern "C" fn(), _: unsafe extern "C" fn()) {}

#[inline]
pub fn word() -> &'static AtomicU32 {
    static WORD: AtomicU32 = AtomicU32::new(0);
    &WORD
}

pub fn prepare_word() {}
