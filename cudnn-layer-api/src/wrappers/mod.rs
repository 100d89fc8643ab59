//! Wrappers of cuDNN's functions with their types, generated from the function table of `cudnn-sys`.
//!
//! There are two ways to wrap a function. Both keep the functions that come next in a [`Next`], a table in a `static`:
//!
//! - [`replace`] calls your function instead, which has the same type. Use it for single functions.
//! - [`intercept`] calls your [`Intercept`] implementation, which receives any function with its arguments as values. Use it
//!   for all functions, for example to record them.
//!
//! ```
//! use cudnn_layer_api::types::{cudnnBackendDescriptor_t, cudnnStatus_t};
//! use cudnn_layer_api::wrappers::{Next, Replacement, replace};
//! use cudnn_layer_api::{Host, Layer, NextFunction};
//!
//! /// Logs descriptors that cuDNN refuses.
//! struct Refusals;
//!
//! static NEXT: Next = Next::new();
//! const REPLACEMENTS: &[Replacement] = &[Replacement::cudnnBackendFinalize(finalize)];
//!
//! impl Layer for Refusals {
//!     fn begin(_host: Host) -> Result<Self, String> {
//!         Ok(Refusals)
//!     }
//!     fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
//!         replace(&NEXT, REPLACEMENTS, next)
//!     }
//! }
//!
//! unsafe extern "C-unwind" fn finalize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
//!     let Some(next) = NEXT.cudnnBackendFinalize() else { return cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED };
//!     // SAFETY: the argument is the program's.
//!     let status = unsafe { next(descriptor) };
//!     if !status.is_success() {
//!         eprintln!("cuDNN refused a descriptor: {status:?}");
//!     }
//!     status
//! }
//! ```
//!
//! The functions have the ABI "C-unwind", because a callback of a C++ program may throw an exception through cuDNN.

mod argument;
mod call;
mod function;
mod intercept;
mod next;
mod replacement;

pub use argument::{Argument, ToValue, ToValueOther, Value};
pub use call::{Call, Returned};
pub use function::{Function, Parameter};
pub use intercept::{Intercept, intercept};
pub use next::Next;
pub use replacement::{Replacement, replace};
