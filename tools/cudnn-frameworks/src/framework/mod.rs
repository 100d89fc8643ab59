//! Describes the known frameworks: how they are found, what a release was built for, which files a package lacks.

pub(crate) mod built_for;
pub(crate) mod kind;
pub(crate) mod missing_files;
pub mod releases;
pub(crate) mod version_file;
