//! Finds packages by their metadata directories (`.dist-info`, `.egg-info`). Only the metadata of requested packages is
//! read.

use cudnn_probe::facts::{self, PathFacts, entries_named};
use cudnn_probe::python::is_left_by_pip;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::names::{self, PackageRecord, normalized};
use super::unreadable::{Repair, Unreadable};
use super::{editable, metadata, record};
use crate::environment::Environment;
use crate::files::read_text;

/// The maximum number of entries in all import directories, and of reported problems.
const MAX_ENTRIES: usize = 100_000;
const MAX_UNREADABLE: usize = 64;

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// The normalized name (PEP 503): `nvidia-cudnn-cu12`.
    pub name: String,
    /// The version, as written: `9.10.2.21`.
    pub version: String,
    /// The import directory that contains the package: `.../site-packages`.
    pub import_dir: PathBuf,
    /// The metadata directory: `.../torch-2.9.1+cu128.dist-info`.
    pub info_dir: PathBuf,
    /// The package is a link to a source directory (`pip install --editable`).
    pub is_editable: bool,
    /// The source directories with the modules of an editable package, if files list them.
    source_dirs: Vec<PathBuf>,
}

impl Distribution {
    /// Creates a package with the version from other files, because some images omit the metadata to save space.
    pub(crate) fn without_metadata(name: &str, version: &str, import_dir: &Path, module_dir: &Path) -> Option<Self> {
        names::is_version(version).then(|| Distribution {
            name: name.to_owned(),
            version: version.to_owned(),
            import_dir: import_dir.to_owned(),
            info_dir: module_dir.to_owned(),
            is_editable: false,
            source_dirs: Vec::new(),
        })
    }

    /// Returns the program that installed the package, such as `pip`, or an empty string if no file names it.
    pub fn installer(&self) -> String {
        const MAX_LEN: u64 = 64;
        let installer = read_text(&self.info_dir.join("INSTALLER"), MAX_LEN).unwrap_or_default();
        installer.trim().to_owned()
    }

    /// Returns the directory of a module: `site-packages/torch`, or the source directory of an editable package.
    pub(crate) fn module_dir(&self, module: &str) -> Option<PathBuf> {
        // Editable packages take precedence.
        let dirs = self.source_dirs.iter().chain([&self.import_dir]);
        dirs.map(|dir| dir.join(module)).find(|dir| dir.leads_to_dir())
    }
}

#[derive(Debug, Default)]
pub(crate) struct FoundPackages {
    pub(crate) distributions: Vec<Distribution>,
    pub(crate) unreadable: Vec<Unreadable>,
    pub(crate) is_truncated: bool,
    entries: usize,
}

impl FoundPackages {
    fn report(&mut self, path: impl Into<PathBuf>, reason: impl Into<String>, repair: Option<Repair>) {
        self.add(Unreadable::new(path, reason, repair));
    }

    pub(crate) fn add(&mut self, unreadable: Unreadable) {
        if self.unreadable.len() < MAX_UNREADABLE {
            self.unreadable.push(unreadable);
        } else {
            self.is_truncated = true;
        }
    }
}

/// Reads the names of all packages, and the metadata of wanted ones. If several import directories contain a package,
/// the first one counts, as in Python.
pub(crate) fn read(environment: &Environment, is_wanted: impl Fn(&str) -> bool) -> FoundPackages {
    let mut found = FoundPackages::default();
    environment.unreadable.iter().for_each(|file| found.add(file.clone()));
    let mut known = HashSet::new();
    for dir in &environment.import_dirs {
        for (name, mut records) in records_in(dir, &mut found) {
            let is_wanted = is_wanted(&name);
            // An interrupted update leaves a directory without metadata, or two directories. Then the files are from
            // the newer package.
            let has_metadata = |record: &MetadataDir| metadata::file(&record.info_dir).leads_to_file();
            let parsed = |version: &str| pep440_rs::Version::from_str(version).ok();
            records.sort_by_cached_key(|record| (has_metadata(record), record.version.as_deref().and_then(parsed)));
            let versions: Vec<&str> =
                records.iter().map(|record| record.version.as_deref().unwrap_or("unknown")).collect();
            let reason = format!("has {} versions: {}", records.len(), versions.join(", "));
            let has_others = records.len() > 1;
            let Some(record) = records.pop() else { continue };
            if is_wanted && has_others {
                let again = Repair::Reinstall(name.clone(), record.version.clone());
                found.report(&record.info_dir, reason, Some(again));
            }
            // Python finds the package in an earlier directory.
            if !known.contains(&name)
                && let Some(distribution) = distribution(&name, record, dir, is_wanted, &mut found)
            {
                known.insert(name);
                found.distributions.push(distribution);
            }
        }
    }
    found
}

#[derive(Debug)]
struct MetadataDir {
    info_dir: PathBuf,
    version: Option<String>,
}

fn records_in(dir: &Path, found: &mut FoundPackages) -> BTreeMap<String, Vec<MetadataDir>> {
    let mut records: BTreeMap<String, Vec<MetadataDir>> = BTreeMap::new();
    let entries = match facts::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            found.report(dir, error.to_string(), None);
            return records;
        }
    };
    let (mut leftovers, mut aside) = (Vec::new(), Vec::new());
    for entry in entries {
        found.entries += 1;
        if found.entries > MAX_ENTRIES {
            found.is_truncated = true;
            break;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let info_dir = entry.path();
        if is_left_by_pip(&info_dir) {
            leftovers.push(info_dir);
            continue;
        }
        if let Some(record) =
            names::name_before_aside(&name).and_then(|name| PackageRecord::from_dist_info(name.into()))
        {
            aside.push((info_dir, record.name, record.version));
            continue;
        }
        let Some((kind, stem)) = names::kind(&name) else { continue };
        // The file type in the entry avoids a system call, except for links.
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink() && info_dir.leads_to_dir());
        match names::parse(stem, kind) {
            _ if kind == names::MetadataKind::Egg && !is_dir => {
                found.report(info_dir, "is a zipped egg, which is not examined", None);
            }
            // Older Debian installers write an `.egg-info` file.
            _ if kind == names::MetadataKind::DistInfo && !is_dir => found.report(info_dir, "is not a directory", None),
            Some((package, version)) => {
                let info_dir = if kind == names::MetadataKind::Egg { info_dir.join("EGG-INFO") } else { info_dir };
                records.entry(package).or_default().push(MetadataDir { info_dir, version });
            }
            None if is_dir && stem.starts_with('~') => leftovers.push(info_dir),
            None => found.report(info_dir, "has an invalid name for package metadata", None),
        }
    }
    // pip renames only the contents of these directories, because packages share them.
    for shared in ["nvidia", "nvidia/cudnn", "nvidia/cudnn_jit"].map(|shared| dir.join(shared)) {
        let left = entries_named(&shared, "~*", |name| name.starts_with('~'));
        leftovers.extend(left.into_iter().filter(|path| is_left_by_pip(path)));
    }
    leftovers.into_iter().for_each(|path| report_leftover(path, &records, found));
    for (info_dir, package, version) in aside {
        let (reason, repair) = if records.contains_key(&package) {
            ("was left by an interrupted `fix`, and the package has another record: remove it", Repair::Remove)
        } else {
            ("was set aside by an interrupted `fix`", Repair::Replace(package, version))
        };
        found.report(info_dir, reason, Some(repair));
    }
    records
}

/// Reports a directory that pip has renamed, which may be the only copy.
fn report_leftover(path: PathBuf, records: &BTreeMap<String, Vec<MetadataDir>>, found: &mut FoundPackages) {
    if has_other_copy(&path, records) {
        found.report(path, "is left over from an interrupted pip command: remove it", Some(Repair::Remove));
    } else {
        let reason = "is left over from an interrupted pip command, and may be the only copy of what pip has renamed";
        found.report(path, reason, None);
    }
}

/// Returns whether the package or directory also exists with the original name.
fn has_other_copy(path: &Path, records: &BTreeMap<String, Vec<MetadataDir>>) -> bool {
    // pip replaces the first characters of a name.
    const REPLACED: [char; 16] = ['~', '-', '.', '=', '%', '_', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let rest = name.trim_start_matches(REPLACED);
    if let Some(PackageRecord { name: package, .. }) = PackageRecord::from_dist_info(rest.into()) {
        let len = package.len() + name.len() - rest.len();
        return records.keys().any(|other| other.len() == len && other.ends_with(&package));
    }
    let is_copy = |other: &str| other.len() == name.len() && other.ends_with(rest) && !other.starts_with('~');
    let what = format!("{} bytes that end with {rest}", name.len());
    path.parent().is_some_and(|dir| !entries_named(dir, &what, is_copy).is_empty())
}

/// Reads the metadata if it is wanted or the directory's name contains no version.
fn distribution(
    name: &str,
    record: MetadataDir,
    dir: &Path,
    is_wanted: bool,
    found: &mut FoundPackages,
) -> Option<Distribution> {
    let MetadataDir { info_dir, mut version } = record;
    let is_source = version.is_none() && info_dir.extension().is_some_and(|extension| extension == "egg-info");
    if is_wanted {
        match metadata::read(&info_dir) {
            Ok(metadata) if metadata.name.as_ref().is_some_and(|stated| normalized(stated) != name) => {
                found.report(&info_dir, "contains the metadata of a different package", None);
            }
            Ok(metadata) if metadata.name.is_none() => {
                let again = Repair::Reinstall(name.to_owned(), version.clone());
                found.report(&info_dir, "has metadata without a name", Some(again));
            }
            Ok(metadata) => match metadata.version {
                Some(stated) if !names::is_version(&stated) => {
                    found.report(&info_dir, "has metadata with an invalid version", None);
                }
                stated => version = stated.or(version),
            },
            Err(reason) => {
                let again = Repair::Reinstall(name.to_owned(), version.clone());
                found.report(&info_dir, reason, Some(again));
            }
        }
        // A distribution's packages may lack the record.
        if name.starts_with("nvidia-")
            && info_dir.extension().is_some_and(|extension| extension == "dist-info")
            && let Some(reason) = record::record_damage(&info_dir)
        {
            found.report(&info_dir, reason, Some(Repair::Replace(name.to_owned(), version.clone())));
        }
        if version.is_none() {
            found.report(&info_dir, "states no version", None);
            return None;
        }
    }
    let source_dirs = if is_wanted { editable::source_dirs(dir, &info_dir) } else { None };
    let import_dir = info_dir.parent().filter(|_| info_dir.ends_with("EGG-INFO")).unwrap_or(dir).to_owned();
    let (is_editable, source_dirs) = (source_dirs.is_some() || is_source, source_dirs.unwrap_or_default());
    let version = version.unwrap_or_default();
    Some(Distribution { name: name.to_owned(), version, import_dir, info_dir, is_editable, source_dirs })
}
