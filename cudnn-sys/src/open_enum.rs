//! How this crate represents a C enum: a transparent newtype whose `Debug` prints the enumerator's name and value.

/// Declares an enum's type, its enumerators as associated constants, their names, and the conversions.
macro_rules! open_enum {
    (
        $(#[$type_doc:meta])*
        $type:ident: $repr:ty { $( $(#[$doc:meta])* $name:ident = $value:literal; )* }
    ) => {
        $(#[$type_doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(
            /// The value, which may be unknown to the release of the bindings.
            pub $repr,
        );

        impl $type {
            $( $(#[$doc])* pub const $name: $type = $type($value); )*

            /// All enumerators with their names, in the header's order. Two names may share a value.
            pub const ENUMERATORS: &'static [($type, &'static core::ffi::CStr)] = &[
                $( ($type($value), $crate::open_enum::c_str(concat!(stringify!($name), "\0"))), )*
            ];

            /// The enumerator's name in C; `None` if the value is unknown to the release of the bindings.
            #[must_use]
            pub fn name(self) -> Option<&'static core::ffi::CStr> {
                Self::ENUMERATORS.iter().find(|(value, _)| *value == self).map(|(_, name)| *name)
            }
        }

        impl From<$type> for $repr {
            fn from(value: $type) -> $repr {
                value.0
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

/// A name with its terminating NUL as a C string, at compile time.
pub(crate) const fn c_str(name: &str) -> &core::ffi::CStr {
    match core::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// Writes `CUDNN_STATUS_BAD_PARAM (2000)`, with the type's name if the value has none.
pub(crate) fn debug(
    f: &mut core::fmt::Formatter<'_>,
    type_name: &str,
    name: Option<&core::ffi::CStr>,
    value: i64,
) -> core::fmt::Result {
    let name = name.and_then(|name| name.to_str().ok()).unwrap_or(type_name);
    write!(f, "{name} ({value})")
}
