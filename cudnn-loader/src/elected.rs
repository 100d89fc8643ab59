//! A value that one thread makes and all others share, without a lock.
//!
//! The thread that comes first is elected to make it; the others wait, so that a library is opened once and not
//! sixty-four times. But nobody waits for ever, since the elected thread may itself wait for something that a waiting
//! one holds (the dynamic linker's lock, held while static constructors run), or may not exist (after `fork`): a
//! waiting thread that runs out of patience makes the value itself, and the first to publish wins. Making it twice is
//! harmless here: opening a library again gives the same library.

use std::ptr;

use crate::sync::{AtomicPtr, AtomicU64, Backoff, Ordering, thread_token};

/// A value made on first use, and kept until the process ends.
pub(crate) struct RaceOnce<T: 'static> {
    /// Null, or a leaked box: it is never freed, so that references to it may be handed out for ever.
    pub(crate) value: AtomicPtr<T>,
    /// Who makes the value just now; 0 for nobody.
    pub(crate) owner: AtomicU64,
}

impl<T: Send + Sync> RaceOnce<T> {
    /// The value, if it has been made.
    pub(crate) fn get(&self) -> Option<&'static T> {
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: a pointer stored here comes from `Box::into_raw` and is never freed; Acquire pairs with the Release
        // of `publish`, so the value behind it is wholly written.
        unsafe { value.as_ref() }
    }

    /// The value, made by this thread or by another.
    pub(crate) fn get_or_init(&self, make: impl Fn() -> T) -> &'static T {
        if let Some(value) = self.get() {
            return value;
        }
        let me = thread_token();
        if self.try_claim(me) {
            // Given up also when `make` unwinds, so that nobody waits for a thread that will not come back.
            let _term = ClaimGuard { maker: &self.owner, me };
            return self.get().unwrap_or_else(|| self.publish(make()));
        }
        self.wait(me).unwrap_or_else(|| self.publish(make()))
    }

    /// Forgets the value, so that the next use makes it anew. What was handed out stays valid: the value is leaked.
    pub(crate) fn reset(&self, value: &'static T) {
        let value = ptr::from_ref(value).cast_mut();
        // Only this very value: another thread may have made a new one in the meantime, which is not to be lost.
        let _ = self.value.compare_exchange(value, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire);
    }

    fn try_claim(&self, me: u64) -> bool {
        match self.owner.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            // A thread of the parent process was at it when this process was forked: it will never finish here.
            Err(other) if pid_of(other) != pid_of(me) => {
                self.owner.compare_exchange(other, me, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }
            Err(_) => false,
        }
    }

    /// Waits for the value. None when it is not to be waited for: this very thread is making it (a constructor of the
    /// library that it opens called back), nobody is making it any more, or patience has run out.
    fn wait(&self, me: u64) -> Option<&'static T> {
        let mut patience = Backoff::new();
        while self.get().is_none() {
            let maker = self.owner.load(Ordering::Acquire);
            if maker == me || maker == 0 || !patience.wait() {
                break;
            }
        }
        self.get()
    }

    /// Shares a value that this thread made, or drops it for one that another thread shared first.
    fn publish(&self, value: T) -> &'static T {
        let made = Box::into_raw(Box::new(value));
        match self.value.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: `made` comes from `Box::into_raw` just above and is never freed from here on.
            Ok(_) => unsafe { &*made },
            Err(first) => {
                // SAFETY: nobody else has seen `made`.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: a pointer stored there is never freed (see `get`).
                unsafe { &*first }
            }
        }
    }
}

/// A thread's time as the maker.
struct ClaimGuard<'a> {
    maker: &'a AtomicU64,
    me: u64,
}

impl Drop for ClaimGuard<'_> {
    fn drop(&mut self) {
        let _ = self.maker.compare_exchange(self.me, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

fn pid_of(identity: u64) -> u64 {
    identity >> 32
}
