//! The packages of an environment, from their `.dist-info` and `.egg-info` directories. Reads no more than names, but for
//! packages whose metadata somebody asks for.

mod editable;
mod names;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::environment::Environment;
use crate::metadata;
use crate::unreadable::{Remedy, Unreadable};

pub(crate) use names::normalized;

/// The most entries of an import directory, and of all, and reports of what cannot be read.
const MAX_ENTRIES: usize = 20_000;
const MAX_ALL_ENTRIES: usize = 100_000;
const MAX_UNREADABLE: usize = 64;

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Distribution {
    /// Its normalised name (PEP 503): `nvidia-cudnn-cu12`.
    pub name: String,
    /// Its version, as written: `9.10.2.21`.
    pub version: String,
    /// The import directory that contains it: `.../site-packages`.
    pub import_dir: PathBuf,
    /// Its metadata directory: `.../torch-2.9.1+cu128.dist-info`.
    pub info_dir: PathBuf,
    /// It is a link to a source directory (`pip install --editable`).
    pub is_editable: bool,
    /// The directories of its modules by their names, where an editable installation states them.
    modules: Vec<(String, PathBuf)>,
    /// The source directories that contain its modules, where an editable installation states them.
    source_dirs: Vec<PathBuf>,
}

impl Distribution {
    /// A package without metadata, whose files state its version: images are made smaller like this.
    pub(crate) fn without_metadata(name: &str, version: &str, import_dir: &Path, module_dir: &Path) -> Option<Self> {
        names::is_version(version).then(|| Distribution {
            name: name.to_owned(),
            version: version.to_owned(),
            import_dir: import_dir.to_owned(),
            info_dir: module_dir.to_owned(),
            is_editable: false,
            modules: Vec::new(),
            source_dirs: Vec::new(),
        })
    }

    /// The directory of one of its modules: `site-packages/torch`, or that of an editable installation.
    #[must_use]
    pub fn module_dir(&self, module: &str) -> Option<PathBuf> {
        let stated = self.modules.iter().find(|(name, _)| name == module).map(|(_, dir)| dir.clone());
        let dirs = [&self.import_dir].into_iter().chain(&self.source_dirs).map(|dir| dir.join(module));
        stated.into_iter().chain(dirs).find(|dir| dir.is_dir())
    }
}

/// What an environment's import directories contain.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) distributions: Vec<Distribution>,
    pub(crate) unreadable: Vec<Unreadable>,
    pub(crate) is_truncated: bool,
}

impl Found {
    pub(crate) fn report(&mut self, path: impl Into<PathBuf>, reason: impl Into<String>) {
        self.add(Unreadable::new(path, reason));
    }

    pub(crate) fn add(&mut self, unreadable: Unreadable) {
        if self.unreadable.len() < MAX_UNREADABLE {
            self.unreadable.push(unreadable);
        } else {
            self.is_truncated = true;
        }
    }
}

/// Reads the names of all packages, and the metadata of those with a wanted name. A package that is in two import
/// directories is the one in the first, as for Python.
pub(crate) fn read(environment: &Environment, is_wanted: impl Fn(&str) -> bool) -> Found {
    let mut found = Found::default();
    environment.unreadable.iter().for_each(|file| found.report(&file.path, &file.reason));
    let mut known = HashSet::new();
    let mut entries_left = MAX_ALL_ENTRIES;
    for dir in &environment.import_dirs {
        for (name, mut records) in records_in(dir, &mut entries_left, &mut found) {
            let is_wanted = is_wanted(&name);
            // An interrupted update leaves a directory without metadata; or two, of which the newer one's files are there.
            let has_metadata = |record: &Record| metadata::file(&record.info_dir).is_file();
            let parsed = |version: &str| pep440_rs::Version::from_str(version).ok();
            records.sort_by_cached_key(|record| (has_metadata(record), record.version.as_deref().and_then(parsed)));
            if let Some(used) = records.last().filter(|_| is_wanted && records.len() > 1) {
                let versions = records.iter().map(|record| record.version.as_deref().unwrap_or("an unknown one"));
                let reason = format!("has {} versions: {}", records.len(), versions.collect::<Vec<_>>().join(", "));
                let again = Remedy::Reinstall(name.clone(), used.version.clone());
                found.add(Unreadable::new(&used.info_dir, reason).with_remedy(again));
            }
            let Some(record) = records.pop() else { continue };
            if known.contains(&name) {
                if is_wanted {
                    found.report(
                        record.info_dir,
                        "is not used: a directory that Python searches earlier has the package",
                    );
                }
                continue;
            }
            if let Some(distribution) = distribution(name, record, dir, is_wanted, &mut found) {
                known.insert(distribution.name.clone());
                found.distributions.push(distribution);
            }
        }
    }
    found
}

/// A metadata directory and what its name states.
#[derive(Debug)]
struct Record {
    info_dir: PathBuf,
    version: Option<String>,
}

/// The metadata directories in an import directory, by the normalised names of their packages.
fn records_in(dir: &Path, entries_left: &mut usize, found: &mut Found) -> BTreeMap<String, Vec<Record>> {
    let mut records: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            found.report(dir, error.to_string());
            return records;
        }
    };
    let limit = MAX_ENTRIES.min(*entries_left);
    let mut count = 0;
    for entry in entries.flatten() {
        count += 1;
        if count > limit {
            found.is_truncated = true;
            break;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Some((kind, stem)) = names::kind(&name) else { continue };
        let info_dir = entry.path();
        // The entry states its type, but for a link: no further question to the system.
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink() && info_dir.is_dir());
        if kind == names::Kind::Egg && !is_dir {
            found.report(info_dir, "is a zipped egg, which is not examined");
            continue;
        }
        // Old installers of Debian write a file in place of an `.egg-info` directory: it has no more than a name.
        if !is_dir && kind != names::Kind::EggInfo {
            found.report(info_dir, "is not a directory");
            continue;
        }
        let Some((package, version)) = names::parse(stem, kind) else {
            if stem.starts_with('~') {
                let reason = "is what pip leaves of a package when it is interrupted: remove it";
                found.add(Unreadable::new(info_dir, reason).with_remedy(Remedy::Remove));
            } else {
                found.report(info_dir, "is not named as a package's metadata is");
            }
            continue;
        };
        let info_dir = if kind == names::Kind::Egg { info_dir.join("EGG-INFO") } else { info_dir };
        records.entry(package).or_default().push(Record { info_dir, version });
    }
    *entries_left = entries_left.saturating_sub(count);
    records
}

/// Completes what a directory's name states by the package's metadata, if that is wanted or necessary.
fn distribution(name: String, record: Record, dir: &Path, is_wanted: bool, found: &mut Found) -> Option<Distribution> {
    let Record { info_dir, mut version } = record;
    let is_source = version.is_none() && info_dir.extension().is_some_and(|extension| extension == "egg-info");
    if is_wanted {
        match metadata::read(&info_dir) {
            Ok(metadata) => {
                let stated = metadata.name.as_deref().map(normalized);
                if stated.as_ref().is_some_and(|stated| *stated != name) {
                    found.report(&info_dir, "has the metadata of a package with another name");
                } else if let Some(stated) = metadata.version {
                    if names::is_version(&stated) {
                        version = Some(stated);
                    } else {
                        found.report(&info_dir, "has metadata whose version is not one");
                    }
                }
            }
            Err(reason) => {
                let again = Remedy::Reinstall(name.clone(), version.clone());
                found.add(Unreadable::new(&info_dir, reason).with_remedy(again));
            }
        }
    }
    let editable = if is_wanted { editable::read(dir, &info_dir, found) } else { None };
    let import_dir = match info_dir.parent() {
        Some(egg) if info_dir.ends_with("EGG-INFO") => egg.to_owned(),
        _ => dir.to_owned(),
    };
    let version = match version {
        Some(version) => version,
        // Nobody asks for the version of another package.
        None if !is_wanted => String::new(),
        None => {
            found.report(&info_dir, "states no version");
            return None;
        }
    };
    let (is_editable, editable) = (editable.is_some() || is_source, editable.unwrap_or_default());
    let editable::Editable { modules, source_dirs } = editable;
    Some(Distribution { name, version, import_dir, info_dir, is_editable, modules, source_dirs })
}
