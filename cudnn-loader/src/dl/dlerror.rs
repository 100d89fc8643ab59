//! Why the system's loader could not open a library. ld.so gives no error code, so this module parses its messages.

use std::path::Path;

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

/// The meaning of a message of ld.so about the file at this path.
pub(super) fn explained(message: String, path: &Path) -> OpenError {
    OpenError { cause: meaning(&message, path), message }
}

/// Parses a message of glibc or musl about the file at this path.
fn meaning(message: &str, path: &Path) -> DlErrorKind {
    let after = |marker: &str, end: &[char]| {
        let rest = message.split(marker).nth(1)?.trim_start();
        let name = rest.split(end).next().unwrap_or(rest).trim_matches(['`', '\'', '"']);
        // A damaged library may ask for a symbol without a name.
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
    // Messages about other failures to open a file have the same form; only this one means that the file is
    // missing.
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
