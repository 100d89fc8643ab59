//! Provides repairs that work without a package manager, for example of links or permissions.

use cudnn_probe::facts::PathFacts;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::{Library, Origin, Os, ProbeError, RejectedCandidate, Version};

use crate::escape::Printable;
use crate::packages::entries;
use crate::remedy::{Action, Effect, Remedy};
use crate::system::CUDNN_PREFIX;

/// Returns the directory that this user cannot access, or the parent directory of an unreadable file, if that is why a
/// candidate was rejected.
pub(crate) fn denied_dir(one: &RejectedCandidate) -> Option<PathBuf> {
    let ProbeError::Unreadable { error } = &one.error else { return None };
    let path = one.path();
    let reachable = || path.ancestors().find(|above| above.path_exists());
    let reachable = reachable().filter(|_| error.kind() == ErrorKind::PermissionDenied)?;
    Some(if reachable == path { one.candidate.dir.clone() } else { reachable.to_owned() })
}

/// Makes a directory of an environment readable. Directories above the environment remain private.
pub(crate) fn permit(dir: &Path, origin: &Origin) -> Option<Remedy> {
    dir.starts_with(origin.root()?).then(|| permit_all(dir, true))
}

/// Makes a file readable.
pub(in crate::check) fn permit_file(file: &Path) -> Remedy {
    permit_all(file, false)
}

fn permit_all(path: &Path, is_dir: bool) -> Remedy {
    Remedy::new("give the user that runs the program permission to read it:")
        .action(Action::Permit { path: path.to_owned(), is_dir })
}

/// Removes files that no package owns but that ldconfig links to instead of the package's libraries. Reinstalling the
/// package would not help.
pub(in crate::check) fn leftovers(report: &InstallationReport) -> Option<Remedy> {
    let (first, others) = report.unowned.split_first()?;
    let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    let text = format!("remove {}{more}, left over from a copy, which no package owns", first.printable());
    let name = report.package.as_ref().map_or("the package".to_owned(), |package| package.name.printable());
    let remedy = Remedy::new(format!("{text}, and have ldconfig link the files of {name} again:"));
    let removal = Action::Remove { paths: report.unowned.clone(), is_dir: false };
    Some(remedy.action(removal).action(Action::Ldconfig).effect(Effect::SameDir))
}

/// Removes a file that did not come from a package.
pub(in crate::check) fn remove(text: String, file: &Path) -> Remedy {
    Remedy::new(text).action(Action::Remove { paths: vec![file.to_owned()], is_dir: false }).effect(Effect::SameDir)
}

/// Returns the missing libraries that still exist under their full names (`libcudnn_ops.so.9.28.0`), so that only the
/// links are missing.
pub(in crate::check) fn lost_links(report: &InstallationReport) -> Vec<Library> {
    let Some(version) = report.version.filter(|_| report.os == Os::Linux) else { return Vec::new() };
    let name = |library: &Library| format!("{}.{}.{}", library.file_name(), version.minor, version.patch);
    report.missing.iter().copied().filter(|library| report.dir.join(name(library)).leads_to_file()).collect()
}

/// Creates the missing links to all files of this release.
pub(super) fn links(dir: &Path, version: Version) -> Remedy {
    Remedy::new("create the missing links; the files exist under their full names:")
        .action(Action::Link { dir: dir.to_owned(), version })
        .effect(Effect::SameDir)
}

/// Creates the links in a directory that contains this file but no link to it.
pub(in crate::check) fn links_like(dir: &Path, file: &str) -> Option<Remedy> {
    let version = file.split_once(".so.")?.1.parse().ok()?;
    Some(links(dir, version))
}

/// Removes dangling links in this directory, because pip fails on them.
pub(super) fn dangling_links(dir: &Path) -> Option<Action> {
    let is_cudnn =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CUDNN_PREFIX));
    let is_dangling = |path: &PathBuf| is_cudnn(path) && path.is_link() && !path.target_exists();
    let mut links: Vec<PathBuf> = entries(dir).filter(is_dangling).collect();
    links.sort();
    (!links.is_empty()).then_some(Action::Remove { paths: links, is_dir: false })
}
