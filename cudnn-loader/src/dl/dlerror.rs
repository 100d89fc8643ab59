//! Determines why the system's loader could not open a library, by parsing its messages. ld.so provides no error code.

use std::path::{Path, PathBuf};

/// A library that the system's loader could not open.
pub(crate) struct DlopenError {
    pub(crate) cause: DlErrorKind,
    /// The loader's message.
    pub(crate) message: String,
}

/// The cause of an error of the system's loader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DlErrorKind {
    /// ld.so did not find a dependency of the library.
    MissingDependency {
        /// The dependency's name.
        name: String,
    },
    /// The library needs a symbol that no loaded library exports.
    UndefinedSymbol {
        /// The symbol's name.
        name: String,
        /// The library that should export it, according to the symbol's version: cuDNN uses library names as versions.
        library: Option<String>,
    },
    /// No loaded library provides this version of a symbol, for example because the C library is too old.
    MissingVersion {
        /// The version's name.
        name: String,
    },
    /// The process has replaced the function that opens libraries, and did not open the library.
    Intercepted {
        /// The file that was opened instead, if there is one.
        opened: Option<PathBuf>,
        /// The library or program that replaces the function, if it is known.
        by: Option<PathBuf>,
    },
    /// Any other cause: see the message.
    Other,
}

/// Converts ld.so's message about the file at this path to an error.
pub(super) fn to_open_error(message: String, path: &Path) -> DlopenError {
    DlopenError { cause: meaning(&message, path), message }
}

/// Parses a message of glibc or musl about the file at this path.
fn meaning(message: &str, path: &Path) -> DlErrorKind {
    let after = |marker: &str, end: &[char]| {
        let rest = message.split(marker).nth(1)?.trim_start();
        let name = rest.split(end).next().unwrap_or(rest).trim_matches(['`', '\'', '"']);
        // A damaged library may request a symbol with an empty name.
        (!name.is_empty()).then(|| name.to_owned())
    };
    if let Some(name) = after("undefined symbol:", &[',', ' ', '(']) {
        return DlErrorKind::UndefinedSymbol { name, library: after(", version ", &[' ']) };
    }
    if let Some(name) = message.strip_suffix(": symbol not found").and_then(|rest| rest.rsplit(": ").next()) {
        return DlErrorKind::UndefinedSymbol { name: name.to_owned(), library: None };
    }
    if let Some(name) = after("version `", &['\'']) {
        return DlErrorKind::MissingVersion { name };
    }
    // Other failures to open a file produce similar messages. Only this one means that the file is missing.
    let missing = message.split_once(": cannot open shared object file: No such file").map(|(name, _)| name);
    let missing = missing.or_else(|| missing_in_musls_form(message));
    match missing.map(|name| name.rsplit(": ").next().unwrap_or(name)) {
        Some(name) if !name.is_empty() && Path::new(name) != path => {
            DlErrorKind::MissingDependency { name: name.to_owned() }
        }
        _ => DlErrorKind::Other,
    }
}

fn missing_in_musls_form(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("Error loading shared library ")?;
    rest.split_once(": No such file").map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_glibc_and_musl_are_parsed() {
        let cases = [
            (
                "libcublasLt.so.12: cannot open shared object file: No such file or directory",
                DlErrorKind::MissingDependency { name: "libcublasLt.so.12".into() },
            ),
            (
                "/a/libcudnn_ops.so.9: undefined symbol: cudnnGetLibConfig, version libcudnn_graph.so.9",
                DlErrorKind::UndefinedSymbol {
                    name: "cudnnGetLibConfig".into(),
                    library: Some("libcudnn_graph.so.9".into()),
                },
            ),
            (
                "/lib/libc.so.6: version `GLIBC_2.99' not found (required by /a/libcudnn_ops.so.9)",
                DlErrorKind::MissingVersion { name: "GLIBC_2.99".into() },
            ),
            ("/a/libcudnn_ops.so.9: file too short", DlErrorKind::Other),
            ("/a/libcudnn_ops.so.9: undefined symbol: , version libcudnn_graph.so.9", DlErrorKind::Other),
            (": cannot open shared object file: No such file or directory", DlErrorKind::Other),
            ("/a/libcudnn_ops.so.9: cannot open shared object file: No such file or directory", DlErrorKind::Other),
            ("libz.so.1: cannot open shared object file: Too many open files", DlErrorKind::Other),
            (
                "Error loading shared library libz.so.1: No such file or directory (needed by /a/libcudnn_ops.so.9)",
                DlErrorKind::MissingDependency { name: "libz.so.1".into() },
            ),
            (
                "Error relocating /a/libcudnn_ops.so.9: cudnnGetLibConfig: symbol not found",
                DlErrorKind::UndefinedSymbol { name: "cudnnGetLibConfig".into(), library: None },
            ),
        ];
        for (message, fault) in cases {
            assert_eq!(meaning(message, Path::new("/a/libcudnn_ops.so.9")), fault, "{message}");
        }
    }
}
