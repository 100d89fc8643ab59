//! Compares the functions of a drop-in with those of NVIDIA's shim. A drop-in that is older than cuDNN lacks functions, and
//! ld.so ends a program that calls one of them, although the program starts with NVIDIA's shim.

use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_probe::Library;
use cudnn_probe::internal::missing_exports;

use super::KEPT;
use crate::cudnn_file::is_drop_in;
use crate::escape::Printable;
use crate::output::count;
use crate::refusal::Refusal;

/// Returns what the drop-in lacks, to follow its name: `lacks cudnnNew and 2 more functions that SHIM exports`. `None` if it
/// lacks nothing, or if a file cannot be read.
pub(crate) fn lacking(drop_in: &Path, nvidia: &Path) -> Option<String> {
    let missing = missing_exports(drop_in, nvidia).ok()?;
    let (first, others) = missing.split_first()?;
    let others = match others.len() {
        0 => ", a function".to_owned(),
        more => format!(" and {}", count(more, "more function")),
    };
    Some(format!("lacks {}{others} that {} exports", first.printable(), nvidia.printable()))
}

/// Refuses to put the drop-in in front of this shim if it lacks functions of it.
pub(crate) fn refuse_older(drop_in: &Path, nvidia: &Path) -> Result<(), Refusal> {
    let Some(lacking) = lacking(drop_in, nvidia) else { return Ok(()) };
    let message = format!("the drop-in {} {lacking}: programs that call it would not start", drop_in.printable());
    Err(Refusal::new(message).help("use a newer cudnn-doctor with its drop-in, which supports this cuDNN"))
}

/// NVIDIA's shim in this directory: under its own name, or under the one by which `install` keeps it.
pub(crate) fn nvidia_shim_in(dir: &Path) -> Option<PathBuf> {
    let files = [Library::Shim.file_name(), KEPT].map(|name| dir.join(name));
    files.into_iter().find(|file| file.leads_to_file() && !is_drop_in(file))
}
