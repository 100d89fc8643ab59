//! A failed call as an error value: the function, its status, and cuDNN's message.

use alloc::string::{String, ToString};
use alloc::vec;
use core::ffi::{CStr, c_char};
use core::fmt;

use crate::{cudnnStatus_t, signatures};

/// A failed call of a cuDNN function.
///
/// `{}` prints one line: the function, its status and the first line of the message. `{:#}` and `{:?}` print the complete
/// message.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The function.
    pub function: &'static str,
    /// The status that it returned. [`cudnnStatus_t::category`] gives its kind.
    pub status: cudnnStatus_t,
    /// The message of `cudnnGetLastErrorString`: cuDNN's, or `cudnn-loader`'s report if a library could not be loaded.
    /// May be empty.
    pub text: String,
}

impl Error {
    /// Turns the status of a call into a `Result`. For a failure, fetches the calling thread's message, which also
    /// clears it. [`check!`](crate::check) does this for a call.
    ///
    /// # Errors
    /// For every status but success.
    ///
    /// # Safety
    /// `last_error` is the `cudnnGetLastErrorString` of the cuDNN whose `function` returned the status.
    pub unsafe fn check(
        status: cudnnStatus_t,
        function: &'static str,
        last_error: signatures::cudnnGetLastErrorString,
    ) -> Result<(), Error> {
        if status.is_success() {
            return Ok(());
        }
        // A report of cudnn-loader lists every directory that it searched.
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
        // cudnn-loader's report begins with the function's name too.
        let text = self.text.strip_prefix(self.function).unwrap_or(&self.text).trim_start();
        let text = if f.alternate() { text } else { text.lines().next().unwrap_or_default() };
        if text.is_empty() { Ok(()) } else { write!(f, ": {text}") }
    }
}

/// What `main` prints when it returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl core::error::Error for Error {}

/// Calls a cuDNN function and turns its status into a `Result` with cuDNN's message. Works the same with
/// `use cudnn_sys as cudnn` and `use cudnn_loader as cudnn`.
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
/// The function may be named by any path. The macro takes `cudnnGetLastErrorString` from the module that has the
/// function, or from the parent of a sub-library's module (`graph`, `ops`, `cnn`, `adv`, `ext`).
#[macro_export]
macro_rules! check {
    ($($call:tt)+) => { $crate::__check!([] $($call)+) };
}

/// Splits the path of a call into the module of the function and the function.
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
