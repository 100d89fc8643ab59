//! Converts the arguments of calls to values that a layer can show or store.

use std::fmt::Debug;

/// The value of an argument.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
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
    #[must_use]
    pub fn bits(self) -> u64 {
        match self {
            Value::Signed(number) => number.cast_unsigned(),
            Value::Unsigned(number) | Value::Other(_, number) => number,
            Value::Float(number) => number.to_bits(),
            Value::Pointer(address) => address as u64,
        }
    }
}

/// An argument of any type of cuDNN's API, as in `(&Argument::new(&x)).value()` with [`ToValue`] and [`ToValueOther`] in scope.
/// Method resolution prefers the more specific trait.
#[derive(Debug)]
pub struct Argument<'a, T>(&'a T);

impl<'a, T> Argument<'a, T> {
    /// Wraps an argument.
    ///
    /// # Safety
    /// `T` is the type of a parameter of cuDNN's API. These types contain no uninitialized bytes.
    pub unsafe fn new(argument: &'a T) -> Self {
        Argument(argument)
    }
}

/// Converts numbers and pointers.
pub trait ToValue {
    /// Returns the value.
    fn value(&self) -> Value<'_>;
}

macro_rules! plain {
    ($($variant:ident($to:ty): $($type:ty),*;)*) => { $($(
        impl ToValue for Argument<'_, $type> {
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

impl ToValue for Argument<'_, usize> {
    fn value(&self) -> Value<'_> {
        Value::Unsigned(*self.0 as u64)
    }
}

impl<T> ToValue for Argument<'_, *const T> {
    fn value(&self) -> Value<'_> {
        Value::Pointer(self.0.addr())
    }
}

impl<T> ToValue for Argument<'_, *mut T> {
    fn value(&self) -> Value<'_> {
        Value::Pointer(self.0.addr())
    }
}

/// Converts enums and function pointers.
pub trait ToValueOther {
    /// Returns the value.
    fn value(&self) -> Value<'_>;
}

impl<T: Copy + Debug> ToValueOther for &Argument<'_, T> {
    fn value(&self) -> Value<'_> {
        let mut bits = 0_u64.to_ne_bytes();
        // SAFETY: as guaranteed when the argument was wrapped, it contains no uninitialized bytes.
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self.0).cast::<u8>(), size_of::<T>()) };
        for (to, from) in bits.iter_mut().zip(bytes) {
            *to = *from;
        }
        Value::Other(self.0, u64::from_le_bytes(bits))
    }
}
