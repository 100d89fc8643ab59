//! Linux.

mod directory;
mod file;
mod thread;
pub mod unnoticed;

pub(crate) use directory::Directory;
pub(crate) use file::{File, open_pack, replace_file};
pub(crate) use thread::start_thread;

/// The variables that name a directory for caches, and the store's directory below it.
pub(crate) const CACHE_DIRECTORIES: &[(&str, &str)] =
    &[("XDG_CACHE_HOME", "cudnn-plans"), ("HOME", ".cache/cudnn-plans")];
