//! Finds directories and programs from environment variables such as `PATH` and `HOME`.

use cudnn_cli::escape::Printable;
use cudnn_cli::path::is_on_path;
use cudnn_cli::rights::{can_write, is_root};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cudnn_probe::facts::{self, PathFacts, is_executable};
use cudnn_probe::{Host, Os, canonicalize};

use crate::system::is_loop;

const MAX_ENTRIES: usize = 20_000;

fn variable(name: &str) -> Option<PathBuf> {
    facts::variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns the entries of a directory, or an empty iterator if it is unreadable.
pub fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    facts::read_dir(dir).into_iter().flatten().take(MAX_ENTRIES).map(|entry| entry.path())
}

pub(super) fn program_in(name: &str) -> Option<PathBuf> {
    variable(name).filter(|program| is_executable(program))
}

/// Returns the directory of `pip install --user`.
pub fn user_base() -> Option<PathBuf> {
    Host::current().user_base(Os::HOST)
}

/// Returns the directory for separate installations that the doctor recommends, if this user can write to it.
pub fn data_dir() -> Option<PathBuf> {
    if Os::HOST == Os::Windows {
        return Some(variable("LOCALAPPDATA").unwrap_or_else(|| PathBuf::from(r"C:\ProgramData")));
    }
    let of_user = variable("HOME").filter(|home| home.leads_to_dir()).map(|home| home.join(".local/share"));
    let of_root = || (is_root() || is_on_path("sudo")).then(|| PathBuf::from("/opt"));
    of_user.filter(|dir| can_write(dir)).or_else(of_root)
}

/// Returns a directory with this name in [`data_dir`] for a separate installation. Appends a number if a file or a
/// dangling link blocks the name.
pub(crate) fn named_data_dir(name: &str) -> Option<PathBuf> {
    const MAX_NAMES: u32 = 9;
    let dir = data_dir()?;
    let numbered = (2..=MAX_NAMES).map(|number| format!("{name}-{number}"));
    let dirs = std::iter::once(name.to_owned()).chain(numbered).map(|name| dir.join(name));
    { dirs }.find(|dir| !dir.path_exists() || dir.leads_to_dir())
}

pub(crate) fn dirs_of_wheels(site: &Path) -> Vec<PathBuf> {
    let nvidia = site.join("nvidia");
    let wheels: Vec<PathBuf> = entries(&nvidia).collect();
    let parts = wheels.iter().flat_map(|wheel| ["bin", "include", "lib"].map(|part| wheel.join(part)));
    let parts = parts.collect::<Vec<_>>();
    [nvidia].into_iter().chain(wheels).chain(parts).collect()
}

/// Returns the dangling links in place of directories of NVIDIA's wheels, which installers never replace.
pub(crate) fn dangling_dirs(sites: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let is_lost = |dir: &Path| match facts::metadata(dir) {
        Err(error) => error.kind() == ErrorKind::NotFound || is_loop(&error),
        Ok(_) => false,
    };
    let dirs = sites.into_iter().flat_map(|site| dirs_of_wheels(&site));
    dirs.filter(|dir| dir.is_link() && is_lost(dir)).collect()
}

/// Describes a link that leads from the packages out of this environment, as a clause.
pub(super) fn link_out_of(root: &Path, sites: &[PathBuf]) -> Option<String> {
    let root = canonicalize(root).ok()?;
    let dirs = sites.iter().flat_map(|site| [site.clone()].into_iter().chain(dirs_of_wheels(site)));
    let mut targets = dirs.filter(|dir| dir.leads_to_dir()).filter_map(|dir| Some((canonicalize(&dir).ok()?, dir)));
    let (target, dir) = targets.find(|(target, _)| !target.starts_with(&root))?;
    Some(format!("the link {} leads out of the environment, to {}", dir.printable(), target.printable()))
}

#[cfg(test)]
mod tests {
    use cudnn_probe::facts::{Changes, Facts};

    use super::*;

    /// Otherwise, the second step of a plan would use another directory than the first one.
    #[test]
    fn a_directory_that_a_step_has_created_stays_the_directory_for_installations() {
        if Os::HOST == Os::Windows {
            return;
        }
        let home = Path::new("/nowhere/home");
        let mut changes = Changes::default();
        changes.create_dir(&home.join(".local/share/nvrtc-cuda-12"));
        changes.set_variable("HOME", Some(home.into()));
        let found = Facts::recorder().after(changes).within(data_dir);
        assert_eq!(found, Some(home.join(".local/share")));
    }

    #[test]
    #[cfg(all(test, unix))]
    fn a_link_that_leads_nowhere_is_not_taken_for_a_directory() {
        let home = tempfile::tempdir().unwrap();
        let site = home.path().join(".local/share");
        std::fs::create_dir_all(site.join("nvidia/cublas")).unwrap();
        std::fs::create_dir(site.join("used")).unwrap();
        for link in ["lost", "lost-2", "nvidia/cublas/lib", "nvidia/cudnn"] {
            std::os::unix::fs::symlink("nowhere", site.join(link)).unwrap();
        }
        let mut changes = Changes::default();
        changes.set_variable("HOME", Some(home.path().into()));
        Facts::recorder().after(changes).within(|| {
            for (name, expected) in [("new", "new"), ("used", "used"), ("lost", "lost-3")] {
                assert_eq!(named_data_dir(name), Some(site.join(expected)));
            }
        });
        let mut found = dangling_dirs([site.clone()]);
        found.sort();
        assert_eq!(found, ["nvidia/cublas/lib", "nvidia/cudnn"].map(|name| site.join(name)));
    }
}
