//! The library that keeps cuDNN from being loaded, and belongs neither to cuDNN nor to the system: an old libstdc++ in
//! a directory of LD_LIBRARY_PATH, for example. Reinstalling cuDNN would not help.

use std::path::{Path, PathBuf};

use cudnn_probe::Host;
use cudnn_probe::ld_so::{Resolution, Rule, Simulation};

use crate::escape::Printable;

/// The libraries on LD_LIBRARY_PATH that ld.so's message about a library of cuDNN is about.
pub(super) fn find(message: &str, library: &Path) -> Vec<PathBuf> {
    let foreign = foreign_dependencies(library);
    // `/opt/old/libstdc++.so.6: version `CXXABI_1.3.13' not found (required by ..)`, `/opt/old/libz.so.1: file too short`.
    let named = message.split_once(": ").map(|(file, _)| Path::new(file));
    if let Some(named) = named.and_then(|named| foreign.iter().find(|file| *file == named)) {
        return vec![named.clone()];
    }
    // `libcudnn_ops.so.9: undefined symbol: inflate, version ZLIB_1.2`: ld.so names the library that needs the symbol.
    let symbol = message.split_once("undefined symbol: ").map(|(_, symbol)| symbol);
    let is_of_cudnn = |symbol: &str| symbol.contains("cudnn");
    if symbol.is_some_and(|symbol| !symbol.is_empty() && !is_of_cudnn(symbol)) { foreign } else { Vec::new() }
}

/// What is wrong, and what to do about it.
pub(super) fn explain(library: &Path, culprits: &[PathBuf]) -> (String, String) {
    let name = Path::new(library.file_name().unwrap_or_default()).printable();
    let files: Vec<String> = culprits.iter().map(|file| file.printable()).collect();
    let mut dirs: Vec<String> = culprits.iter().filter_map(|file| Some(file.parent()?.printable())).collect();
    dirs.dedup();
    (
        format!("{name} cannot be loaded with {}, found by LD_LIBRARY_PATH", files.join(" and ")),
        format!(
            "Remove {} from LD_LIBRARY_PATH: a library in it is older than the system's, or damaged, and ld.so takes it \
             before the system's.",
            dirs.join(" and ")
        ),
    )
}

/// The libraries that LD_LIBRARY_PATH leads to, besides those of cuDNN and CUDA.
fn foreign_dependencies(library: &Path) -> Vec<PathBuf> {
    const OF_NVIDIA: [&str; 2] = ["libcu", "libnv"];
    let Ok(simulation) = Simulation::new(library, &Host::current()) else { return Vec::new() };
    let found = simulation.lookups().iter().filter(|lookup| !OF_NVIDIA.iter().any(|of| lookup.name.starts_with(of)));
    let on_path = found.filter_map(|lookup| match &lookup.resolution {
        Resolution::Found { path, rule: Rule::LibraryPath }
        | Resolution::Unusable { path, rule: Rule::LibraryPath, .. } => Some(path.clone()),
        _ => None,
    });
    on_path.collect()
}
