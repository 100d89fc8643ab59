//! All installations on a machine, each once, with every way in which it was found.

use std::path::PathBuf;

use crate::host::Host;
use crate::platform::{FileId, file_id};
use crate::report::InstallationReport;
use crate::search::{Candidate, Origin, Search};

/// An installation, and how it was found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Installed {
    /// The report on its files.
    pub report: InstallationReport,
    /// Every way in which it was found, each with the path that led to it.
    pub found_via: Vec<Candidate>,
}

impl Installed {
    /// The first way in which it was found.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.found_via.first().map(|candidate| &candidate.origin)
    }
}

/// All installations: in the directories of the search, and below these roots of environments.
///
/// In contrast to [`select`](crate::select), an explicit directory does not end the search.
///
/// ```
/// use cudnn_probe::{Host, Search, inventory};
/// for installed in inventory(&Search::new(Host::current()), &Host::current(), &[]) {
///     println!("{}: {:?}", installed.report.dir.display(), installed.report.version);
/// }
/// ```
#[must_use]
pub fn inventory(search: &Search, host: &Host, roots: &[PathBuf]) -> Vec<Installed> {
    inventory_with(search, host, roots.iter().flat_map(|root| search.under_root(root)))
}

/// All installations: in the directories of the search, and in these.
#[must_use]
pub fn inventory_with(search: &Search, host: &Host, further: impl IntoIterator<Item = Candidate>) -> Vec<Installed> {
    let mut found: Vec<(FileId, Installed)> = Vec::new();
    for candidate in search.explicit_candidate().into_iter().chain(search.default_candidates()).chain(further) {
        // Links, bind mounts and other spellings lead to the same directory.
        let Some(id) = file_id(&candidate.dir) else { continue };
        if let Some((_, installed)) = found.iter_mut().find(|(other, _)| *other == id) {
            if !installed.found_via.contains(&candidate) {
                installed.found_via.push(candidate);
            }
        } else if let Some(report) = InstallationReport::read(&candidate.dir, host) {
            found.push((id, Installed { report, found_via: vec![candidate] }));
        }
    }
    found.into_iter().map(|(_, installed)| installed).collect()
}
