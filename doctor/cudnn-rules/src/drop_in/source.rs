//! Finds the drop-in that was shipped with this doctor, in directories relative to the executable.

use cudnn_cli::escape::Printable;
use cudnn_cli::programs::own_file;
use cudnn_frameworks::installation::site_packages;
use cudnn_probe::facts::{self, PathFacts};
use std::path::{Path, PathBuf};

use cudnn_probe::layers::marker;
use cudnn_probe::{Library, exports, identify};

use super::{LAYERS, VERSION};
use crate::cudnn_file::{drop_in_version, is_drop_in};
use crate::refusal::Refusal;
use crate::remedy::Remedy;
use crate::system::choose;

/// The directory of the libraries in the Python package `cudnn_shim`, relative to site-packages.
const IN_PACKAGE: &str = choose("cudnn_shim/lib", r"cudnn_shim\bin");

/// The directory of the libraries in the release archive.
const IN_DISTRIBUTABLE: &str = choose("lib", "bin");

/// A usable drop-in.
#[derive(Debug)]
pub struct DropInSource {
    /// The library, with links resolved.
    pub file: PathBuf,
    /// The layers' library next to it.
    pub layers: Option<PathBuf>,
}

/// Returns the drop-in in this directory, or by default the drop-in shipped with this doctor.
///
/// # Errors
/// The drop-in is missing or unusable. The refusal explains why for all directories.
pub fn find(from: Option<&Path>) -> Result<DropInSource, Refusal> {
    let dirs = match from {
        Some(dir) => vec![dir.to_owned(), dir.join(IN_DISTRIBUTABLE)],
        None => dirs_beside_doctor(),
    };
    let mut reasons = Vec::new();
    for dir in &dirs {
        match read(dir) {
            Ok(source) => return Ok(source),
            Err(reason) => reasons.push(format!("{} {reason}", dir.printable())),
        }
    }
    let message = match from {
        Some(dir) => format!("there is no usable drop-in in {}", dir.printable()),
        None => format!("the drop-in of this doctor ({VERSION}) is not next to it"),
    };
    Err(Refusal::new(format!("{message}: {}", reasons.join("; "))).help(Remedy::new(format!(
        "name the directory of the drop-in with --from. The cudnn-doctor wheel contains both; in a checkout of the \
         project, `cargo xtask dist` builds the drop-in and prints a directory for --from. Its version must be \
         {VERSION}, as that of this doctor"
    ))))
}

/// Returns the candidate directories relative to the executable, most specific first.
fn dirs_beside_doctor() -> Vec<PathBuf> {
    let program = own_file().ok().and_then(|program| cudnn_probe::canonicalize(program).ok());
    let Some(bin) = program.as_deref().and_then(Path::parent) else { return Vec::new() };
    let prefix = bin.parent().unwrap_or(bin);
    let sites = site_packages(prefix).map(|site| site.join(IN_PACKAGE));
    let mut dirs: Vec<PathBuf> = sites.filter(|dir| dir.leads_to_dir()).collect();
    // For `pip install --target`.
    dirs.push(prefix.join(IN_PACKAGE));
    dirs.push(prefix.join(IN_DISTRIBUTABLE));
    dirs.push(bin.to_owned());
    dirs.dedup();
    dirs
}

/// Reads the drop-in in a directory. The error is a predicate about the directory.
fn read(dir: &Path) -> Result<DropInSource, String> {
    let dir = facts::absolute(dir).map_err(|error| error.to_string())?;
    let name = Library::Shim.file_name();
    let file = dir.join(name);
    // The loader searches for layers next to the resolved file, and the link may change later.
    let file = cudnn_probe::canonicalize(&file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => format!("has no {name}"),
        _ => format!("has a {name} that cannot be read: {error}"),
    })?;
    identify(&file, Library::Shim).map_err(|error| format!("has a {name} that {error}"))?;
    if !is_drop_in(&file) {
        return Err(format!("has a {name} that is not this project's drop-in"));
    }
    match drop_in_version(&file) {
        Some(version) if version == VERSION => {}
        Some(version) => return Err(format!("has the drop-in {version}, but this doctor is {VERSION}")),
        None => return Err("has a drop-in without a version: it is older than this doctor".into()),
    }
    let layers = file.with_file_name(LAYERS);
    match facts::symlink_metadata(&layers) {
        Err(_) => Ok(DropInSource { file, layers: None }),
        Ok(_) if has_layers(&layers) => Ok(DropInSource { file, layers: Some(layers) }),
        Ok(_) => Err(format!("has a {LAYERS} that is damaged, or not this project's")),
    }
}

pub(super) fn has_layers(file: &Path) -> bool {
    let of_trace = marker("trace", file);
    let wanted: Vec<&str> = ["cudnnLayerBegin"].into_iter().chain(of_trace.as_deref()).collect();
    of_trace.is_some() && exports(file, &wanted).is_ok_and(|found| found.iter().all(|is_there| *is_there))
}

#[cfg(all(test, unix))]
mod tests;
