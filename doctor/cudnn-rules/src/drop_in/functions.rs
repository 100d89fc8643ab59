//! Compares the exports of a drop-in with NVIDIA's shim. If a function is missing from an older drop-in, ld.so
//! terminates the programs that call it, although they work with NVIDIA's shim.

use cudnn_cli::escape::Printable;
use cudnn_cli::output::count;
use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_probe::Library;
use cudnn_probe::image::missing_exports;

use super::KEPT;
use crate::cudnn_file::is_drop_in;
use crate::refusal::Refusal;

/// Describes the missing functions as a predicate: `lacks cudnnNew and 2 more functions that SHIM exports`. Returns
/// `None` if the drop-in is complete or a file is unreadable.
pub(crate) fn lacking(drop_in: &Path, nvidia: &Path) -> Option<String> {
    let missing = missing_exports(drop_in, nvidia).ok()?;
    let (first, others) = missing.split_first()?;
    let others = match others.len() {
        0 => ", a function".to_owned(),
        more => format!(" and {}", count(more, "more function")),
    };
    Some(format!("lacks {}{others} that {} exports", first.printable(), nvidia.printable()))
}

/// Refuses a drop-in that is missing functions of this shim.
///
/// # Errors
/// The refusal, which names a missing function.
pub fn refuse_older(drop_in: &Path, nvidia: &Path) -> Result<(), Refusal> {
    let Some(lacking) = lacking(drop_in, nvidia) else { return Ok(()) };
    let message = format!("the drop-in {} {lacking}: programs that call it would not start", drop_in.printable());
    Err(Refusal::new(message).help("use a newer cudnn-doctor, which includes a drop-in for this cuDNN"))
}

/// Returns the path of NVIDIA's shim in this directory, under the original name or the name given by `install`.
pub fn nvidia_shim_in(dir: &Path) -> Option<PathBuf> {
    let files = [Library::Shim.file_name(), KEPT].map(|name| dir.join(name));
    files.into_iter().find(|file| file.leads_to_file() && !is_drop_in(file))
}
