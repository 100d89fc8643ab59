//! The implementation for Linux with glibc or musl, with the documentation of all functions.

pub mod environment;
pub(crate) mod files;
mod system_v;

#[cfg(feature = "native")]
pub mod append_file;
#[cfg(feature = "native")]
pub mod cancel;
#[cfg(feature = "native")]
pub mod clock;
#[cfg(feature = "native")]
pub(crate) mod descriptor;
#[cfg(feature = "native")]
pub mod descriptors;
#[cfg(feature = "native")]
pub mod exit;
#[cfg(feature = "native")]
pub mod fork;
#[cfg(feature = "native")]
pub mod libraries;
#[cfg(feature = "native")]
mod library;
#[cfg(feature = "native")]
pub mod load;
#[cfg(feature = "native")]
pub mod memory;
#[cfg(feature = "native")]
pub mod objects;
#[cfg(feature = "native")]
pub mod pages;
#[cfg(feature = "native")]
pub mod readahead;
#[cfg(feature = "native")]
pub(crate) mod signals;
#[cfg(feature = "native")]
pub mod text_file;
#[cfg(feature = "native")]
pub mod threads;
#[cfg(feature = "native")]
pub(crate) mod trusted_files;

#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "processes")]
pub mod child;
#[cfg(feature = "processes")]
pub mod errors;
#[cfg(feature = "processes")]
mod groups;
#[cfg(feature = "processes")]
mod inherited;
#[cfg(feature = "processes")]
pub mod interruption;
#[cfg(feature = "processes")]
mod keeper;
#[cfg(feature = "processes")]
pub mod memory_limits;
#[cfg(feature = "processes")]
pub mod pipes;
#[cfg(feature = "processes")]
pub mod processes;
#[cfg(feature = "processes")]
pub mod program;
#[cfg(feature = "processes")]
pub mod rights;
#[cfg(feature = "processes")]
mod watch;
