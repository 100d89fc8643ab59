//! The implementation for Windows on x86-64, which lacks `fork`, signals and thread cancellation. Comments describe
//! only differences from `linux`, where public functions are documented.

pub mod environment;
pub(crate) mod files;

#[cfg(feature = "native")]
pub mod append_file;
#[cfg(feature = "native")]
pub mod cancel;
#[cfg(feature = "native")]
pub mod clock;
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
pub mod text_file;
#[cfg(feature = "native")]
pub mod threads;
#[cfg(feature = "native")]
mod trampoline;
#[cfg(feature = "native")]
pub(crate) mod trusted_files;
#[cfg(feature = "native")]
mod wide;

#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "processes")]
pub mod child;
#[cfg(feature = "processes")]
pub mod errors;
#[cfg(feature = "processes")]
mod handle;
#[cfg(feature = "processes")]
pub mod interruption;
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
