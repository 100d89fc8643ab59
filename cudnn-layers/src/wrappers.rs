//! A function in front of each function of cuDNN, made from the one table. Knows the signatures, and no layer.

use std::ffi::{CStr, c_void};
use std::fmt::Debug;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_sys::types::{cudnnHandle_t, cudnnStatus_t};

macro_rules! names {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => {
        /// A function of cuDNN: its place in the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(crate) enum Id { $($($variant,)*)* }

        impl Id {
            /// All functions' names, in the order of the table.
            pub(crate) const NAMES: &'static [&'static str] = &[$($(stringify!($name),)*)*];
        }
    };
}
cudnn_sys::for_each_function!(names);

impl Id {
    /// The name in C.
    pub(crate) fn name(self) -> &'static str {
        Id::NAMES.get(self as usize).copied().unwrap_or_default()
    }

    /// The function's place in the table, by its name.
    pub(crate) fn index_of(name: &[u8]) -> Option<usize> {
        Id::NAMES.iter().position(|known| known.as_bytes() == name)
    }
}

/// A call on its way through a layer.
pub(crate) struct Call<'a> {
    /// The function.
    pub(crate) function: Id,
    /// The names and values of the arguments, in order.
    pub(crate) arguments: &'a [Argument<'a>],
    /// The first argument that is a handle.
    pub(crate) handle: Option<cudnnHandle_t>,
}

/// An argument of a call.
pub(crate) struct Argument<'a> {
    /// The parameter's name in cuDNN's headers.
    pub(crate) name: &'static str,
    /// The parameter's type in Rust.
    pub(crate) type_name: &'static str,
    /// The value: an enum by name and number, a pointer as its address.
    pub(crate) value: &'a dyn Debug,
}

/// What a function of cuDNN returns.
pub(crate) trait Returned {
    /// The status, if it is one.
    fn status(&self) -> Option<cudnnStatus_t> {
        None
    }
}

impl Returned for cudnnStatus_t {
    fn status(&self) -> Option<cudnnStatus_t> {
        Some(*self)
    }
}

impl Returned for usize {}
impl Returned for () {}
impl Returned for *const std::ffi::c_char {}

/// Finds the handle among arguments of any type: the method of the more specific trait wins.
pub(crate) struct Handle<'a, T>(pub(crate) &'a T);

pub(crate) trait IsHandle {
    fn handle(&self) -> Option<cudnnHandle_t>;
}

impl IsHandle for Handle<'_, cudnnHandle_t> {
    fn handle(&self) -> Option<cudnnHandle_t> {
        Some(*self.0)
    }
}

pub(crate) trait IsOther {
    fn handle(&self) -> Option<cudnnHandle_t> {
        None
    }
}

impl<T> IsOther for &Handle<'_, T> {}

/// The function behind each wrapper of one layer.
pub(crate) struct Next([AtomicPtr<c_void>; Id::NAMES.len()]);

impl Next {
    pub(crate) const fn new() -> Self {
        Next([const { AtomicPtr::new(std::ptr::null_mut()) }; Id::NAMES.len()])
    }

    pub(crate) fn set(&self, index: usize, next: *const c_void) {
        if let Some(cell) = self.0.get(index) {
            cell.store(next.cast_mut(), Ordering::Release);
        }
    }

    /// The function of this wrapper. Set before the wrapper's address leaves the layer.
    #[inline(always)]
    pub(crate) fn get(&self, function: Id) -> *mut c_void {
        // One cell for each function, and functions are numbered from 0.
        #[allow(clippy::indexing_slicing, reason = "there is one cell for each function")]
        let cell = &self.0[function as usize];
        cell.load(Ordering::Acquire)
    }
}

/// A layer that runs code around calls.
pub(crate) trait Around: Sized + 'static {
    /// Runs a call: `next` makes it, and is to be called once. An exception of a callback of the program may unwind
    /// through this.
    fn around<R: Returned>(call: &Call<'_>, next: impl FnOnce() -> R) -> R;

    /// Where this layer keeps the functions behind its wrappers.
    fn next() -> &'static Next;
}

macro_rules! wrappers {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => {
        #[allow(non_snake_case, reason = "these are cuDNN's function names")]
        mod functions {
            use super::{Around, Argument, Call, Handle, Id, IsHandle as _, IsOther as _};
            $($(
                pub(super) unsafe extern "C-unwind" fn $name<L: Around>($($argument: $type),*) -> $returns {
                    type Signature = unsafe extern "C-unwind" fn($($type),*) -> $returns;
                    let next = L::next().get(Id::$variant);
                    // SAFETY: the address is that of the function behind this one, which has the same signature.
                    let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Signature>(next) };
                    let call = Call {
                        function: Id::$variant,
                        arguments: &[$(Argument {
                            name: stringify!($argument),
                            type_name: stringify!($type),
                            value: &$argument,
                        }),*],
                        handle: None$(.or((&Handle(&$argument)).handle()))*,
                    };
                    // SAFETY: the caller's obligation, passed on unchanged.
                    L::around(&call, || unsafe { next($($argument),*) })
                }
            )*)*
        }

        /// The wrapper of the function at this place of the table.
        fn wrapper<L: Around>(index: usize) -> Option<*const c_void> {
            let wrappers = [$($(functions::$name::<L> as *const c_void,)*)*];
            wrappers.get(index).copied()
        }
    };
}
cudnn_sys::for_each_function!(wrappers);

/// The wrapper to call in place of `next`, which it calls; `next` for a function that these bindings do not know.
pub(crate) fn wrap<L: Around>(function: &CStr, next: *const c_void) -> *const c_void {
    let Some(index) = Id::index_of(function.to_bytes()) else { return next };
    L::next().set(index, next);
    wrapper::<L>(index).unwrap_or(next)
}
