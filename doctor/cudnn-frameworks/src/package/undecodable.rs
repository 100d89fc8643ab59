//! Finds packages with metadata that pip cannot decode, which makes all commands of many pip releases fail.

use std::path::Path;

use cudnn_probe::{facts, read_bounded};

use super::distribution::{Distribution, FoundPackages};
use super::metadata;
use super::unreadable::{Repair, Unreadable};
use crate::files::file_name;
use crate::parallel::in_parallel;

pub(crate) fn report(found: &mut FoundPackages) {
    for one in in_parallel(&found.distributions, unreadable).into_iter().flatten() {
        // The package may be reported for a different reason.
        found.unreadable.retain(|known| known.path != one.path);
        found.add(one);
    }
}

/// Returns the position of the first byte that is not UTF-8. Other problems are reported elsewhere.
fn undecodable_byte(file: &Path) -> Option<u64> {
    let bytes = read_bounded(file, metadata::MAX_LEN).ok()?;
    let error = std::str::from_utf8(&bytes).err().filter(|_| !bytes.contains(&0))?;
    Some(error.valid_up_to() as u64 + 1)
}

fn unreadable(package: &Distribution) -> Option<Unreadable> {
    let file = metadata::file(&package.info_dir);
    let byte = facts::derive("undecodable byte", &file, || undecodable_byte(&file))?;
    let reason = format!(
        "has a {} that is not valid UTF-8 (byte {byte}): pip fails with a UnicodeDecodeError, often in every command",
        file_name(&file)
    );
    // Only pip and uv can reinstall into such a directory.
    let is_of_pip = matches!(package.installer().as_str(), "pip" | "uv")
        && package.info_dir.extension().is_some_and(|extension| extension == "dist-info");
    let version = Some(package.version.clone()).filter(|version| !version.is_empty());
    let repair = is_of_pip.then(|| Repair::Replace(package.name.clone(), version));
    Some(Unreadable::new(&package.info_dir, reason, repair))
}
