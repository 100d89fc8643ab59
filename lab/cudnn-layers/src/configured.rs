//! Keeps what a program sets in code, so that a layer can read it more than once: in `check` and in `begin`.

use std::sync::{Mutex, PoisonError};

/// A value that overrides the environment if the program has set it.
pub(crate) struct Configured<T>(Mutex<Option<T>>);

impl<T: Clone> Configured<T> {
    pub(crate) const fn new() -> Self {
        Configured(Mutex::new(None))
    }

    pub(crate) fn set(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    pub(crate) fn get(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
