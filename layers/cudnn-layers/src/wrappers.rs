//! Generates a wrapper for every cuDNN function from the function table of `cudnn-sys`, for use by any layer.

use std::ffi::{CStr, c_void};
use std::fmt::Debug;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_sys::types::{cudnnHandle_t, cudnnStatus_t};

macro_rules! names {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => {
        /// A cuDNN function, numbered by its position in the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(crate) enum Id { $($($variant,)*)* }

        impl Id {
            /// All functions, in the order of the table.
            pub(crate) const ALL: &'static [Id] = &[$($(Id::$variant,)*)*];

            /// All functions' names, in the order of the table.
            pub(crate) const NAMES: &'static [&'static str] = &[$($(stringify!($name),)*)*];

            /// All functions' parameters, in the order of the table.
            const PARAMETERS: &'static [&'static [Parameter]] = &[$($(
                &[$(Parameter { name: stringify!($argument), rust_type: stringify!($type) }),*],
            )*)*];
        }
    };
}
cudnn_sys::for_each_function!(names);

impl Id {
    /// Returns the function's C name.
    pub(crate) fn name(self) -> &'static str {
        Id::NAMES.get(self as usize).copied().unwrap_or_default()
    }

    /// Returns the parameters in order.
    pub(crate) fn parameters(self) -> &'static [Parameter] {
        Id::PARAMETERS.get(self as usize).copied().unwrap_or_default()
    }

    /// Returns whether the function has a handle or a stream and starts work on the device. cuDNN's names are regular
    /// enough to decide this.
    pub(crate) fn starts_work(self) -> bool {
        const WORK: [&str; 18] = [
            "AddTensor",
            "Apply",
            "Backward",
            "CTCLoss",
            "Conv1d",
            "Execute",
            "Forward",
            "Gnn",
            "Im2Col",
            "OpTensor",
            "ReduceTensor",
            "ReorderFilter",
            "ScaleTensor",
            "SetTensor",
            "SpatialTf",
            "Subquadratic",
            "TransformFilter",
            "TransformTensor",
        ];
        const NO_WORK: [&str; 6] = ["Create", "Descriptor", "Find", "Get", "Make", "Size"];
        let runs_on = ["cudnnHandle_t", "cudaStream_t"];
        let has_stream = self.parameters().iter().any(|it| runs_on.iter().any(|name| it.rust_type.ends_with(name)));
        let name = self.name();
        has_stream && WORK.iter().any(|word| name.contains(word)) && !NO_WORK.iter().any(|word| name.contains(word))
    }

    /// Finds the function with this name.
    pub(crate) fn from_name(name: &[u8]) -> Option<Id> {
        Id::ALL.iter().copied().find(|function| function.name().as_bytes() == name)
    }
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    /// The name in cuDNN's headers.
    pub(crate) name: &'static str,
    /// The Rust type, as written in the function table.
    pub(crate) rust_type: &'static str,
}

/// A call that is passing through a layer.
pub(crate) struct Call<'a> {
    /// The called function.
    pub(crate) function: Id,
    /// The first argument that is a handle, if any.
    pub(crate) handle: Option<cudnnHandle_t>,
    /// Visits the argument values in order. This is a closure, so that layers pay only for the arguments they read.
    arguments: &'a Arguments<'a>,
}

type Arguments<'a> = dyn Fn(&mut dyn FnMut(Value<'_>)) + 'a;

impl Call<'_> {
    /// Visits the values of the arguments, in the order of [`Id::parameters`].
    pub(crate) fn visit_arguments(&self, mut visit: impl FnMut(Value<'_>)) {
        (self.arguments)(&mut visit);
    }

    /// Returns the first arguments as numbers (see [`Value::bits`]), padded with 0 if the function has fewer.
    pub(crate) fn bits<const N: usize>(&self) -> [u64; N] {
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

/// The value of an argument.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    /// A signed number.
    Signed(i64),
    /// An unsigned number.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// An address, for example of a descriptor or handle.
    Pointer(usize),
    /// An enum, which prints as a name, or a function pointer. The second field contains the bytes as a number.
    Other(&'a dyn Debug, u64),
}

impl Value<'_> {
    /// Converts the value to a number: the address of a pointer, the discriminant of an enum.
    pub(crate) fn bits(self) -> u64 {
        match self {
            Value::Signed(number) => number.cast_unsigned(),
            Value::Unsigned(number) | Value::Other(_, number) => number,
            Value::Float(number) => number.to_bits(),
            Value::Pointer(address) => address as u64,
        }
    }
}

/// The return type of a cuDNN function.
pub(crate) trait Returned: Sized {
    /// Returns the status, if the function returns one.
    fn status(&self) -> Option<cudnnStatus_t> {
        None
    }

    /// Returns a status as the result of the function, if it returns one.
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

/// Converts an argument of any type to a [`Value`]. Method resolution prefers the more specific trait.
pub(crate) struct Argument<'a, T>(pub(crate) &'a T);

pub(crate) trait IsPlain {
    fn value(&self) -> Value<'_>;
}

macro_rules! plain {
    ($($variant:ident($to:ty): $($type:ty),*;)*) => { $($(
        impl IsPlain for Argument<'_, $type> {
            #[inline]
            fn value(&self) -> Value<'_> {
                Value::$variant(<$to>::from(*self.0))
            }
        }
    )*)* };
}
plain! {
    Signed(i64): i32, i64;
    Unsigned(u64): u32, u64;
    Float(f64): f32, f64;
}

impl IsPlain for Argument<'_, usize> {
    fn value(&self) -> Value<'_> {
        Value::Unsigned(*self.0 as u64)
    }
}

impl<T> IsPlain for Argument<'_, *const T> {
    fn value(&self) -> Value<'_> {
        Value::Pointer(self.0.addr())
    }
}

impl<T> IsPlain for Argument<'_, *mut T> {
    fn value(&self) -> Value<'_> {
        Value::Pointer(self.0.addr())
    }
}

pub(crate) trait IsNotPlain {
    fn value(&self) -> Value<'_>;
}

impl<T: Copy + Debug> IsNotPlain for &Argument<'_, T> {
    fn value(&self) -> Value<'_> {
        let mut bits = 0_u64.to_ne_bytes();
        // SAFETY: all argument types are numbers and pointers, which contain no padding.
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self.0).cast::<u8>(), size_of::<T>()) };
        for (to, from) in bits.iter_mut().zip(bytes) {
            *to = *from;
        }
        Value::Other(self.0, u64::from_le_bytes(bits))
    }
}

/// The next function in the chain for each wrapper of one layer.
pub(crate) struct Next([AtomicPtr<c_void>; Id::NAMES.len()]);

impl Next {
    pub(crate) const fn new() -> Self {
        Next([const { AtomicPtr::new(std::ptr::null_mut()) }; Id::NAMES.len()])
    }

    pub(crate) fn set(&self, function: Id, next: *const c_void) {
        if let Some(cell) = self.0.get(function as usize) {
            cell.store(next.cast_mut(), Ordering::Release);
        }
    }

    /// Returns the function that a wrapper calls. It is set before the wrapper's address leaves the layer.
    #[inline(always)]
    pub(crate) fn get(&self, function: Id) -> *mut c_void {
        #[allow(clippy::indexing_slicing, reason = "there is one cell for each function")]
        let cell = &self.0[function as usize];
        cell.load(Ordering::Acquire)
    }
}

/// A layer that runs code around calls.
pub(crate) trait Around: Sized + 'static {
    /// Runs a call by invoking `next` once, or answers it. Exceptions thrown by the program's callbacks may unwind
    /// through this function.
    fn around<R: Returned>(call: &Call<'_>, next: impl FnOnce() -> R) -> R;

    /// Returns the table of next functions for this layer.
    fn next() -> &'static Next;
}

macro_rules! wrappers {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => {
        #[allow(non_snake_case, reason = "these are cuDNN's function names")]
        mod functions {
            use super::{
                Around, Argument, Call, Handle, Id, IsHandle as _, IsNotPlain as _, IsOther as _, IsPlain as _, Value,
            };
            $($(
                pub(super) unsafe extern "C-unwind" fn $name<L: Around>($($argument: $type),*) -> $returns {
                    type Signature = unsafe extern "C-unwind" fn($($type),*) -> $returns;
                    let next = L::next().get(Id::$variant);
                    // SAFETY: the table contains the next function with this name, which has the same signature.
                    let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Signature>(next) };
                    let arguments = |_visit: &mut dyn FnMut(Value<'_>)| {
                        $(_visit((&Argument(&$argument)).value());)*
                    };
                    let call = Call {
                        function: Id::$variant,
                        arguments: &arguments,
                        handle: None$(.or((&Handle(&$argument)).handle()))*,
                    };
                    // SAFETY: the caller's obligation, passed on unchanged.
                    L::around(&call, || unsafe { next($($argument),*) })
                }
            )*)*
        }

        /// Returns the wrapper of a function.
        fn wrapper<L: Around>(function: Id) -> Option<*const c_void> {
            let wrappers = [$($(functions::$name::<L> as *const c_void,)*)*];
            wrappers.get(function as usize).copied()
        }
    };
}
cudnn_sys::for_each_function!(wrappers);

/// Returns the wrapper to call instead of `next`. Functions that these bindings do not know are returned unchanged.
pub(crate) fn wrap<L: Around>(function: &CStr, next: *const c_void) -> *const c_void {
    let Some(function) = Id::from_name(function.to_bytes()) else { return next };
    L::next().set(function, next);
    wrapper::<L>(function).unwrap_or(next)
}
