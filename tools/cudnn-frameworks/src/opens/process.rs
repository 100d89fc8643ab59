//! Defines a simulated process, into which frameworks are imported.

use std::path::{Path, PathBuf};

use cudnn_probe::Os;

use super::bytes::contain_cudnn;
use super::outcome::Opens;
use super::sub_libraries::Use;
use crate::files::first_matching;
use crate::framework::built_for::BuiltFor;
use crate::framework::kind::{Binaries, Kind};

/// A framework in an environment, as far as its import depends on it.
pub(crate) struct Import<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) version: &'a str,
    /// The directory of its module.
    pub(crate) dir: &'a Path,
    pub(crate) built_for: &'a BuiltFor,
}

impl Import<'_> {
    pub(super) fn cuda_major(&self) -> Option<u32> {
        self.built_for.cuda.as_ref().map(|cuda| cuda.value.0)
    }

    /// The libraries of CUDA that its libraries open by name.
    pub(super) fn cuda_names<'b>(&self, binaries: &'b Binaries) -> &'b [&'static str] {
        self.cuda_major().and_then(|major| binaries.opens_cuda.get(&major)).map(Vec::as_slice).unwrap_or_default()
    }

    /// The library that opens cuDNN by name, if this release does, or the fact that no library of it needs cuDNN.
    pub(super) fn opener(&self, binaries: &Binaries, os: Os, opens: &mut Opens) -> Option<PathBuf> {
        let by_name = binaries.opens_by_name.as_ref();
        let depends_on_release = by_name.is_some_and(|by_name| by_name.depends_on_release);
        let opener = by_name.and_then(|by_name| first_matching(self.dir, by_name.from));
        let opener = opener.filter(|file| !depends_on_release || contain_cudnn(file));
        opens.needs_none = opener.is_none() && binaries.are_complete(self.dir, os);
        opens.is_optional |= depends_on_release && opener.is_some();
        opener
    }

    /// The major version of the cuDNN that it opens by name.
    pub(super) fn cudnn_major(&self) -> u32 {
        self.built_for.cudnn.as_ref().map_or(9, |cudnn| cudnn.value.major)
    }
}

/// A simulated process of an environment's Python, on the system of that.
pub(crate) trait Process {
    /// The same process, in which something else happens next.
    fn fork(&self) -> Box<dyn Process>;

    /// Imports a framework.
    fn import(&mut self, import: &Import, uses: Use) -> Opens;

    /// Opens these libraries of a package that is no known framework.
    fn open(&mut self, files: &[PathBuf]) -> Opens;
}
