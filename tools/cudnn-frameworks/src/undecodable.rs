//! Packages whose metadata pip cannot decode: many of its releases then end with a traceback, whatever they are asked to
//! do, and most others when they list or remove packages. So this concerns all packages, not those of frameworks alone.

use std::path::Path;

use cudnn_probe::read_bounded;

use crate::distribution::{Distribution, Found};
use crate::metadata;
use crate::parallel::in_parallel;
use crate::unreadable::{Remedy, Unreadable};

/// The most bytes of a file that states the installer.
const MAX_INSTALLER_LEN: u64 = 64;

/// Reports them.
pub(crate) fn report(found: &mut Found) {
    let places = in_parallel(&found.distributions, |package| metadata::undecodable_byte(&package.info_dir));
    let undecodable: Vec<Unreadable> = places
        .into_iter()
        .filter_map(|(index, place)| Some(unreadable(found.distributions.get(index)?, place?)))
        .collect();
    for one in undecodable {
        // What concerns a framework has been met before, for another reason.
        found.unreadable.retain(|known| known.path != one.path);
        found.add(one);
    }
}

fn unreadable(package: &Distribution, place: usize) -> Unreadable {
    let name = metadata::file(&package.info_dir);
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    let reason = format!(
        "has a {name} that is not text in UTF-8 (byte {place}): pip ends with a UnicodeDecodeError, many releases at each \
         command"
    );
    let unreadable = Unreadable::new(&package.info_dir, reason);
    if is_of_pip(&package.info_dir) {
        let version = Some(package.version.clone()).filter(|version| !version.is_empty());
        return unreadable.with_remedy(Remedy::Replace(package.name.clone(), version));
    }
    unreadable
}

/// Has pip, or uv, made this directory, so that one of them installs the package again?
fn is_of_pip(info_dir: &Path) -> bool {
    let installer = read_bounded(&info_dir.join("INSTALLER"), MAX_INSTALLER_LEN).unwrap_or_default();
    info_dir.extension().is_some_and(|extension| extension == "dist-info")
        && ["pip", "uv"].iter().any(|name| installer.trim_ascii() == name.as_bytes())
}
