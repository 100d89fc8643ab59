//! Lists the installations of a machine without duplicates, and how they were found.

use std::collections::HashMap;
use std::path::PathBuf;

use cudnn_probe::{Candidate, FileIdentity, Host, Origin, Search};

use super::report::InstallationReport;
use crate::parallel::in_parallel;

/// An installation and how it was found.
#[derive(Debug)]
pub struct Installed {
    /// The report on the installation's files.
    pub report: InstallationReport,
    /// Every way in which the installation was found, with the path.
    pub found_via: Vec<Candidate>,
}

impl Installed {
    /// Returns the first way in which the installation was found.
    pub fn origin(&self) -> Option<&Origin> {
        self.found_via.first().map(|candidate| &candidate.origin)
    }
}

/// Returns all installations in the directories of the search and below these environment roots.
///
/// Unlike [`cudnn_probe::select`], the search continues after an explicit directory.
///
/// ```
/// use cudnn_frameworks::installation::inventory;
/// use cudnn_probe::{Host, Search};
/// for installed in inventory(&Search::new(Host::current()), &Host::current(), &[]) {
///     println!("{}: {:?}", installed.report.dir.display(), installed.report.version);
/// }
/// ```
pub fn inventory(search: &Search, host: &Host, roots: &[PathBuf]) -> Vec<Installed> {
    inventory_with(search, host, roots.iter().flat_map(|root| search.under_root(root)))
}

/// Returns all installations in the directories of the search and in `further`.
pub fn inventory_with(search: &Search, host: &Host, further: impl IntoIterator<Item = Candidate>) -> Vec<Installed> {
    let mut found: Vec<Vec<Candidate>> = Vec::new();
    let mut known: HashMap<FileIdentity, usize> = HashMap::new();
    for candidate in search.explicit_candidate().into_iter().chain(search.default_candidates()).chain(further) {
        // Links, bind mounts and spelling variants may lead to the same directory.
        let Some(id) = FileIdentity::of(&candidate.dir) else { continue };
        match known.get(&id).and_then(|index| found.get_mut(*index)) {
            Some(found_via) if found_via.contains(&candidate) => {}
            Some(found_via) => found_via.push(candidate),
            None => {
                known.insert(id, found.len());
                found.push(vec![candidate]);
            }
        }
    }
    let reports = in_parallel(&found, |found_via| InstallationReport::read(&found_via.first()?.dir, host));
    let installed = found.into_iter().zip(reports);
    installed.filter_map(|(found_via, report)| Some(Installed { report: report?, found_via })).collect()
}
