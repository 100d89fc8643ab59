//! The releases that NVIDIA's shim, `libcudnn.so.9`, can be of. Its file states no version; the functions that it
//! exports show between which releases it was built, since each release has the functions of those before it.

use std::path::Path;

use cudnn_frameworks::is_drop_in;
use cudnn_loader::Function;
use cudnn_probe::{Version, exports};

/// The reason why this shim is not of the release of graph: `is of cuDNN 9.26.0 or newer`. `None` if it can be of that
/// release, if it is the drop-in, or if its functions cannot be read.
pub(crate) fn conflict(shim: &Path, graph: Version) -> Option<String> {
    if is_drop_in(shim) {
        return None;
    }
    let names: Vec<&str> = Function::names().collect();
    let exported = exports(shim, &names).ok()?;
    let with = |wanted: bool| {
        let functions = Function::ALL.iter().zip(&exported);
        functions.filter(move |(_, is_there)| **is_there == wanted).map(|(function, _)| function.since())
    };
    // A library without the functions of the first release is not NVIDIA's shim.
    let (oldest, before) = (with(true).max()?, with(false).min());
    match before {
        Some(before) if before <= Version::new(9, 0, 0) => None,
        Some(before) if graph >= before => Some(format!("is of a cuDNN before {before}")),
        _ if graph < oldest => Some(format!("is of cuDNN {oldest} or newer")),
        _ => None,
    }
}
