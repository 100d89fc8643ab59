//! The form of the library on each system: `tail_jump!`, the body of an export; `versioned!`, its symbol version;
//! `at_load!`, a function that runs when the library is loaded.

#[cfg(not(windows))]
#[path = "linux.rs"]
mod os;

#[cfg(windows)]
#[path = "windows.rs"]
mod os;

pub(crate) use os::{at_load, tail_jump, versioned};
