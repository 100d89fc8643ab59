//! The known frameworks: how to find them, their build targets and their missing files.

pub mod builds;
pub(crate) mod built_for;
pub(crate) mod kind;
pub(crate) mod missing_files;
pub mod releases;
pub(crate) mod version_file;
