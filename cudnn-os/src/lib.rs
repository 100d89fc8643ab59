//! Operating-system details for the crates of this project, with the same functions on Linux, on Windows and, as stubs, on
//! other systems.
//!
//! This crate is internal and has no stable API. It makes system calls and reports what the system says; it knows nothing
//! of cuDNN. No other crate of the project contains `cfg(target_os)`, `cfg(unix)` or `cfg(windows)`, except in tests
//! and in the link attributes of `cudnn-sys`.
//!
//! Without features the crate uses only std: [`escape`], [`files`] and a part of [`environment`]. The feature `native` adds the modules
//! for code that runs inside somebody else's program. The feature `processes` adds those for a program that starts and
//! inspects other processes.

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod os;

#[cfg(windows)]
#[path = "windows/mod.rs"]
mod os;

#[cfg(not(any(target_os = "linux", windows)))]
#[path = "other.rs"]
mod os;

#[cfg(any(windows, test))]
mod device_names;
pub mod escape;
pub mod files;

#[cfg(all(feature = "native", not(windows)))]
mod std_threads;

#[cfg(all(feature = "native", not(target_os = "linux")))]
mod unsupported;

#[cfg(feature = "native")]
pub mod functions;
#[cfg(feature = "native")]
pub mod lock;
#[cfg(feature = "native")]
pub mod trusted_files;

#[cfg(all(feature = "native", not(target_os = "linux")))]
mod std_environment;

#[cfg(not(target_os = "linux"))]
mod std_files;

#[cfg(all(feature = "native", not(target_os = "linux")))]
mod std_trusted_files;

#[cfg(not(windows))]
mod system_v;

#[cfg(all(feature = "processes", not(any(target_os = "linux", windows))))]
mod other_processes;

#[cfg(all(feature = "processes", not(target_os = "linux")))]
mod std_processes;

pub use os::environment;

#[cfg(feature = "native")]
pub use os::{
    append_file, cancel, clock, descriptors, exit, fork, libraries, load, memory, objects, pages, readahead, signals,
    text_file, threads,
};

#[cfg(feature = "testing")]
pub use os::testing;
#[cfg(feature = "processes")]
pub use os::{child, errors, interruption, memory_limits, pipes, processes, program, random, rights};

/// Whether this program is compiled for Windows.
pub const IS_WINDOWS: bool = cfg!(windows);

/// Whether this program is compiled for Linux.
pub const IS_LINUX: bool = cfg!(target_os = "linux");

/// Expands to the first literal on Windows, and to the second one on all other systems. Also in `format!` and `concat!`.
#[cfg(windows)]
#[doc(hidden)]
#[macro_export]
macro_rules! windows_or {
    ($windows:literal, $other:literal) => {
        $windows
    };
}

/// Expands to the first literal on Windows, and to the second one on all other systems. Also in `format!` and `concat!`.
#[cfg(not(windows))]
#[doc(hidden)]
#[macro_export]
macro_rules! windows_or {
    ($windows:literal, $other:literal) => {
        $other
    };
}
