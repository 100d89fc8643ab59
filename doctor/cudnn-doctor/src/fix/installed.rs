//! Reads which packages a place contains, and compares them with the planned change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use cudnn_frameworks::installation::{conda_packages, site_packages, system_packages};
use cudnn_frameworks::{PackageRecord, allows, normalized, pip_records, required_packages};
use cudnn_probe::Host;
use cudnn_rules::as_installed::damaged_file;
use cudnn_rules::packages::{PackageChange, Site, entries, imports_user_packages, package_name, user_base};

use super::state::{Stamp, stamp};

pub(super) const OF_ENSUREPIP: [&str; 2] = ["pip", "setuptools"];

/// One record of a package. An interrupted upgrade can leave several.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Recorded {
    version: String,
    /// Identifies the record, because each installation writes a new one.
    stamp: Stamp,
    /// Dependencies and files are only read from the records of pip.
    path: PathBuf,
}

/// The differences between an earlier and a later state.
#[derive(Debug)]
pub(super) struct PackageDifference {
    /// The names of new packages.
    pub(super) added: Vec<String>,
    /// The names of missing and changed packages with requirements that restore them, in the order of installation.
    pub(super) lost: Vec<(String, String)>,
}

#[derive(Debug)]
pub(super) struct InstalledPackages {
    packages: BTreeMap<String, Vec<Recorded>>,
    /// Separates a name from a version in the installer's requirements.
    separator: &'static str,
}

impl InstalledPackages {
    /// Reads the installer's records, if the place of the packages is known.
    pub(super) fn of(site: &Site) -> Option<InstalledPackages> {
        match site {
            Site::OnPath => None,
            Site::System => Some(by_name("=", system_packages(&Host::current())?)),
            Site::Conda(root) => Some(by_name("=", conda_packages(root))),
            Site::NewEnvironment { dir, .. } => Some(from_pip(site_packages(dir))),
            _ => Some(from_pip(package_dirs(site))),
        }
    }

    pub(super) fn requirements(&self) -> String {
        let all = self.packages.iter().flat_map(|(name, records)| records.iter().map(move |record| (name, record)));
        all.map(|(name, record)| format!("{name}{}{}\n", self.separator, record.version)).collect()
    }

    /// Compares these packages with a later state. Packages that `is_named` accepts count as lost, and of two records
    /// of a package, the last one counts. Local versions such as `2.5.1+cpu` are omitted, because no index has them.
    pub(super) fn compared(&self, later: &InstalledPackages, is_named: impl Fn(&str) -> bool) -> PackageDifference {
        let added = later.packages.keys().filter(|name| !self.packages.contains_key(*name)).cloned().collect();
        let is_lost = |name: &str| self.versions(name) != later.versions(name) || is_named(name);
        let mut lost: Vec<_> = self.packages.iter().filter(|(name, _)| is_lost(name)).collect();
        lost.sort_by_key(|(_, records)| records.last().and_then(|record| record.stamp?.1));
        let requirement = |(name, records): (&String, &Vec<Recorded>)| {
            let missing = records.iter().rfind(|record| !later.records(name).contains(record));
            let version = &missing.or(records.last())?.version;
            (!version.contains('+')).then(|| (name.clone(), format!("{name}{}{version}", self.separator)))
        };
        PackageDifference { added, lost: lost.into_iter().filter_map(requirement).collect() }
    }

    /// Returns the packages that this change may have affected: the named packages and all dependencies. `None` if the
    /// installer's records lack dependencies.
    pub(super) fn affected_by(&self, change: &PackageChange) -> Option<BTreeSet<String>> {
        if matches!(change.site, Site::System | Site::Conda(_)) {
            return None;
        }
        let named = change.remove.iter().chain(&change.reinstall).chain(&change.install);
        let mut names: Vec<String> = named.map(|name| key(package_name(name), change)).collect();
        names.extend(OF_ENSUREPIP.map(str::to_owned));
        let mut affected = BTreeSet::new();
        while let Some(name) = names.pop() {
            let required = self.records(&name).iter().flat_map(|record| required_packages(&record.path));
            names.extend(required.filter(|required| !affected.contains(required)));
            affected.insert(name);
        }
        Some(affected)
    }

    pub(super) fn has_same(&self, later: &InstalledPackages, name: &str) -> bool {
        self.records(name) == later.records(name)
    }

    pub(super) fn has(&self, name: &str, change: &PackageChange) -> bool {
        !self.records(&key(name, change)).is_empty()
    }

    fn records(&self, name: &str) -> &[Recorded] {
        self.packages.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    fn versions(&self, name: &str) -> Vec<&str> {
        self.records(name).iter().map(|record| record.version.as_str()).collect()
    }

    /// Returns the first difference from the planned result.
    pub(super) fn unmet(&self, change: &PackageChange, before: &InstalledPackages) -> Option<String> {
        let required = change.reinstall.iter().chain(&change.install);
        let damage = |new: &Recorded| damaged_file(&PackageRecord::from_dist_info(new.path.clone())?);
        let unmet = required.filter_map(|requirement| {
            let name = key(package_name(requirement), change);
            let found = self.versions(&name);
            let (Some(first), again) = (found.first(), change.reinstall.contains(requirement)) else {
                return Some(format!("{name} is not installed"));
            };
            if !found.iter().any(|version| allows(requirement, version)) {
                return Some(format!(
                    "{name} is version {first} instead of {requirement}: a pin or an override may forbid the change, or \
                     the installer knows no such version"
                ));
            }
            let (old, new) = (before.records(&name), self.records(&name));
            let is_unchanged = again && new.iter().all(|record| record.stamp.is_some() && old.contains(record));
            let mut written = new.iter().filter(|record| !old.contains(record));
            match is_unchanged {
                true => Some(format!("{name} was not installed again: a setting may forbid it, or the version is not available")),
                false => written.find_map(damage).map(|file| format!("{name} is damaged: {file}")),
            }
        });
        // conda's solver decides which packages it removes.
        let removed = change.remove.iter().filter(|_| !matches!(change.site, Site::Conda(_)));
        let is_left = removed.filter(|name| !change.installs(name)).filter_map(|name| {
            let planned = change.remove.iter().filter(|other| *other == name).count();
            let count = before.records(&key(name, change)).len().saturating_sub(planned);
            (self.records(&key(name, change)).len() > count).then(|| format!("{name} is still installed"))
        });
        { unmet }.next().or_else(|| { is_left }.next())
    }

    /// Returns the first earlier package that has changed against the plan. Dependencies are only known after a
    /// download, so new packages and their dependencies are ignored.
    pub(super) fn disturbed(&self, before: &InstalledPackages, expected: &InstalledPackages) -> Option<String> {
        let required = self.required_by_new(before);
        let is_kept = |name: &&String| {
            expected.versions(name) == before.versions(name)
                && !OF_ENSUREPIP.contains(&name.as_str())
                && !required.contains(*name)
        };
        let is_same = |name: &String| self.versions(name) == before.versions(name);
        let name = before.packages.keys().filter(is_kept).find(|name| !is_same(name))?;
        let (old, new) = (before.versions(name).join(" and "), self.versions(name).join(" and "));
        Some(match new.as_str() {
            "" => format!("{name} {old} is no longer installed, although the plan keeps it"),
            _ => format!("{name} is version {new} instead of {old}, although the plan keeps it"),
        })
    }

    /// Returns the names of packages that new or changed packages require.
    fn required_by_new(&self, before: &InstalledPackages) -> BTreeSet<String> {
        let required_by = |(name, records): (&String, &Vec<Recorded>)| {
            let new = records.iter().filter(|record| !before.records(name).contains(record));
            let required = new.flat_map(|record| required_packages(&record.path));
            required.filter(|other| other != name).collect::<Vec<_>>()
        };
        self.packages.iter().flat_map(required_by).collect()
    }
}

fn key(name: &str, change: &PackageChange) -> String {
    match change.site {
        Site::System | Site::Conda(_) => name.to_owned(),
        _ => normalized(name),
    }
}

/// Returns the directories with pip's records, including Debian's, and the user's if this Python imports them.
fn package_dirs(site: &Site) -> Vec<PathBuf> {
    let mut dirs = site.package_dirs();
    if let Some(root) = site.dir().filter(|_| !matches!(site, Site::Directory { .. })) {
        dirs.extend(site_packages(&root.join("local")));
        if imports_user_packages(root) {
            // On Windows, Pythons have separate directories there.
            let bases = user_base().into_iter().flat_map(|base| entries(&base).chain([base]).collect::<Vec<_>>());
            dirs.extend(bases.flat_map(|base| site_packages(&base).collect::<Vec<_>>()));
        }
    }
    dirs
}

fn from_pip(dirs: impl IntoIterator<Item = PathBuf>) -> InstalledPackages {
    // lib64 may be a link to lib.
    let dirs: BTreeSet<PathBuf> = dirs.into_iter().filter_map(|dir| cudnn_probe::canonicalize(&dir).ok()).collect();
    by_name("==", dirs.iter().flat_map(|dir| pip_records(dir)))
}

fn by_name(separator: &'static str, records: impl IntoIterator<Item = PackageRecord>) -> InstalledPackages {
    let mut packages: BTreeMap<String, Vec<Recorded>> = BTreeMap::new();
    for PackageRecord { name, version, path } in records {
        let Some(version) = version else { continue };
        let stamp = stamp(&path);
        packages.entry(name).or_default().push(Recorded { version, stamp, path });
    }
    InstalledPackages { packages, separator }
}

#[cfg(test)]
mod tests;
