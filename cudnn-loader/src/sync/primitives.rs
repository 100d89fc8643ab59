//! Provides atomics, thread identities and bounded waiting for the lock-free types. To check the original `once.rs` and
//! `slot.rs`, the model in `model/` replaces this file with loom's types.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use cudnn_os::lock::lock_within;
pub(crate) use cudnn_os::lock::{Backoff, thread_token};

/// Takes the lock, or returns `None` after a second. In a forked child, a lock that another thread of the parent held
/// is never released.
pub fn lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    lock_within(mutex, Backoff::TIMEOUT)
}
