//! What the dynamic linker's words mean. They are all that it says: they are asked for in English, and read here.

use std::path::Path;

/// What the dynamic linker's words mean.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DlErrorKind {
    /// A library that this one needs was not found.
    MissingDependency {
        /// Its name.
        name: String,
    },
    /// A symbol that this library needs is in none that were loaded.
    UndefinedSymbol {
        /// Its name.
        name: String,
        /// The library that should have it, where the symbol's version says so: cuDNN's versions are its libraries'
        /// names.
        library: Option<String>,
    },
    /// A version of a symbol that this library needs is in none that were loaded: the C library is too old, for
    /// example.
    MissingVersion {
        /// Its name.
        name: String,
    },
    /// Something else: the words are all there is.
    Other,
}

impl DlErrorKind {
    /// Reads glibc's and musl's words about the file at this path.
    pub(crate) fn parse(message: &str, path: &Path) -> DlErrorKind {
        let after = |marker: &str, end: &[char]| {
            let rest = message.split(marker).nth(1)?.trim_start();
            Some(rest.split(end).next().unwrap_or(rest).trim_matches(['`', '\'', '"']).to_owned())
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
        // Other reasons not to open a file stand in the same place: only this one says that there is none.
        let absent = message.split_once(": cannot open shared object file: No such file").map(|(name, _)| name);
        let absent = absent.or_else(|| after_prefix(message, "Error loading shared library "));
        match absent.map(|name| name.rsplit(": ").next().unwrap_or(name)) {
            Some(name) if Path::new(name) != path => DlErrorKind::MissingDependency { name: name.to_owned() },
            _ => DlErrorKind::Other,
        }
    }
}

/// What musl names after these words, when it says that there is no such file.
fn after_prefix<'a>(message: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = message.strip_prefix(prefix)?;
    rest.split_once(": No such file").map(|(name, _)| name)
}

/// Where to get a library that cuDNN needs and that is not its own.
pub(crate) fn missing_library_help(name: &str) -> String {
    let package =
        |package: &str, major: &str| format!("Install {package}-cu{major}, or put its folder on LD_LIBRARY_PATH.");
    let major = name.split(".so.").nth(1).and_then(|rest| rest.split('.').next()).unwrap_or("12");
    if name.starts_with("libcuda.so") {
        "The NVIDIA driver's library is missing, not cuDNN's: install the driver, or start the container with the GPU \
         (`--gpus all`); under WSL it is in /usr/lib/wsl/lib."
            .into()
    } else if name.starts_with("libcublas") {
        package("nvidia-cublas", major)
    } else if name.starts_with("libnvrtc") {
        package("nvidia-cuda-nvrtc", major)
    } else if name.starts_with("libcudnn") {
        "Install this cuDNN again: a library of its own is missing.".into()
    } else if name.starts_with("libz.so") {
        "Install zlib (Debian and Ubuntu: `apt-get install zlib1g`).".into()
    } else {
        format!("Install the package that has {name}, or put its folder on LD_LIBRARY_PATH.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_words_are_understood() {
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
            assert_eq!(DlErrorKind::parse(message, Path::new("/a/libcudnn_ops.so.9")), fault, "{message}");
        }
    }
}
