//! Linux.

pub(crate) mod clock;
pub(crate) mod fork;
pub(crate) mod libraries;
pub(crate) mod process;
mod store;
pub(crate) mod text_file;
pub(crate) mod trace_file;
