//! Linux.

pub(crate) mod append_file;
pub(crate) mod clock;
mod descriptor;
pub(crate) mod fork;
pub(crate) mod libraries;
pub(crate) mod process;
pub(crate) mod text_file;
