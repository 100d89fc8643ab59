//! Why the system's loader could not open a library.

/// A library that the system's loader could not open.
pub(crate) struct OpenError {
    pub(crate) cause: DlErrorKind,
    /// The loader's message.
    pub(crate) message: String,
}

/// The meaning of an error of the system's loader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DlErrorKind {
    /// ld.so did not find a dependency of the library.
    MissingDependency {
        /// The dependency's name.
        name: String,
    },
    /// No loaded library has a symbol that the library needs.
    UndefinedSymbol {
        /// The symbol's name.
        name: String,
        /// The library that should have it, from the symbol's version: cuDNN uses its libraries' names as versions.
        library: Option<String>,
    },
    /// No loaded library has this version of a symbol. The C library is too old, for example.
    MissingVersion {
        /// The version's name.
        name: String,
    },
    /// Anything else: see the message.
    Other,
}
