//! Stores a program's options for layers, which replace the environment. Layers read them in `check` and `begin`.

use std::ffi::OsString;

use cudnn_os::environment::is_secure_execution;

/// Returns an environment variable, unless it is empty or may come from a less privileged user. The loader ignores the
/// environment in secure-execution mode, but the program may have added the layer in code.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty() && !is_secure_execution())
}

/// Defines `configure`, which sets the options of a layer, and `configured`, which returns them.
macro_rules! configured_in_code {
    ($(#[$note:meta])* $options:ty) => {
        static CONFIGURED: std::sync::Mutex<Option<$options>> = std::sync::Mutex::new(None);

        /// Sets the options in place of the environment. Call this before you add the layer, or it has no effect.
        $(#[$note])*
        pub fn configure(options: $options) {
            *CONFIGURED.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(options);
        }

        fn configured() -> Option<$options> {
            CONFIGURED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
        }
    };
}
pub(crate) use configured_in_code;
