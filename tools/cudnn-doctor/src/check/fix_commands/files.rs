//! Repairs that need no package manager: rights, links, and files that nobody owns.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cudnn_probe::packages;
use cudnn_probe::{InstallationReport, Library, Origin, Os, ProbeError, RejectedCandidate, Version};

use super::lines::is_foreign;
use crate::check::finding::{Effect, Help};
use crate::escape::Printable;
use crate::platform::{belongs_to_user, is_root, permit_command};
use crate::shell::{quoted_path, removal_of};
use crate::system::CUDNN_PREFIX;

/// The directory that this user may not enter, or else the one with the file that this user may not read, if that is why
/// a candidate was rejected.
pub(crate) fn denied_dir(one: &RejectedCandidate) -> Option<PathBuf> {
    let ProbeError::Unreadable { error } = &one.error else { return None };
    let path = one.path();
    let reachable = || path.ancestors().find(|above| above.symlink_metadata().is_ok());
    let reachable = reachable().filter(|_| error.kind() == ErrorKind::PermissionDenied)?;
    Some(if reachable == path { one.candidate.dir.clone() } else { reachable.to_owned() })
}

/// Lets this user read a directory of an environment. What is above the environment is not for everybody to read.
pub(crate) fn permit(dir: &Path, origin: &Origin) -> Option<Help> {
    let is_own = is_root() || belongs_to_user(dir);
    dir.starts_with(origin.root()?).then(|| {
        Help::new("give the user that runs the program permission to read it:")
            .command(permit_command(&quoted_path(dir), is_own))
    })
}

/// Lets this user read a file.
pub(in crate::check) fn permit_file(file: &Path) -> Help {
    let sudo = if is_root() || belongs_to_user(file) { "" } else { "sudo " };
    Help::new("give the user that runs the program permission to read it:")
        .command(format!("{sudo}chmod a+r {}", quoted_path(file)))
}

/// Removes files that no package owns, to which ldconfig leads the links of the package's libraries. To install the package
/// again would change nothing.
pub(in crate::check) fn leftovers(report: &InstallationReport) -> Option<Help> {
    let (first, others) = report.unowned.split_first()?;
    let sudo = if is_foreign(&report.dir) { "sudo " } else { "" };
    let files: Vec<String> = report.unowned.iter().map(|file| quoted_path(file)).collect();
    let text = match others.len() {
        0 => format!("{} is left over from a copy: no package owns it; remove it", first.printable()),
        more => {
            format!(
                "{} and {more} more are left over from a copy: no package owns them; remove them",
                first.printable()
            )
        }
    };
    let name = report.package.as_ref().map_or("the package".to_owned(), |package| package.name.printable());
    let help = Help::new(format!("{text}, and have ldconfig link the files of {name} again:"));
    Some(help.command(format!("{sudo}rm {} && {sudo}ldconfig", files.join(" "))).effect(Effect::SameDir))
}

/// Removes a file that no package has installed.
pub(in crate::check) fn remove(text: String, file: &Path) -> Help {
    let sudo = if file.parent().is_some_and(is_foreign) { "sudo " } else { "" };
    Help::new(text).command(format!("{sudo}{}", removal_of(file))).effect(Effect::SameDir)
}

/// The missing libraries whose files exist under their full names (`libcudnn_ops.so.9.28.0`): only their links are lost.
pub(in crate::check) fn lost_links(report: &InstallationReport) -> Vec<Library> {
    let Some(version) = report.version.filter(|_| report.os == Os::Linux) else { return Vec::new() };
    let file = |library: &Library| report.dir.join(format!("{}{}", library.file_name(), full_suffix(version)));
    report.missing.iter().copied().filter(|library| file(library).is_file()).collect()
}

/// `.28.0`: what the name of a file has more than its link.
fn full_suffix(version: Version) -> String {
    format!(".{}.{}", version.minor, version.patch)
}

/// Makes the links to all files of this release that have none.
pub(super) fn links(dir: &Path, version: Version) -> Help {
    let suffix = full_suffix(version);
    let link = format!("\"${{file%{suffix}}}\"");
    let script = format!(
        "cd {} && for file in libcudnn*.so.9{suffix}; do [ -e {link} ] || ln -sf \"$file\" {link}; done",
        quoted_path(dir)
    );
    let sudo = if is_foreign(dir) { "sudo " } else { "" };
    Help::new("make the links that are missing; the files are there, under their full names:")
        .command(format!("{sudo}sh -c {}", packages::quoted(script)))
        .effect(Effect::SameDir)
}

/// Makes the links in a directory that has this file, and not the link to it.
pub(in crate::check) fn links_like(dir: &Path, file: &str) -> Option<Help> {
    let version = file.split_once(".so.")?.1.parse().ok()?;
    Some(links(dir, version))
}

/// First removes links in this directory that lead to no file: pip fails at them.
pub(super) fn without_dangling_links(help: Help, dir: &Path) -> Help {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_cudnn =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CUDNN_PREFIX));
    let mut links: Vec<PathBuf> =
        entries.filter(|path| is_cudnn(path) && path.is_symlink() && !path.exists()).collect();
    links.sort();
    let sudo = if is_foreign(dir) { "sudo " } else { "" };
    let removals = links.iter().map(|link| format!("{sudo}rm {}", quoted_path(link)));
    Help { commands: removals.chain(help.commands).collect(), ..help }
}
