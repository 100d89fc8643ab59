//! Sets records of packages aside during a reinstallation, to restore them after a failure.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cudnn_cli::command::{Command, MOVE_ITEM, REMOVE_ITEM};
use cudnn_frameworks::{PackageRecord, name_before_aside, normalized, pip_records, real_path, record_damage};
use cudnn_probe::Os;
use cudnn_probe::facts::PathFacts;

use super::change::{PackageChange, Site};
use super::dirs::entries;
use super::environment::has_invalid_metadata;
use super::requirement::package_name;
use super::wheels::NVIDIA_PREFIX;

/// A record that is set aside.
#[derive(Debug)]
pub struct Aside {
    /// pip's record of the package.
    pub record: PathBuf,
    /// The path of the record during the installation, with an ending that hides it from installers.
    pub place: PathBuf,
    name: String,
    /// The records that stay in their places.
    others: Vec<PathBuf>,
    /// Whether an interrupted run has set the record aside.
    pub(crate) is_left: bool,
}

impl Aside {
    fn of(record: &PackageRecord, others: &[PathBuf]) -> Option<Aside> {
        let file_name = record.path.file_name()?.to_str()?;
        // An interrupted run may have left such a directory, and `mv` would move the record into it.
        let places = (1..).map(|number| record.path.with_file_name(format!("{file_name}.aside-{number}")));
        let place = { places }.find(|place| !place.path_exists())?;
        let (name, others) = (record.name.clone(), others.to_vec());
        Some(Aside { record: record.path.clone(), place, name, others, is_left: false })
    }

    fn left(place: PathBuf, others: &[PathBuf]) -> Option<Aside> {
        let before = name_before_aside(place.file_name()?.to_str()?)?;
        let PackageRecord { name, path, .. } = PackageRecord::from_dist_info(place.with_file_name(before))?;
        Some(Aside { record: path, place, name, others: others.to_vec(), is_left: true })
    }

    /// Returns the path of the record before the installation.
    pub fn before(&self) -> &Path {
        if self.is_left { &self.place } else { &self.record }
    }

    fn set(&self) -> Option<Command> {
        (!self.is_left).then(|| moving(&self.record, &self.place, None))
    }

    fn removal(&self) -> Command {
        removing(&self.place, "-r")
    }

    /// Returns the command that puts the record back. It fails if the installer has written the same record again.
    pub(crate) fn put_back(&self) -> Command {
        moving(&self.place, &self.record, Some("-T"))
    }

    /// Returns the commands for a record that is still aside because the installation failed. They put the record back,
    /// or remove it if the installer has completed another record of the package.
    pub fn settle(&self) -> Vec<Command> {
        if !self.place.path_exists() {
            return Vec::new();
        }
        let is_new = |record: &PackageRecord| record.name == self.name && !self.others.contains(&record.path);
        let written: Vec<PackageRecord> = pip_records(self.dir()).into_iter().filter(is_new).collect();
        if written.iter().any(is_complete) {
            return vec![self.removal()];
        }
        // Another record of the package may be put back in the same way.
        let partial = written.iter().map(|record| removing(&record.path, "-rf"));
        partial.chain([self.put_back()]).collect()
    }

    fn dir(&self) -> &Path {
        self.place.parent().unwrap_or(&self.place)
    }
}

impl PackageChange {
    /// Returns the records to set aside: records that pip cannot use to uninstall a package, and all records of removed
    /// packages in a `pip install --target` directory, where pip cannot uninstall. A record that an interrupted run has
    /// set aside is included if the package has no other record.
    pub fn records_aside(&self) -> Vec<Aside> {
        let names = |lists: &[&[String]]| -> BTreeSet<String> {
            lists.iter().copied().flatten().map(|name| normalized(package_name(name))).collect()
        };
        let (removed, named) = (names(&[&self.remove]), names(&[&self.remove, &self.reinstall, &self.install]));
        let is_directory = matches!(self.site, Site::Directory { .. });
        // Packages of a distribution omit the list of files, unlike NVIDIA's.
        let has_damaged_list =
            |record: &PackageRecord| record.name.starts_with(NVIDIA_PREFIX) && record_damage(&record.path).is_some();
        let is_damaged = |record: &PackageRecord| has_invalid_metadata(record) || has_damaged_list(record);
        let is_in_the_way = |record: &PackageRecord| {
            is_directory && removed.contains(&record.name) || named.contains(&record.name) && is_damaged(record)
        };
        let dirs = self.site.package_dirs();
        let all = dirs.iter().flat_map(|dir| pip_records(dir));
        let (in_the_way, others): (Vec<PackageRecord>, Vec<PackageRecord>) = all.partition(is_in_the_way);
        let has_record = |name: &str| in_the_way.iter().chain(&others).any(|record| record.name == name);
        let kept: Vec<PathBuf> = others.iter().map(|other| other.path.clone()).collect();
        // Two names may lead to one directory.
        let mut seen = BTreeSet::new();
        let mut is_new = |dir: &Path| seen.insert(real_path(dir));
        let new = in_the_way.iter().filter(|record| is_new(&record.path));
        let mut aside: Vec<Aside> = new.filter_map(|record| Aside::of(record, &kept)).collect();
        let left = dirs.iter().flat_map(|dir| entries(dir)).filter_map(|place| Aside::left(place, &kept));
        let left = left.filter(|aside| named.contains(&aside.name) && !has_record(&aside.name));
        aside.extend(left.filter(|aside| is_new(&aside.place)));
        aside
    }
}

fn is_complete(record: &PackageRecord) -> bool {
    record.path.join("METADATA").leads_to_file() && record_damage(&record.path).is_none()
}

pub(super) fn with_aside(aside: &[Aside], commands: Vec<Command>) -> Vec<Command> {
    aside.iter().filter_map(Aside::set).chain(commands).chain(aside.iter().map(Aside::removal)).collect()
}

/// Returns the command that removes a directory. The option is for Linux.
fn removing(dir: &Path, option: &str) -> Command {
    let command = match Os::HOST {
        Os::Windows => Command::new(REMOVE_ITEM, ["-Recurse", "-LiteralPath"]),
        _ => Command::new("rm", [option]),
    };
    command.and([dir]).changing(dir.parent().unwrap_or(dir))
}

/// Returns the command that moves a directory. The option is for Linux.
fn moving(from: &Path, to: &Path, option: Option<&str>) -> Command {
    let command = match Os::HOST {
        Os::Windows => Command::new(MOVE_ITEM, ["-LiteralPath"]).and([from]).and(["-Destination"]).and([to]),
        _ => Command::new("mv", option).and([from, to]),
    };
    command.changing(to.parent().unwrap_or(to))
}

#[cfg(all(test, unix))]
mod tests;
