//! Stores a program's options for layers, which replace the environment. Layers read them in `check` and `begin`.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

use cudnn_os::environment::is_secure_execution;

/// Returns an environment variable, unless it is empty or may come from a less privileged user. The loader ignores the
/// environment in secure-execution mode, but the program may have added the layer in code.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty() && !is_secure_execution())
}

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

/// Defines `configure`, which sets the options of a layer, and `CONFIGURED`, which stores them.
macro_rules! configured_in_code {
    ($(#[$note:meta])* $options:ty) => {
        static CONFIGURED: $crate::configured::Configured<$options> = $crate::configured::Configured::new();

        /// Sets the options in place of the environment. Call this before you add the layer, or it has no effect.
        $(#[$note])*
        pub fn configure(options: $options) {
            CONFIGURED.set(options);
        }
    };
}
pub(crate) use configured_in_code;
