//! Provides repairs that work without a package manager, for example of links or permissions.

use cudnn_cli::escape::Printable;
use cudnn_probe::facts::PathFacts;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{InstallationReport, complete_releases};
use cudnn_probe::{Library, Origin, Os, ProbeError, RejectedCandidate, Version, canonicalize};

use crate::cudnn_file::is_drop_in;
use crate::packages::entries;
use crate::remedy::{Action, Effect, Remedy};
use crate::system::CUDNN_PREFIX;

/// Returns the inaccessible directory, or the parent directory of an unreadable file, that caused the rejection of a
/// candidate.
pub fn denied_dir(one: &RejectedCandidate) -> Option<PathBuf> {
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

pub(in crate::check) fn permit_file(file: &Path) -> Remedy {
    permit_all(file, false)
}

fn permit_all(path: &Path, is_dir: bool) -> Remedy {
    Remedy::new("give the user that runs the program permission to read it:")
        .action(Action::Permit { path: path.to_owned(), is_dir })
}

/// Removes files that no package owns but that ldconfig prefers to the package's libraries. Reinstalling the package
/// would not help.
pub(in crate::check) fn leftovers(report: &InstallationReport) -> Option<Remedy> {
    let (first, others) = report.unowned.split_first()?;
    let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    let text = format!("remove {}{more}, left over from a copy, which no package owns", first.printable());
    let name = report.package.as_ref().map_or("the package".to_owned(), |package| package.name.printable());
    let remedy = Remedy::new(format!("{text}, and have ldconfig link the files of {name} again:"));
    let removal = Action::Remove(report.unowned.clone());
    Some(remedy.action(removal).action(Action::Ldconfig).effect(Effect::SameDir))
}

pub(in crate::check) fn remove(text: String, file: &Path) -> Remedy {
    Remedy::new(text).action(Action::Remove(vec![file.to_owned()])).effect(Effect::SameDir)
}

/// Returns the libraries that only exist under their full names, such as `libcudnn_ops.so.9.28.0`, because the links
/// are missing.
pub(in crate::check) fn lost_links(report: &InstallationReport) -> Vec<Library> {
    let Some(version) = report.version.filter(|_| report.os == Os::Linux) else { return Vec::new() };
    let name = |library: &Library| format!("{}.{}.{}", library.file_name(), version.minor, version.patch);
    report.missing.iter().copied().filter(|library| report.dir.join(name(library)).leads_to_file()).collect()
}

pub(super) fn links(dir: &Path, version: Version) -> Remedy {
    Remedy::new("create the missing links; the files exist under their full names:")
        .action(Action::Link { dir: dir.to_owned(), version })
        .effect(Effect::SameDir)
}

/// Creates the links in a directory that contains this file without links.
pub(in crate::check) fn links_like(dir: &Path, file: &str) -> Option<Remedy> {
    let version = file.split_once(".so.")?.1.parse().ok()?;
    Some(links(dir, version))
}

/// The complete releases in one directory. Programs can use one of them.
pub(in crate::check) struct Releases {
    /// The release that most links lead to, or the newest.
    pub(in crate::check) kept: Version,
    /// Oldest first.
    pub(in crate::check) others: Vec<Version>,
    /// The short names, such as `libcudnn_ops.so.9`, that lead to other releases.
    strays: Vec<PathBuf>,
}

impl Releases {
    /// Returns `None` for a directory without a complete release under full names.
    pub(in crate::check) fn read(dir: &Path) -> Option<Releases> {
        let mut others = complete_releases(dir);
        let short = || Library::ALL.iter().map(|library| (*library, dir.join(library.file_name())));
        let leads_to = |(library, file): &(Library, PathBuf), version: Version| {
            let full_name = canonicalize(full_name(dir, *library, version));
            full_name.is_ok_and(|full_name| canonicalize(file).is_ok_and(|target| target == full_name))
        };
        let count = |version: Version| short().filter(|link| leads_to(link, version)).count();
        let kept = others.iter().copied().max_by_key(|version| (count(*version), *version))?;
        others.retain(|version| *version != kept);
        // The drop-in replaces NVIDIA's shim on purpose.
        let is_stray =
            |link: &(Library, PathBuf)| link.1.path_exists() && !leads_to(link, kept) && !is_drop_in(&link.1);
        let strays = short().filter(is_stray).map(|(_, file)| file).collect();
        Some(Releases { kept, others, strays })
    }

    pub(in crate::check) fn list_others(&self) -> String {
        self.others.iter().map(Version::to_string).collect::<Vec<_>>().join(" and ")
    }

    /// Removes the files of the other releases. The user must decide, because programs may need them.
    pub(in crate::check) fn remove_others(&self, dir: &Path) -> Remedy {
        let (kept, others) = (self.kept, self.list_others());
        let of_all = self.others.iter().flat_map(|version| Library::ALL.iter().map(|library| (*library, *version)));
        let files = of_all.map(|(library, version)| full_name(dir, library, version)).filter(|file| file.path_exists());
        let text = format!("to keep only {kept}, remove the files of {others}, unless a program needs them:");
        let removal = Action::Remove(files.chain(self.strays.iter().cloned()).collect());
        Remedy::new(text).action(removal).effect(Effect::SameDir).by_hand()
    }

    /// Makes all short names lead to the chosen release without removing files. `used` is the release that programs
    /// load.
    fn relink(&self, dir: &Path, used: Option<Version>) -> Remedy {
        let Releases { kept, others, strays } = self;
        let also = if others.is_empty() { String::new() } else { format!(" (those of {} too)", self.list_others()) };
        if strays.is_empty() {
            let text =
                format!("all files of cuDNN {kept} are in {}{also}: copy those of {kept} again", dir.printable());
            return Remedy::new(text).effect(Effect::SameDir).by_hand();
        }
        let text =
            format!("all files of cuDNN {kept} are in {}{also}: link the names to {kept} again:", dir.printable());
        let remedy = Remedy::new(text)
            .action(Action::Remove(strays.clone()))
            .action(Action::Link { dir: dir.to_owned(), version: *kept })
            .effect(Effect::SameDir);
        // Otherwise, a file is lost or the release changes.
        let is_harmless = strays.iter().all(|stray| stray.is_link()) && used == Some(*kept);
        if is_harmless { remedy } else { remedy.by_hand() }
    }
}

/// Returns a name such as `libcudnn_ops.so.9.28.1`.
fn full_name(dir: &Path, library: Library, version: Version) -> PathBuf {
    let [full_name, ..] = library.dlopen_names(version);
    dir.join(full_name)
}

/// Repairs the links to complete releases in this directory, if it contains several, or if links lead elsewhere.
pub(super) fn keep_release(report: &InstallationReport) -> Option<Remedy> {
    let releases = Releases::read(&report.dir)?;
    let has_reason = !releases.others.is_empty() || !releases.strays.is_empty();
    has_reason.then(|| releases.relink(&report.dir, report.version))
}

/// Removes dangling links to cuDNN in this directory, because pip fails on them.
pub(super) fn dangling_links(dir: &Path) -> Option<Action> {
    let is_cudnn =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CUDNN_PREFIX));
    let is_dangling = |path: &PathBuf| is_cudnn(path) && path.is_link() && !path.target_exists();
    let mut links: Vec<PathBuf> = entries(dir).filter(is_dangling).collect();
    links.sort();
    (!links.is_empty()).then_some(Action::Remove(links))
}
