//! Wraps operating-system calls for the crates of this project.
//!
//! Linux and Windows have implementations of the same functions. The crate is internal, has an unstable API, and knows
//! only the operating system. Other crates of the project must not use `cfg(target_os)`, `cfg(unix)` or `cfg(windows)`,
//! except in tests and in the link attributes of `cudnn-sys`.
//!
//! Functions that return [`std::io::Result`] fail if the system does, and name only other errors.
//!
//! Without features, the crate needs only std and provides [`escape`], [`files`] and part of [`environment`]. The
//! feature `native` adds modules for code inside a host program, and `processes` adds modules for programs that start
//! and inspect other processes.

#![allow(clippy::missing_errors_doc, reason = "functions fail if the system does")]

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod os;

#[cfg(windows)]
#[path = "windows/mod.rs"]
#[allow(missing_docs, clippy::missing_safety_doc, reason = "documented in linux")]
mod os;

#[cfg(not(any(target_os = "linux", windows)))]
compile_error!(
    "cuDNN 9 exists only for Linux and Windows; make the dependency on this crate specific to these targets"
);

#[cfg(any(windows, test))]
mod device_names;
pub mod escape;
pub mod files;

#[cfg(feature = "native")]
pub mod functions;
#[cfg(feature = "native")]
pub mod lock;
#[cfg(feature = "native")]
pub mod open_error;
#[cfg(feature = "native")]
pub mod trusted_files;

pub use os::environment;

#[cfg(feature = "native")]
pub use os::{
    append_file, cancel, clock, descriptors, exit, fork, libraries, load, memory, objects, pages, readahead, text_file,
    threads,
};

#[cfg(feature = "testing")]
pub use os::testing;
#[cfg(feature = "processes")]
pub use os::{child, errors, interruption, memory_limits, pipes, processes, program, rights};

/// Generates random numbers. Returns an error where the hash tables of std would panic.
#[cfg(feature = "processes")]
pub use getrandom as random;

/// `true` if the program is compiled for Windows.
pub const IS_WINDOWS: bool = cfg!(windows);

/// `true` if the program is compiled for Linux.
pub const IS_LINUX: bool = cfg!(target_os = "linux");

/// Expands to the first literal on Windows and to the second one on other systems, also in `format!` and `concat!`.
#[cfg(windows)]
#[doc(hidden)]
#[macro_export]
macro_rules! windows_or {
    ($windows:literal, $other:literal) => {
        $windows
    };
}

/// Expands to the first literal on Windows and to the second one on other systems, also in `format!` and `concat!`.
#[cfg(not(windows))]
#[doc(hidden)]
#[macro_export]
macro_rules! windows_or {
    ($windows:literal, $other:literal) => {
        $other
    };
}
