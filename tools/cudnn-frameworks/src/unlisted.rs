//! Extension libraries that use cuDNN, of packages that [`KINDS`](crate::KINDS) does not list. Their packages' records
//! (`RECORD`) name the files: that is faster than a walk through all directories, and states the owner.

mod library;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::Framework;
use crate::distribution::{Distribution, Found};
use crate::opens::{Opens, Process, Use};
use crate::parallel::in_parallel;
use crate::record;

use library::Uses;

/// The most libraries that are examined, bytes of them that are searched for a name, and packages and libraries that are
/// reported.
const MAX_LIBRARIES: usize = 20_000;
const MAX_SEARCHED_LEN: u64 = 256 << 20;
const MAX_REPORTED: usize = 32;

/// A package with extension libraries that use cuDNN, which is no known framework.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unlisted {
    /// The package.
    pub distribution: Distribution,
    /// What its libraries open. They may open cuDNN by a name that they put together: then `users` has them, and `cudnn`
    /// has nothing.
    pub opens: Opens,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Others {
    pub(crate) unlisted: Vec<Unlisted>,
    /// Libraries that were too large to be searched.
    pub(crate) unsearched: Vec<PathBuf>,
}

/// Finds them, within limits.
pub(crate) fn read(found: &mut Found, listed: &[Framework], started: &Process) -> Others {
    let is_listed = |package: &Distribution| {
        package.name.starts_with("nvidia-")
            || listed.iter().any(|framework| framework.distribution.name == package.name)
    };
    let packages: Vec<&Distribution> = found.distributions.iter().filter(|package| !is_listed(package)).collect();
    let records = in_parallel(&packages, |package| record::libraries(package));
    let mut libraries: Vec<(usize, PathBuf)> = Vec::new();
    for (index, files) in records {
        // Another package may contain a part of a framework: `jax-cuda12-pjrt` has the library of `jax-cuda12-plugin`.
        let is_part =
            |file: &PathBuf| listed.iter().filter_map(|one| one.dir.as_ref()).any(|dir| file.starts_with(dir));
        libraries.extend(files.into_iter().filter(|file| !is_part(file)).map(|file| (index, file)));
    }
    let is_truncated = libraries.len() > MAX_LIBRARIES;
    libraries.truncate(MAX_LIBRARIES);
    let budget = library::Budget::new(MAX_SEARCHED_LEN);
    let mut users: BTreeMap<usize, Vec<(PathBuf, Uses)>> = BTreeMap::new();
    let mut unsearched: Vec<PathBuf> = Vec::new();
    for (index, uses) in in_parallel(&libraries, |(_, file)| library::uses(file, &budget)) {
        match (uses, libraries.get(index)) {
            (Some(Uses::Unknown), Some((_, file))) => unsearched.push(file.clone()),
            (Some(uses), Some((package, file))) => users.entry(*package).or_default().push((file.clone(), uses)),
            _ => {}
        }
    }
    let is_truncated = is_truncated || unsearched.len() > MAX_REPORTED || users.len() > MAX_REPORTED;
    unsearched.truncate(MAX_REPORTED);
    let unlisted = users.into_iter().take(MAX_REPORTED).filter_map(|(package, files)| {
        let linked: Vec<PathBuf> =
            files.iter().filter(|(_, uses)| *uses == Uses::Linked).map(|(file, _)| file.clone()).collect();
        let mut opens = started.fork().open(&linked, Use::All);
        let by_name = files.into_iter().filter(|(_, uses)| *uses == Uses::Named).map(|(file, _)| file);
        opens.is_optional = linked.is_empty();
        opens.users.extend(by_name);
        Some(Unlisted { distribution: (*packages.get(package)?).clone(), opens })
    });
    let unlisted: Vec<Unlisted> = unlisted.collect();
    found.is_truncated |= is_truncated;
    Others { unlisted, unsearched }
}
