//! Parses the names of metadata directories: `torch-2.9.1+cu128.dist-info`, `six-1.16.0-py3.11.egg-info`.

use std::path::{Path, PathBuf};

use cudnn_probe::facts;

use crate::files::file_name;

/// The maximum length of a name or a version in bytes.
const MAX_LEN: usize = 128;

/// The kind of a metadata directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetadataKind {
    DistInfo,
    EggInfo,
    /// A directory or a zip file with the package's files and metadata.
    Egg,
}

pub(super) fn kind(name: &str) -> Option<(MetadataKind, &str)> {
    let kinds =
        [(".dist-info", MetadataKind::DistInfo), (".egg-info", MetadataKind::EggInfo), (".egg", MetadataKind::Egg)];
    kinds.into_iter().find_map(|(suffix, kind)| Some((kind, name.strip_suffix(suffix)?)))
}

/// An installer's record of a package.
#[derive(Clone, Debug)]
pub struct PackageRecord {
    /// The name, which is normalized for pip: `nvidia-cudnn-cu12`.
    pub name: String,
    /// The version, if the name of pip's record contains one.
    pub version: Option<String>,
    /// The directory of pip (`.dist-info`), the file of conda, or dpkg's list of files.
    pub path: PathBuf,
}

impl PackageRecord {
    /// Returns the record of pip or a similar tool in this `.dist-info` directory.
    pub fn from_dist_info(path: PathBuf) -> Option<PackageRecord> {
        let (kind, stem) = kind(file_name(&path)).filter(|(kind, _)| *kind == MetadataKind::DistInfo)?;
        let (name, version) = parse(stem, kind)?;
        Some(PackageRecord { name, version, path })
    }
}

/// Returns pip's records in a directory of packages, sorted by name.
pub fn pip_records(dir: &Path) -> Vec<PackageRecord> {
    let entries = facts::read_dir(dir).into_iter().flatten().map(|entry| entry.path());
    let mut records: Vec<PackageRecord> = entries.filter_map(PackageRecord::from_dist_info).collect();
    records.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    records
}

/// Returns the original name of a `.dist-info` directory that `fix` has set aside, such as
/// `torch-2.9.1.dist-info.aside-1`.
pub fn name_before_aside(name: &str) -> Option<&str> {
    let (before, number) = name.rsplit_once(".aside-")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && before.ends_with(".dist-info")).then_some(before)
}

pub(super) fn parse(stem: &str, kind: MetadataKind) -> Option<(String, Option<String>)> {
    // Older names may contain `-`, but a version starts with a digit.
    let is_version = |(dash, _): &(usize, _)| {
        stem.get(dash + 1..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let (name, version) = match stem.match_indices('-').find(is_version) {
        Some((dash, _)) => (stem.get(..dash)?, stem.get(dash + 1..)),
        None => (stem, None),
    };
    // Eggs also have the Python version: `-py3.11-linux-x86_64`.
    let version = version.and_then(|version| match kind {
        MetadataKind::DistInfo => Some(version),
        MetadataKind::EggInfo | MetadataKind::Egg => version.split("-py").next(),
    });
    if !is_name(name) || version.is_some_and(|version| !self::is_version(version)) {
        return None;
    }
    Some((normalized(name), version.map(str::to_owned)))
}

fn is_name(text: &str) -> bool {
    is_version(text) && !text.contains(['+', '!'])
}

pub(super) fn is_version(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '!');
    text.len() <= MAX_LEN && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_plain)
}

/// Normalizes a package name as in PEP 503: lower case, with `-` instead of each run of `-`, `_` and `.`.
pub fn normalized(name: &str) -> String {
    let mut normalized = String::with_capacity(name.len());
    for c in name.chars() {
        if !matches!(c, '-' | '_' | '.') {
            normalized.push(c.to_ascii_lowercase());
        } else if !normalized.ends_with('-') {
            normalized.push('-');
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names_contain_package_names_and_versions() {
        for (dir, expected) in [
            ("torch-2.9.1+cu128.dist-info", Some(("torch", Some("2.9.1+cu128")))),
            ("nvidia_cudnn_cu12-9.10.2.21.dist-info", Some(("nvidia-cudnn-cu12", Some("9.10.2.21")))),
            ("Ruamel.yaml-clib-0.2.8.dist-info", Some(("ruamel-yaml-clib", Some("0.2.8")))),
            ("six-1.16.0-py3.11-linux-x86_64.egg-info", Some(("six", Some("1.16.0")))),
            ("six-1.16.0-py3.11.egg", Some(("six", Some("1.16.0")))),
            ("torch.egg-info", Some(("torch", None))),
            ("a__b-._c-1.0.dist-info", Some(("a-b-c", Some("1.0")))),
            ("torch.dist-info", Some(("torch", None))),
            ("torch", None),
            ("~orch-2.9.1.dist-info", None),
            (".dist-info", None),
            ("-1.0.dist-info", None),
            ("tor\u{202e}ch-1.0.dist-info", None),
            ("torch-1.0\n.dist-info", None),
        ] {
            let found = kind(dir).and_then(|(kind, stem)| parse(stem, kind));
            let expected = expected.map(|(name, version)| (name.to_owned(), version.map(str::to_owned)));
            assert_eq!(found, expected, "{dir:?}");
        }
    }
}
