//! Finds packages whose metadata pip cannot decode: many releases of pip then end with a traceback at each command.

use std::path::Path;

use cudnn_probe::{facts, read_bounded};

use super::distribution::{Distribution, Found};
use super::metadata;
use super::unreadable::{Remedy, Unreadable};
use crate::files::{file_name, read_text};
use crate::parallel::in_parallel;

/// The most bytes of a file that states the installer.
const MAX_INSTALLER_LEN: u64 = 64;

/// Reports them, whether they concern a framework or not.
pub(crate) fn report(found: &mut Found) {
    for one in in_parallel(&found.distributions, unreadable).into_iter().flatten() {
        // One that concerns a framework may be reported already, for another reason.
        found.unreadable.retain(|known| known.path != one.path);
        found.add(one);
    }
}

/// The first byte of a text file that is not UTF-8. A file that is no text is reported when a package is read for a
/// framework.
fn undecodable_byte(file: &Path) -> Option<u64> {
    let bytes = read_bounded(file, metadata::MAX_LEN).ok()?;
    let error = std::str::from_utf8(&bytes).err().filter(|_| !bytes.contains(&0))?;
    Some(error.valid_up_to() as u64 + 1)
}

fn unreadable(package: &Distribution) -> Option<Unreadable> {
    let file = metadata::file(&package.info_dir);
    let byte = facts::ask("undecodable byte", &file, || undecodable_byte(&file))?;
    let reason = format!(
        "has a {} that is not text in UTF-8 (byte {byte}): pip ends with a UnicodeDecodeError, many releases at each command",
        file_name(&file)
    );
    // Only pip and uv install the package again into such a directory.
    let installer = read_text(&package.info_dir.join("INSTALLER"), MAX_INSTALLER_LEN).unwrap_or_default();
    let is_of_pip = matches!(installer.trim(), "pip" | "uv")
        && package.info_dir.extension().is_some_and(|extension| extension == "dist-info");
    let version = Some(package.version.clone()).filter(|version| !version.is_empty());
    let remedy = is_of_pip.then(|| Remedy::Replace(package.name.clone(), version));
    Some(Unreadable::new(&package.info_dir, reason, remedy))
}
