//! Defines what the readers of both file formats provide.

use std::ops::Range;

use crate::error::ProbeError;
use crate::platform::{Architecture, Os};
use crate::version::Version;

use super::file_data::FileData;
use super::tables::TableNames;

/// A file in one of the two formats, with parsed headers.
pub(super) trait Format {
    fn os(&self) -> Os;
    fn data(&self) -> &FileData;
    fn contents(&self) -> Result<TableNames, ProbeError>;
    fn architecture(&self) -> Architecture;
    /// Returns the first bytes of an exported variable.
    fn read_symbol(&self, name: &str) -> Option<[u8; 4]>;
    /// Returns whether the library exports this function.
    fn defines(&self, function: &str) -> bool;
    /// Returns the version in the resources of a Windows file.
    fn resource_version(&self) -> Option<Version>;
    /// Returns the range of the GPU code, if there is any.
    fn gpu_code(&self) -> Option<Range<u64>>;
}
