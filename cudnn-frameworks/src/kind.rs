//! The frameworks that this crate knows: how each is found, and where its files are. One table.

use std::path::PathBuf;

use crate::distribution::Distribution;
use crate::environment::Environment;

/// A framework.
#[derive(Debug)]
#[non_exhaustive]
pub struct Kind {
    /// Its name: `PyTorch`.
    pub name: &'static str,
    /// The name for the command line and for programs: `torch`.
    pub id: &'static str,
    /// The normalised names of the packages that contain it.
    pub packages: &'static [&'static str],
    /// The directory of its module below the import directory: `torch`.
    pub module: &'static str,
}

/// All known frameworks.
pub const KINDS: &[Kind] = &[];

impl Kind {
    /// The packages of this framework among those that are installed.
    pub(crate) fn distributions_in<'a>(&self, installed: &'a [Distribution]) -> impl Iterator<Item = &'a Distribution> {
        installed.iter().filter(|distribution| self.packages.contains(&distribution.name.as_str()))
    }

    /// The directory of its module.
    pub(crate) fn dir(&self, environment: &Environment, distribution: &Distribution) -> Option<PathBuf> {
        let _ = environment;
        Some(distribution.import_dir.join(self.module)).filter(|dir| dir.is_dir())
    }
}
