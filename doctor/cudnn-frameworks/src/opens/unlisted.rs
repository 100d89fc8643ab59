//! Finds packages outside of [`KINDS`](crate::KINDS) with extension libraries that use cuDNN. Their records (`RECORD`)
//! identify the owner and are faster to read than directories.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use super::bytes::{self, Uses};
use super::outcome::Opens;
use super::process::Process;
use crate::package::distribution::Distribution;
use crate::package::record;
use crate::parallel::in_parallel;

/// The maximum number of libraries, of searched bytes, and of reported packages and libraries.
const MAX_LIBRARIES: usize = 20_000;
const MAX_SEARCHED_LEN: u64 = 256 << 20;
const MAX_REPORTED: usize = 32;

/// A package that uses cuDNN but is not a known framework.
#[derive(Debug)]
pub struct Unlisted {
    /// The package.
    pub distribution: Distribution,
    /// The files that the package's libraries open. A library that assembles cuDNN's name at run time is only in
    /// `users`.
    pub opens: Opens,
}

#[derive(Debug, Default)]
pub(crate) struct Others {
    pub(crate) unlisted: Vec<Unlisted>,
    /// Libraries that are too large to search.
    pub(crate) unsearched: Vec<PathBuf>,
    pub(crate) is_truncated: bool,
}

/// Finds unlisted packages within the limits. `dirs` are the frameworks' directories, because other packages may
/// contain parts of a framework. For example, `jax-cuda12-pjrt` contains the library of `jax-cuda12-plugin`.
pub(crate) fn read(packages: &[&Distribution], dirs: &[PathBuf], started: &dyn Process) -> Others {
    let mut libraries: Vec<(usize, PathBuf)> = Vec::new();
    for (index, files) in in_parallel(packages, |package| record::libraries(&package.info_dir, &package.import_dir))
        .into_iter()
        .enumerate()
    {
        let is_part = |file: &PathBuf| dirs.iter().any(|dir| file.starts_with(dir));
        libraries.extend(files.into_iter().filter(|file| !is_part(file)).map(|file| (index, file)));
    }
    let mut is_truncated = libraries.len() > MAX_LIBRARIES;
    libraries.truncate(MAX_LIBRARIES);
    let bytes_left = AtomicU64::new(MAX_SEARCHED_LEN);
    let found = in_parallel(&libraries, |(_, file)| bytes::uses(file, &bytes_left));
    let (mut users, mut unsearched) = (BTreeMap::<usize, [Vec<PathBuf>; 2]>::new(), Vec::new());
    for ((package, file), uses) in libraries.into_iter().zip(found) {
        let [linked, named] = match uses {
            Some(Uses::Linked | Uses::Named) => users.entry(package).or_default(),
            Some(Uses::Unknown) => {
                unsearched.push(file);
                continue;
            }
            None => continue,
        };
        if uses == Some(Uses::Linked) { linked.push(file) } else { named.push(file) }
    }
    is_truncated |= unsearched.len() > MAX_REPORTED || users.len() > MAX_REPORTED;
    unsearched.truncate(MAX_REPORTED);
    let unlisted = users.into_iter().take(MAX_REPORTED).filter_map(|(package, [linked, named])| {
        let mut opens = started.fork().open(&linked);
        opens.is_optional = linked.is_empty();
        opens.users.extend(named);
        Some(Unlisted { distribution: (*packages.get(package)?).clone(), opens })
    });
    Others { unlisted: unlisted.collect(), unsearched, is_truncated }
}
