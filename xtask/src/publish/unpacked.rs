//! Removes our packages' unpacked sources and build results from cargo's cache. cargo created them when it built a
//! package with the others as dependencies. It would reuse them for a package of the same name and version, even with
//! different content.

use std::ffi::OsStr;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use super::manifest::Package;

/// Removes the unpacked sources of these packages, and all build results in this target directory.
pub(super) fn remove(packages: &[Package], target: &Path) -> Result<()> {
    remove_dir(target)?;
    let home = std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let Some(home) = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))) else { return Ok(()) };
    let names: Vec<String> = packages.iter().map(|package| format!("{}-{}", package.name, package.version)).collect();
    remove_from(&home.join("registry/src"), &names)
}

fn remove_from(sources: &Path, names: &[String]) -> Result<()> {
    let registries = match std::fs::read_dir(sources) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        registries => registries?,
    };
    for registry in registries {
        let registry = registry?;
        // A directory registry has no host name, which the names of all other registries start with.
        if !registry.file_name().as_encoded_bytes().starts_with(b"-") || !registry.path().is_dir() {
            continue;
        }
        for name in names {
            remove_dir(&registry.path().join(OsStr::new(name)))?;
        }
    }
    Ok(())
}

/// Removes a directory if it exists.
fn remove_dir(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::new(error.kind(), format!("cannot remove {}: {error}", dir.display())))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn only_our_packages_out_of_a_directory_are_removed() {
        let home = support::TempDir::new();
        let sources = home.path().join("src");
        remove_from(&sources, &["a-1.0.0".to_owned()]).unwrap();
        let dirs = ["-0123/a-1.0.0/src", "-0123/a-1.0.0-rc.1", "-0123/b-1.0.0", "index.example-0123/a-1.0.0"];
        for dir in dirs {
            std::fs::create_dir_all(sources.join(dir)).unwrap();
        }
        remove_from(&sources, &["a-1.0.0".to_owned(), "c-1.0.0".to_owned()]).unwrap();
        let left: Vec<&str> = dirs.into_iter().filter(|dir| sources.join(dir).exists()).collect();
        assert_eq!(left, dirs[1..]);
    }
}
