//! The directories that a distribution builds into its ld.so.

use crate::facts::{self, PathFacts};
use std::path::PathBuf;

use crate::host::Host;
use crate::platform::TRIPLE;

/// The directories that ld.so searches last, in its order.
pub(super) fn default_dirs(host: &Host) -> Vec<PathBuf> {
    let dirs = if is_multiarch(host) {
        vec![format!("/lib/{TRIPLE}"), format!("/usr/lib/{TRIPLE}"), "/lib".into(), "/usr/lib".into()]
    } else {
        vec!["/lib64".into(), "/usr/lib64".into()]
    };
    dirs.iter().map(|dir| host.system(dir)).collect()
}

/// The same directories, each once: `/lib` is a link to `/usr/lib` on most systems.
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

/// The value with which ld.so replaces `$LIB`.
pub(super) fn lib(host: &Host) -> String {
    if is_multiarch(host) {
        return format!("lib/{TRIPLE}");
    }
    let real = |dir: &str| facts::canonicalize(host.system(dir)).ok();
    // Arch Linux has one directory, and lib64 is a link to it.
    let is_one = real("/usr/lib64").is_some() && real("/usr/lib64") == real("/usr/lib");
    if is_one { "lib".into() } else { "lib64".into() }
}

/// Debian and Ubuntu have a directory for each architecture.
fn is_multiarch(host: &Host) -> bool {
    ["/lib", "/usr/lib"].iter().any(|lib| host.system(format!("{lib}/{TRIPLE}")).leads_to_dir())
}
