//! A replaceable value that is never freed, because other threads may use it.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

pub(crate) struct Leaked<T: 'static>(AtomicPtr<T>);

impl<T: Send + Sync> Leaked<T> {
    pub(crate) const fn new() -> Self {
        Leaked(AtomicPtr::new(null_mut()))
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        referenced(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn set(&self, value: &'static T) {
        self.0.store(std::ptr::from_ref(value).cast_mut(), Ordering::Release);
    }

    /// Takes the value. Only one thread gets it.
    pub(crate) fn take(&self) -> Option<&'static T> {
        referenced(self.0.swap(null_mut(), Ordering::AcqRel))
    }
}

#[expect(clippy::disallowed_methods, reason = "the value belongs to this library")]
#[inline]
fn referenced<T>(value: *mut T) -> Option<&'static T> {
    // SAFETY: the address is null or was a `&'static T`.
    unsafe { value.as_ref() }
}
