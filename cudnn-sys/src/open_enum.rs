//! The form of every C enum here: a transparent newtype whose `Debug` prints name and value.

/// Declares one: the type, its enumerators as associated constants, its names, and `Debug`.
macro_rules! open_enum {
    (
        $(#[$type_doc:meta])*
        $type:ident: $repr:ty { $( $(#[$doc:meta])* $name:ident = $value:literal; )* }
    ) => {
        $(#[$type_doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(
            /// The value, known to this release or not.
            pub $repr,
        );

        impl $type {
            $( $(#[$doc])* pub const $name: $type = $type($value); )*

            /// Every enumerator of this release with its name, in the header's order. Two names may share a value.
            pub const ENUMERATORS: &'static [($type, &'static core::ffi::CStr)] = &[
                $( ($type($value), $crate::open_enum::c_str(concat!(stringify!($name), "\0"))), )*
            ];

            /// The enumerator's name in C; `None` for a value that this release does not know.
            #[must_use]
            pub fn name(self) -> Option<&'static core::ffi::CStr> {
                Self::ENUMERATORS.iter().find(|(value, _)| *value == self).map(|(_, name)| *name)
            }
        }

        impl core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                $crate::open_enum::debug(f, stringify!($type), self.name(), self.0.into())
            }
        }
    };
}
pub(crate) use open_enum;

/// A name with its terminating NUL, as C has it. Evaluated at compile time only.
pub(crate) const fn c_str(name: &str) -> &core::ffi::CStr {
    match core::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// `CUDNN_STATUS_BAD_PARAM (2000)`, or the type's name where the value has none.
pub(crate) fn debug(
    f: &mut core::fmt::Formatter<'_>,
    type_name: &str,
    name: Option<&core::ffi::CStr>,
    value: i64,
) -> core::fmt::Result {
    let name = name.and_then(|name| name.to_str().ok()).unwrap_or(type_name);
    write!(f, "{name} ({value})")
}
