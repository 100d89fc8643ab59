//! Compares files with the lengths and hashes that installers have recorded.

use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::{Installer, Package, RecordedFile};
use cudnn_frameworks::{PackageRecord, pip_records, recorded_files};
use cudnn_probe::facts::{self, PathFacts};

use crate::cudnn_file::sha256;

/// Describes how a file differs from every record, with `verify` also in the contents. If one wheel was installed over
/// another, one matching record is enough.
pub(crate) fn difference(file: &Path, name: &str, recorded: &[RecordedFile], verify: bool) -> Option<String> {
    let len = facts::metadata(file).ok()?.len();
    let last = recorded.last()?;
    if recorded.iter().all(|recorded| recorded.len != len) {
        return Some(format!("{name} has {len} bytes, but {} installed {} bytes", last.package, last.len));
    }
    let mut hashes = recorded.iter().filter(|recorded| recorded.len == len).map(|recorded| &recorded.sha256);
    if !verify || hashes.clone().any(Option::is_none) {
        return None;
    }
    let found = sha256(file);
    hashes.all(|recorded| *recorded != found).then(|| {
        let found = found.as_deref().unwrap_or("unknown");
        format!(
            "{name} has the right size, but a different sha256 ({found}) than the file that {} installed",
            last.package
        )
    })
}

/// Describes the first difference between a package's files and pip's record, a directory such as
/// `site-packages/nvidia_cudnn_cu12-9.19.0.56.dist-info`. Reads all files.
pub fn damaged_file(record: &PackageRecord) -> Option<String> {
    let site = record.path.parent()?;
    let recorded_by = |record: &PackageRecord, len: u64, sha256: Option<String>| {
        let package = Package::new(Installer::Pip, &record.name, record.version.as_deref(), site);
        RecordedFile { package, len, sha256 }
    };
    recorded_files(&record.path).into_iter().find_map(|(path, len, sha256)| {
        let (file, name) = (site.join(&path), path.printable());
        if !file.target_exists() {
            return Some(format!("{name} is missing"));
        }
        let mut all = vec![recorded_by(record, len, sha256)];
        difference(&file, &name, &all, true)?;
        for other in pip_records(site).into_iter().filter(|other| other.path != record.path) {
            let same = recorded_files(&other.path).into_iter().filter(|(other, ..)| *other == path);
            all.extend(same.map(|(_, len, sha256)| recorded_by(&other, len, sha256)));
        }
        all.rotate_left(1);
        difference(&file, &name, &all, true)
    })
}
