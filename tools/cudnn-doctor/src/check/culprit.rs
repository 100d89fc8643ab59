//! The library that keeps cuDNN from being loaded, and belongs neither to cuDNN nor to the system: an old libstdc++ in
//! a directory of LD_LIBRARY_PATH, for example. Reinstalling cuDNN would not help.

use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::{Resolution, Rule, Simulation};
use cudnn_probe::{Host, InstallationReport, Library};

use super::finding::{DRIVER_CRASHED, FindingKind, Help, NOT_LOADED};
use crate::driver;
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

/// Is ld.so's message about the driver's library? It names the file first, or the one that requires something.
pub(super) fn is_driver(message: &str) -> bool {
    let named = message.split_once(": ").map(|(file, _)| file);
    let requiring = message.split_once("(required by ").map(|(_, file)| file.trim_end_matches(')'));
    let name = |file: &str| Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
    named.into_iter().chain(requiring).any(|file| is_name_of_driver(&name(file)))
}

fn is_name_of_driver(name: &str) -> bool {
    ["libcuda.so", "libnvidia-"].iter().any(|of| name.starts_with(of))
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

/// A damaged file that ld.so would load for cuDNN, and that is none of cuDNN's.
pub(super) struct Damaged {
    /// The name by which ld.so finds it.
    name: String,
    path: PathBuf,
    error: String,
    rule: Rule,
}

/// The damaged files that the libraries of this cuDNN are linked to, or open by name, each once. To load one may crash
/// (a truncated file) or hang (a pipe).
pub(super) fn damaged(report: &InstallationReport) -> Vec<Damaged> {
    let host = Host::current();
    let mut opened = vec![driver::LIBRARY.to_owned()];
    if let Some(major) = report.cuda_major {
        opened.extend(["libcublasLt", "libnvrtc"].map(|stem| format!("{stem}.so.{major}")));
    }
    let mut found: Vec<Damaged> = Vec::new();
    for part in report.libraries.iter().filter(|part| part.identity.is_ok()) {
        let Ok(mut simulation) = Simulation::new(&part.path, &host) else { continue };
        if part.library != Library::Shim {
            for name in &opened {
                let _ = simulation.dlopen_incomplete(name, 0);
            }
        }
        for lookup in simulation.lookups() {
            let Resolution::Unusable { path, rule, error } = &lookup.resolution else { continue };
            let is_known = lookup.name.starts_with("libcudnn") || found.iter().any(|known| known.path == *path);
            if !is_known {
                let (name, path, rule) = (lookup.name.clone(), path.clone(), rule.clone());
                found.push(Damaged { name, path, rule, error: error.to_string() });
            }
        }
    }
    found
}

/// The finding that blames the damaged files: its kind, its message and its help.
pub(super) fn explain_damaged(damaged: &[Damaged]) -> Option<(FindingKind, String, Help)> {
    let first = damaged.first()?;
    let kind = if damaged.iter().all(|damaged| is_name_of_driver(&damaged.name)) { DRIVER_CRASHED } else { NOT_LOADED };
    let files: Vec<String> =
        damaged.iter().map(|damaged| format!("{} {}", damaged.path.printable(), damaged.error)).collect();
    let message = format!("cuDNN cannot be loaded with a damaged library, and ld.so finds one: {}", files.join("; "));
    Some((kind, message, replace(&first.path, &first.rule)))
}

/// The help for a damaged file that ld.so finds by this rule, and that is none of cuDNN's.
pub(super) fn replace(file: &Path, rule: &Rule) -> Help {
    Help::new(match file.parent().filter(|_| *rule == Rule::LibraryPath) {
        Some(dir) => format!(
            "remove that file, or remove {} from LD_LIBRARY_PATH: ld.so takes it before the system's; cuDNN needs no \
             change",
            dir.printable()
        ),
        None => {
            format!(
                "replace that file: reinstall the package that it belongs to (found by: {rule}); cuDNN needs no change"
            )
        }
    })
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
