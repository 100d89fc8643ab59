//! Represents a failed call as an error value with the function, the status, and cuDNN's message.

use alloc::string::{String, ToString};
use alloc::vec;
use core::ffi::{CStr, c_char};
use core::fmt;

use crate::{cudnnStatus_t, signatures};

/// A failed cuDNN call.
///
/// `{}` prints one line with the function, the status, and the first line of the message. `{:#}` and `{:?}` print the
/// complete message.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The function's name.
    pub function: &'static str,
    /// The returned status. [`cudnnStatus_t::category`] returns the general kind of error.
    pub status: cudnnStatus_t,
    /// The message from `cudnnGetLastErrorString`. It comes from cuDNN, or from `cudnn-loader` if a library could not
    /// be loaded. May be empty.
    pub text: String,
}

impl Error {
    /// Returns the error of a call that was not made, because cuDNN would not survive it. For the crates of this project.
    #[doc(hidden)]
    #[must_use]
    pub fn refused(function: &'static str, status: cudnnStatus_t, text: String) -> Self {
        Error { function, status, text }
    }

    /// Converts the status of a call to a `Result`. For a failure, this fetches and clears the message of the calling
    /// thread. Use [`check!`](crate::check) to call a function and convert the status.
    ///
    /// # Errors
    /// Returns an error for every status except success.
    ///
    /// # Safety
    /// `last_error` must be the `cudnnGetLastErrorString` of the same cuDNN as `function`.
    pub unsafe fn check(
        status: cudnnStatus_t,
        function: &'static str,
        last_error: signatures::cudnnGetLastErrorString,
    ) -> Result<(), Error> {
        if status.is_success() {
            return Ok(());
        }
        // Large enough for a report of cudnn-loader, which lists all searched directories.
        let mut text = vec![0 as c_char; 1 << 15];
        // SAFETY: the buffer has the length that is passed.
        unsafe { last_error(text.as_mut_ptr(), text.len()) };
        if let Some(last) = text.last_mut() {
            *last = 0;
        }
        // SAFETY: the buffer ends with a NUL.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().to_string();
        Err(Error { function, status, text })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} returned {:?}", self.function, self.status)?;
        // A report of cudnn-loader also starts with the function's name.
        let text = self.text.strip_prefix(self.function).unwrap_or(&self.text).trim_start();
        let text = if f.alternate() { text } else { text.lines().next().unwrap_or_default() };
        if text.is_empty() { Ok(()) } else { write!(f, ": {text}") }
    }
}

/// Prints the complete message, because `main` uses this format for a returned error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl core::error::Error for Error {}

/// Calls a cuDNN function and converts the status to a `Result` with cuDNN's message.
///
/// The macro works with both `use cudnn_sys as cudnn` and `use cudnn_loader as cudnn`.
///
/// ```no_run
/// # use cudnn_sys as cudnn;
/// # fn main() -> Result<(), cudnn::Error> {
/// let mut handle = std::ptr::null_mut();
/// // SAFETY: `handle` is valid for writes.
/// unsafe { cudnn::check!(cudnn::cudnnCreate(&mut handle)) }?;
/// // SAFETY: `handle` is live.
/// unsafe { cudnn::check!(cudnn::graph::cudnnDestroy(handle)) }?;
/// # Ok(())
/// # }
/// ```
///
/// The function may be named by any path. `cudnnGetLastErrorString` is taken from the same module, or from the parent
/// if the module is a sub-library (`graph`, `ops`, `cnn`, `adv`, `ext`).
#[macro_export]
macro_rules! check {
    ($($call:tt)+) => { $crate::__check!([] $($call)+) };
}

/// Splits the path of a call into the module and the function.
#[doc(hidden)]
#[macro_export]
macro_rules! __check {
    ([$($path:tt)*] graph :: $($call:tt)+) => { $crate::__check!(@ [$($path)*] [$($path)* graph ::] $($call)+) };
    ([$($path:tt)*] ops :: $($call:tt)+) => { $crate::__check!(@ [$($path)*] [$($path)* ops ::] $($call)+) };
    ([$($path:tt)*] cnn :: $($call:tt)+) => { $crate::__check!(@ [$($path)*] [$($path)* cnn ::] $($call)+) };
    ([$($path:tt)*] adv :: $($call:tt)+) => { $crate::__check!(@ [$($path)*] [$($path)* adv ::] $($call)+) };
    ([$($path:tt)*] ext :: $($call:tt)+) => { $crate::__check!(@ [$($path)*] [$($path)* ext ::] $($call)+) };
    ([] :: $($rest:tt)+) => { $crate::__check!([::] $($rest)+) };
    ([$($path:tt)*] $segment:tt :: $($rest:tt)+) => { $crate::__check!([$($path)* $segment ::] $($rest)+) };
    ([$($path:tt)*] $($call:tt)+) => { $crate::__check!(@ [$($path)*] [$($path)*] $($call)+) };
    (@ [$($api:tt)*] [$($module:tt)*] $function:ident ($($argument:expr),* $(,)?)) => {
        $crate::Error::check(
            $($module)* $function($($argument),*),
            stringify!($function),
            $($api)* cudnnGetLastErrorString,
        )
    };
    (@ $($other:tt)*) => {
        compile_error!("check! expects a call of a cuDNN function, as in check!(cudnn::cudnnCreate(&mut handle))")
    };
}
