//! The border to the operating system. One of [`linux`], [`windows`] and [`other`] does system calls; all have the
//! modules that this file lists. They know files, threads and clocks, and nothing of cuDNN, records or settings.

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod os;

#[cfg(windows)]
#[path = "windows.rs"]
mod os;

#[cfg(not(any(target_os = "linux", windows)))]
#[path = "other.rs"]
mod os;

pub(crate) mod function;

pub(crate) use os::{append_file, clock, fork, libraries, process, text_file};
