//! A call that failed: which, with what status, and what cuDNN said of it on that thread, at once.

use alloc::string::{String, ToString};
use core::ffi::{CStr, c_char};
use core::fmt;

use crate::cudnnStatus_t;

/// A call of cuDNN's that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The function.
    pub function: &'static str,
    /// What it returned; [`cudnnStatus_t::category`] gives the kind.
    pub status: cudnnStatus_t,
    /// What `cudnnGetLastErrorString` said: cuDNN's words, or, with `cudnn-loader`, the story of what could not be loaded.
    /// Empty where it said nothing.
    pub text: String,
}

impl Error {
    /// `Ok` for success; otherwise fetches the text, which cuDNN keeps for the thread and forgets when it is fetched.
    ///
    /// `last_error` is the `cudnnGetLastErrorString` of the same cuDNN; [`check!`](crate::check) sees to that.
    ///
    /// # Errors
    /// For every status but success.
    pub fn check(
        status: cudnnStatus_t,
        function: &'static str,
        last_error: unsafe extern "C" fn(*mut c_char, usize),
    ) -> Result<(), Error> {
        if status.is_success() {
            return Ok(());
        }
        let mut text = [0 as c_char; 4096];
        // SAFETY: the buffer has the length that is said.
        unsafe { last_error(text.as_mut_ptr(), text.len()) };
        if let Some(last) = text.last_mut() {
            *last = 0;
        }
        // SAFETY: a NUL stands at the end at the latest.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().to_string();
        Err(Error { function, status, text })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} gave {:?}", self.function, self.status)?;
        if self.text.is_empty() { Ok(()) } else { write!(f, ": {}", self.text) }
    }
}

impl core::error::Error for Error {}

/// Makes a call and turns its status into a `Result`, with what cuDNN has to say of a failure. The same for
/// `use cudnn_sys as cudnn` and `use cudnn_loader as cudnn`.
///
/// ```ignore
/// let mut handle = std::ptr::null_mut();
/// unsafe { cudnn::check!(cudnn::cudnnCreate(&mut handle)) }?;
/// ```
#[macro_export]
macro_rules! check {
    ($api:ident :: $function:ident ( $($argument:expr),* $(,)? )) => {
        $crate::Error::check(
            $api::$function($($argument),*),
            stringify!($function),
            $api::cudnnGetLastErrorString,
        )
    };
}
