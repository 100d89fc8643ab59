//! The border to the operating system: system calls, and no rules. Each system has the same modules.

#[cfg(unix)]
#[path = "unix/mod.rs"]
mod os;

#[cfg(not(unix))]
#[path = "windows/mod.rs"]
mod os;

pub(crate) use os::fork;
