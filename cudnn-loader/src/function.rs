//! cuDNN's public functions as data: name, sub-library, first release. Generated from the one table; knows nothing of
//! how a function is found.

use std::ffi::CStr;
use std::fmt;

use cudnn_probe::Version;

use crate::sub_library::SubLibrary;

macro_rules! functions {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => {
        /// A function of cuDNN's public API, as a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Function { $($(
            $(#[$doc])*
            $variant,
        )*)* }

        impl Function {
            /// All functions, by sub-library.
            pub const ALL: &'static [Function] = &[$($(Function::$variant,)*)*];

            /// The table's row of each function, in order.
            const INFO: &'static [FunctionInfo] =
                &[$($( FunctionInfo { library: library!($library), since: [$($since),*], deprecated: $deprecated }, )*)*];

            /// The names in order, each with a NUL at its end. In one string: a pointer to each would make the drop-in
            /// library larger.
            const NAMES: &'static str = concat!($($( stringify!($name), "\0", )*)*);
        }
    };
}

macro_rules! library {
    (graph) => {
        SubLibrary::Graph
    };
    (ops) => {
        SubLibrary::Ops
    };
    (cnn) => {
        SubLibrary::Cnn
    };
    (adv) => {
        SubLibrary::Adv
    };
    (ext) => {
        SubLibrary::Ext
    };
}

cudnn_sys::for_each_function!(functions);

/// One row of the table.
#[derive(Clone, Copy)]
struct FunctionInfo {
    library: SubLibrary,
    since: [u8; 3],
    deprecated: bool,
}

impl Function {
    /// The name in C: `cudnnCreate`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Function::NAMES.split('\0').nth(self as usize).unwrap_or_default()
    }

    /// The names of [`Function::ALL`], in their order. Faster than to ask each function.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Function::NAMES.split_terminator('\0')
    }

    /// The name with a NUL, for `dlsym`.
    pub(crate) fn symbol(self) -> &'static CStr {
        let names = Function::NAMES.as_bytes();
        let name = names.split_inclusive(|byte| *byte == 0).nth(self as usize);
        name.and_then(|name| CStr::from_bytes_with_nul(name).ok()).unwrap_or_default()
    }

    const fn info(self) -> FunctionInfo {
        // One row for each variant, and variants are numbered from 0.
        #[allow(clippy::indexing_slicing, reason = "there is one row for each variant")]
        Function::INFO[self as usize]
    }

    /// The sub-library that exports the function.
    #[must_use]
    pub const fn library(self) -> SubLibrary {
        self.info().library
    }

    /// The first release that has the function.
    #[must_use]
    pub const fn since(self) -> Version {
        let [major, minor, patch] = self.info().since;
        Version::new(major as u32, minor as u32, patch as u32)
    }

    /// Whether NVIDIA has deprecated the function, as of the release that these bindings come from.
    #[must_use]
    pub const fn is_deprecated(self) -> bool {
        self.info().deprecated
    }

    /// The function with this name in C.
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
