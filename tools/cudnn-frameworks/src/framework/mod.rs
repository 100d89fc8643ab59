//! Describes the known frameworks: how they are found, what a release was built for, which files a package lacks.

pub(crate) mod absent;
pub(crate) mod built_for;
pub(crate) mod kind;
pub mod releases;
pub(crate) mod version_file;
