//! Lists cuDNN's public functions with their names, sub-libraries and first releases, generated from the function
//! table.

use std::ffi::CStr;
use std::fmt;

use cudnn_probe::{Library, Version};

macro_rules! functions {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        /// A function of cuDNN's public API, as a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Function { $($(
            #[doc = concat!("`libcudnn_", stringify!($library), "`, since cuDNN ", $($since, ".",)* " ", $doc)]
            $variant,
        )*)* }

        impl Function {
            /// All functions, grouped by sub-library.
            pub const ALL: &'static [Function] = &[$($(Function::$variant,)*)*];

            /// The table rows, in the order of the variants.
            const INFO: &'static [FunctionInfo] =
                &[$($( FunctionInfo {
                    library: library!($library),
                    since: [$($since),*],
                    deprecated: $deprecated,
                    takes_handle: is_handle(&[$(stringify!($type)),*]),
                }, )*)*];

            /// The names in order, NUL-terminated. A single string, because a pointer per name would make the drop-in
            /// library larger.
            const NAMES: &'static str = concat!($($( stringify!($name), "\0", )*)*);
        }
    };
}

macro_rules! library {
    (graph) => {
        Library::Graph
    };
    (ops) => {
        Library::Ops
    };
    (cnn) => {
        Library::Cnn
    };
    (adv) => {
        Library::Adv
    };
    (ext) => {
        Library::Ext
    };
}

cudnn_sys::for_each_function!(functions);

/// A row of the table.
#[derive(Clone, Copy)]
struct FunctionInfo {
    library: Library,
    since: [u8; 3],
    deprecated: bool,
    takes_handle: bool,
}

/// Returns whether the first of these argument types is a handle.
const fn is_handle(types: &[&str]) -> bool {
    let ([first, ..], wanted) = (types, b"cudnnHandle_t") else { return false };
    let Some((_, end)) = first.as_bytes().split_at_checked(first.len().saturating_sub(wanted.len())) else {
        return false;
    };
    matches!(end, b"cudnnHandle_t")
}

impl Function {
    /// Returns the name in C, for example `cudnnCreate`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Function::NAMES.split('\0').nth(self as usize).unwrap_or_default()
    }

    /// Returns the names of [`Function::ALL`] in the same order. Faster than calling [`Function::name`] for every
    /// function.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Function::NAMES.split_terminator('\0')
    }

    /// Returns the NUL-terminated name.
    pub(crate) fn symbol(self) -> &'static CStr {
        let names = Function::NAMES.as_bytes();
        let name = names.split_inclusive(|byte| *byte == 0).nth(self as usize);
        name.and_then(|name| CStr::from_bytes_with_nul(name).ok()).unwrap_or_default()
    }

    const fn info(self) -> FunctionInfo {
        // The table has one row per variant, and variants are numbered from 0.
        #[allow(clippy::indexing_slicing, reason = "there is one row for each variant")]
        Function::INFO[self as usize]
    }

    /// Returns the sub-library that exports the function.
    #[must_use]
    pub const fn library(self) -> Library {
        self.info().library
    }

    /// Returns whether a call may create a plan, for which graph opens heuristics and engines.
    pub(crate) fn may_plan(self) -> bool {
        let FunctionInfo { library, takes_handle, .. } = self.info();
        self == Function::CudnnBackendFinalize || library != Library::Graph && takes_handle
    }

    /// Returns the first cuDNN release that includes the function.
    #[must_use]
    pub const fn since(self) -> Version {
        let [major, minor, patch] = self.info().since;
        Version::new(major as u32, minor as u32, patch as u32)
    }

    /// Returns whether NVIDIA had deprecated the function in the release that these bindings were generated from.
    #[must_use]
    pub const fn is_deprecated(self) -> bool {
        self.info().deprecated
    }

    /// Returns the function with this C name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Function> {
        Function::names().zip(Function::ALL).find(|(known, _)| *known == name).map(|(_, function)| *function)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
