//! Declares C's types and constants with documentation. An enum is a transparent newtype that prints the enumerator's
//! name and value.

/// Documents an item with its origin, the first release, the deprecation (with the release, or empty) and a link. `opaque`
/// is a struct that C only declares.
macro_rules! item {
    (opaque $name:ident; $($documentation:tt)+) => {
        item! {
            #[repr(C)]
            #[derive(Debug)]
            pub struct $name {
                _unused: [u8; 0],
            }
            $($documentation)+
        }
    };
    ($item:item $origin:literal $(, since $since:literal $(, deprecated $deprecated:literal)?)?, $link:literal) => {
        #[doc = concat!($origin $(, ", since cuDNN ", $since, ".")?)]
        $($(
            #[doc = concat!("**Deprecated**", $deprecated, ".")]
            #[cfg_attr(
                feature = "warn-deprecated",
                deprecated(note = "cuDNN's headers mark this name as deprecated")
            )]
        )?)?
        #[doc = $link]
        $item
    };
}
pub(crate) use item;

/// Declares an enum with enumerators as associated constants, their names, and conversions. Documents each like `item!`.
macro_rules! open_enum {
    (
        $origin:literal, $link:literal;
        $(#[$attribute:meta])*
        $type:ident: $repr:ty $(, since $type_since:literal $(, deprecated $type_deprecated:literal)?)? {
            $( $name:ident = $value:literal $(, since $since:literal $(, deprecated $deprecated:literal)?)?; )*
        }
    ) => {
        item! {
            $(#[$attribute])*
            #[repr(transparent)]
            #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $type(
                /// The value. It may be unknown to these bindings.
                pub $repr,
            );
            $origin $(, since $type_since $(, deprecated $type_deprecated)?)?, $link
        }

        impl $type {
            $(
                #[doc = concat!($origin $(, ", since cuDNN ", $since, ".")?)]
                $($(
                    #[doc = concat!("**Deprecated**", $deprecated, ".")]
                    #[cfg_attr(
                        feature = "warn-deprecated",
                        deprecated(note = "cuDNN's headers mark this name as deprecated")
                    )]
                )?)?
                #[doc = $link]
                pub const $name: $type = $type($value);
            )*

            /// All enumerators with their names, in the order of the header. Two names may share a value.
            pub const ENUMERATORS: &'static [($type, &'static core::ffi::CStr)] = &[
                $( ($type($value), $crate::open_enum::c_str(concat!(stringify!($name), "\0"))), )*
            ];

            /// Returns the enumerator's name in C, or `None` if the value is unknown to these bindings.
            #[must_use]
            pub fn name(self) -> Option<&'static core::ffi::CStr> {
                // `ENUMERATORS` would take three times the space and need relocations, because it stores pointers to
                // strings.
                const VALUES: &[$repr] = &[$( $value, )*];
                const NAMES: &str = concat!($( stringify!($name), "\0", )*);
                const STARTS: [u16; VALUES.len()] = $crate::open_enum::starts(NAMES.as_bytes());
                let index = VALUES.iter().position(|value| *value == self.0)?;
                let name = NAMES.as_bytes().get(usize::from(*STARTS.get(index)?)..)?;
                core::ffi::CStr::from_bytes_until_nul(name).ok()
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

/// Converts a NUL-terminated name to a C string at compile time.
pub(crate) const fn c_str(name: &str) -> &core::ffi::CStr {
    match core::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// Returns the start of each name in a list of NUL-terminated names, at compile time.
pub(crate) const fn starts<const COUNT: usize>(mut names: &[u8]) -> [u16; COUNT] {
    assert!(names.len() <= u16::MAX as usize, "the names are too long for 16-bit offsets");
    let mut starts = [0; COUNT];
    let mut rest: &mut [u16] = &mut starts;
    let mut place = 0;
    let mut is_start = true;
    while let [byte, others @ ..] = names {
        if is_start && let [start, later @ ..] = rest {
            *start = place;
            rest = later;
        }
        is_start = *byte == 0;
        place += 1;
        names = others;
    }
    starts
}

/// Writes `CUDNN_STATUS_BAD_PARAM (2000)`, or the type's name if the value is unknown.
pub(crate) fn debug(
    f: &mut core::fmt::Formatter<'_>,
    type_name: &str,
    name: Option<&core::ffi::CStr>,
    value: i64,
) -> core::fmt::Result {
    let name = name.and_then(|name| name.to_str().ok()).unwrap_or(type_name);
    write!(f, "{name} ({value})")
}

#[cfg(test)]
mod tests {
    use alloc::format;

    open_enum! {
        "An enum with a name twice, a gap and a negative value.", "";
        Letter: core::ffi::c_int {
            A = 0;
            ALSO_A = 0;
            LONGER = 7;
            NEGATIVE = -1;
        }
    }

    #[test]
    fn a_value_with_two_names_uses_the_first() {
        assert_eq!([Letter::A, Letter::LONGER].map(Letter::name), [Some(c"A"), Some(c"LONGER")]);
        assert_eq!(Letter(1).name(), None);
        assert_eq!(format!("{:?} {:?}", Letter::NEGATIVE, Letter(1)), "NEGATIVE (-1) Letter (1)");
    }

    #[test]
    fn every_status_has_its_name() {
        let all = crate::cudnnStatus_t::ENUMERATORS;
        for (status, _) in all {
            let first = all.iter().find(|(value, _)| value == status).map(|(_, name)| *name);
            assert_eq!(status.name(), first);
        }
    }
}
