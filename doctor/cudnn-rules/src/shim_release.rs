//! Determines the possible releases of NVIDIA's shim, `libcudnn.so.9`, which contains no version. Newer releases only
//! add functions. The exported functions therefore indicate a range of releases.

use std::path::Path;

use cudnn_frameworks::is_drop_in;
use cudnn_loader::Function;
use cudnn_probe::{Version, exports};

/// Explains why this shim contradicts the release of graph, for example `is of cuDNN 9.26.0 or newer`. Returns `None`
/// for a matching shim, the drop-in, and a shim with unreadable functions.
pub fn conflict(shim: &Path, graph: Version) -> Option<String> {
    if is_drop_in(shim) {
        return None;
    }
    let names: Vec<&str> = Function::names().collect();
    let exported = exports(shim, &names).ok()?;
    let with = |wanted: bool| {
        let functions = Function::ALL.iter().zip(&exported);
        functions.filter(move |(_, is_there)| **is_there == wanted).map(|(function, _)| function.since())
    };
    // NVIDIA's shim always exports the functions of the first release.
    let (oldest, before) = (with(true).max()?, with(false).min());
    match before {
        Some(before) if before <= Version::new(9, 0, 0) => None,
        Some(before) if graph >= before => Some(format!("is of a cuDNN before {before}")),
        _ if graph < oldest => Some(format!("is of cuDNN {oldest} or newer")),
        _ => None,
    }
}
