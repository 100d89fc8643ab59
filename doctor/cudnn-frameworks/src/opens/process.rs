//! A simulated process that imports frameworks.

use std::path::{Path, PathBuf};

use cudnn_probe::Os;

use super::bytes::contain_cudnn;
use super::outcome::{Opens, Use};
use crate::files::first_matching;
use crate::framework::built_for::BuiltFor;
use crate::framework::kind::{Binaries, FrameworkKind};

pub(crate) struct Import<'a> {
    pub(crate) kind: &'a FrameworkKind,
    pub(crate) version: &'a str,
    /// The module's directory.
    pub(crate) dir: &'a Path,
    pub(crate) built_for: &'a BuiltFor,
}

impl Import<'_> {
    pub(super) fn cuda_major(&self) -> Option<u32> {
        self.built_for.cuda.as_ref().map(|cuda| cuda.value.0)
    }

    pub(super) fn cuda_names<'b>(&self, binaries: &'b Binaries) -> &'b [&'static str] {
        self.cuda_major().and_then(|major| binaries.opens_cuda.get(&major)).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the library that opens cuDNN by name in this release. Records in `opens` if no library needs cuDNN.
    pub(super) fn opener(&self, binaries: &Binaries, os: Os, opens: &mut Opens) -> Option<PathBuf> {
        let by_name = binaries.opens_by_name.as_ref();
        let depends_on_release = by_name.is_some_and(|by_name| by_name.depends_on_release);
        let opener = by_name.and_then(|by_name| first_matching(self.dir, by_name.from));
        let opener = opener.filter(|file| !depends_on_release || contain_cudnn(file));
        opens.needs_none = opener.is_none() && binaries.are_complete(self.dir, os);
        opens.is_optional |= depends_on_release && opener.is_some();
        opener
    }

    pub(super) fn cudnn_major(&self) -> u32 {
        self.built_for.cudnn.as_ref().map_or(9, |cudnn| cudnn.value.major)
    }
}

/// A simulated process of an environment's Python.
pub(crate) trait Process {
    /// Copies the process, so that different actions can follow.
    fn fork(&self) -> Box<dyn Process>;

    /// Imports a framework.
    fn import(&mut self, import: &Import, uses: Use) -> Opens;

    /// Opens libraries of a package that is not a known framework.
    fn open(&mut self, files: &[PathBuf]) -> Opens;
}
