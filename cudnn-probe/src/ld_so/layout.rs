//! Returns the directories that are built into a distribution's ld.so.

use crate::facts::{self, PathFacts};
use std::path::PathBuf;

use crate::host::Host;
use crate::platform::TRIPLE;

/// Returns the default directories of ld.so, which are searched last.
pub(super) fn default_dirs(host: &Host) -> Vec<PathBuf> {
    let dirs = if is_multiarch(host) {
        vec![format!("/lib/{TRIPLE}"), format!("/usr/lib/{TRIPLE}"), "/lib".into(), "/usr/lib".into()]
    } else {
        vec!["/lib64".into(), "/usr/lib64".into()]
    };
    dirs.iter().map(|dir| host.system(dir)).collect()
}

/// Returns the default directories without duplicates, because `/lib` is usually a link to `/usr/lib`.
pub(crate) fn distinct_default_dirs(host: &Host) -> Vec<PathBuf> {
    let mut seen = Vec::new();
    let is_new = |dir: &PathBuf| match facts::canonicalize(dir) {
        Ok(real) if seen.contains(&real) => false,
        Ok(real) => {
            seen.push(real);
            true
        }
        Err(_) => true,
    };
    default_dirs(host).into_iter().filter(is_new).collect()
}

/// Returns the value that ld.so substitutes for `$LIB`.
pub(super) fn lib(host: &Host) -> String {
    if is_multiarch(host) {
        return format!("lib/{TRIPLE}");
    }
    let real = |dir: &str| facts::canonicalize(host.system(dir)).ok();
    // On Arch Linux, lib64 is a link to lib.
    let is_one = real("/usr/lib64").is_some() && real("/usr/lib64") == real("/usr/lib");
    if is_one { "lib".into() } else { "lib64".into() }
}

/// Returns whether the system has a directory per architecture, like Debian and Ubuntu.
fn is_multiarch(host: &Host) -> bool {
    ["/lib", "/usr/lib"].iter().any(|lib| host.system(format!("{lib}/{TRIPLE}")).leads_to_dir())
}
