//! A call that passes through a layer, with its arguments.

use std::fmt;

use cudnn_sys::types::{cudnnHandle_t, cudnnStatus_t};

use super::argument::Value;
use super::function::Function;

/// A call that is passing through a layer.
pub struct Call<'a> {
    /// The called function.
    pub function: Function,
    /// The first argument that is a handle, if any.
    pub handle: Option<cudnnHandle_t>,
    /// Visits the argument values in order. This is a closure, so that layers pay only for the arguments they read.
    arguments: &'a Arguments<'a>,
}

type Arguments<'a> = dyn Fn(&mut dyn FnMut(Value<'_>)) + 'a;

impl<'a> Call<'a> {
    pub(super) fn new(function: Function, handle: Option<cudnnHandle_t>, arguments: &'a Arguments<'a>) -> Self {
        Call { function, handle, arguments }
    }

    /// Visits the values of the arguments, in the order of [`Function::parameters`].
    pub fn visit_arguments(&self, mut visit: impl FnMut(Value<'_>)) {
        (self.arguments)(&mut visit);
    }

    /// Returns the first arguments as numbers (see [`Value::bits`]), padded with 0 if the function has fewer.
    #[must_use]
    pub fn bits<const N: usize>(&self) -> [u64; N] {
        let mut all = [0; N];
        let mut cells = all.iter_mut();
        self.visit_arguments(|value| {
            if let Some(cell) = cells.next() {
                *cell = value.bits();
            }
        });
        all
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("function", &self.function).field("handle", &self.handle).finish_non_exhaustive()
    }
}

/// The return type of a cuDNN function.
pub trait Returned: Sized {
    /// Returns the status, if the function returns one.
    fn status(&self) -> Option<cudnnStatus_t> {
        None
    }

    /// Returns a status as the result of the function, if it returns one.
    #[must_use]
    fn from_status(_: cudnnStatus_t) -> Option<Self> {
        None
    }
}

impl Returned for cudnnStatus_t {
    fn status(&self) -> Option<cudnnStatus_t> {
        Some(*self)
    }

    fn from_status(status: cudnnStatus_t) -> Option<Self> {
        Some(status)
    }
}

impl Returned for usize {}
impl Returned for () {}
impl Returned for *const std::ffi::c_char {}

/// Finds the handle among arguments of any type. Method resolution prefers the more specific trait.
pub(super) struct Handle<'a, T>(pub(super) &'a T);

pub(super) trait IsHandle {
    fn handle(&self) -> Option<cudnnHandle_t>;
}

impl IsHandle for Handle<'_, cudnnHandle_t> {
    fn handle(&self) -> Option<cudnnHandle_t> {
        Some(*self.0)
    }
}

pub(super) trait IsOther {
    fn handle(&self) -> Option<cudnnHandle_t> {
        None
    }
}

impl<T> IsOther for &Handle<'_, T> {}
