//! The border to the operating system. One of `linux` and `portable` makes the system calls; both have the names that
//! this file lists. They know directories, files and threads, and nothing of entries or plans.

use std::time::SystemTime;

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod os;

#[cfg(not(target_os = "linux"))]
#[path = "portable.rs"]
mod os;

pub use os::unnoticed;
pub(crate) use os::{CACHE_DIRECTORIES, Directory, File, open_pack, replace_file, start_thread};

/// What the system states of a file.
pub(crate) struct Facts {
    pub(crate) size: u64,
    /// When it was written, or marked as used.
    pub(crate) modified: Option<SystemTime>,
}
