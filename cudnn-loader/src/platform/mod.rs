//! The border to the operating system. One of [`linux`], [`windows`] and [`other`] states facts and does system calls;
//! all have the modules that this file lists. Rules stay outside: which library, in which order, which error, how long
//! to wait.

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod os;

#[cfg(windows)]
#[path = "windows/mod.rs"]
mod os;

#[cfg(not(any(target_os = "linux", windows)))]
#[path = "other.rs"]
mod os;

#[cfg(not(target_os = "linux"))]
mod unneeded;

#[cfg(target_os = "linux")]
pub(crate) use os::pages;

#[cfg(not(target_os = "linux"))]
#[path = "no_pages.rs"]
pub(crate) mod pages;

#[cfg(target_os = "linux")]
pub(crate) use os::environment;

#[cfg(not(target_os = "linux"))]
#[path = "std_environment.rs"]
pub(crate) mod environment;

#[cfg(not(windows))]
pub(crate) mod std_threads;

/// The form of the calls that the trampoline must not disturb.
#[cfg(not(windows))]
#[path = "system_v.rs"]
pub(crate) mod trampoline;

#[cfg(windows)]
#[path = "windows/trampoline.rs"]
pub(crate) mod trampoline;

pub(crate) use os::{
    cancel, clock, descriptors, exit, fork, libraries, load, log_file, memory, names, objects, readahead, search,
    thread_id, threads,
};
