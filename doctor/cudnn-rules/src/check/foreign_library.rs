//! Finds libraries outside cuDNN that prevent it from loading, for example an old libstdc++ on LD_LIBRARY_PATH.

use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::InstallationReport;
use cudnn_frameworks::is_of_driver;
use cudnn_probe::image::missing_versions;
use cudnn_probe::ld_so::{Lookup, Resolution, Rule, Simulation};
use cudnn_probe::{Host, Library, Os};
use std::path::{Path, PathBuf};

use super::finding::{DRIVER_CRASHED, Finding, NOT_LOADED};
use super::remedies::Companion;
use crate::context::Context;
use crate::remedy::Remedy;
use crate::system::DRIVER_LIBRARY;

/// Returns the problem and the fix, if libraries on LD_LIBRARY_PATH caused this error message of ld.so.
pub fn explain(message: &str, library: &Path) -> Option<(String, String)> {
    let foreign = foreign_dependencies(library);
    // `/opt/old/libstdc++.so.6: version `CXXABI_1.3.13' not found (required by ..)`, `/opt/old/libz.so.1: file too short`.
    let named = message.split_once(": ").and_then(|(named, _)| foreign.iter().find(|file| *file == Path::new(named)));
    // `libcudnn_ops.so.9: undefined symbol: inflate, version ZLIB_1.2`: ld.so names the library that needs the symbol.
    let symbol = message.split_once("undefined symbol: ").map(|(_, symbol)| symbol);
    let is_foreign = symbol.is_some_and(|symbol| !symbol.is_empty() && !symbol.contains("cudnn"));
    let culprits = match named {
        Some(named) => std::slice::from_ref(named),
        None if is_foreign => foreign.as_slice(),
        None => &[],
    };
    let name = Path::new(library.file_name()?).printable();
    let files: Vec<String> = culprits.iter().map(|file| file.printable()).collect();
    let mut dirs: Vec<String> = culprits.iter().filter_map(|file| Some(file.parent()?.printable())).collect();
    dirs.dedup();
    let help = format!(
        "Remove {} from LD_LIBRARY_PATH: a library in it is older than the system's, or damaged, and ld.so takes it before \
         the system's.",
        dirs.join(" and ")
    );
    let message = format!("{name} cannot be loaded with {}, found by LD_LIBRARY_PATH", files.join(" and "));
    (!culprits.is_empty()).then_some((message, help))
}

/// Returns the dependencies found through LD_LIBRARY_PATH that belong to neither cuDNN nor CUDA.
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

/// Returns whether an error message of ld.so is about the driver's library. The message starts with the damaged file or
/// with the file that needs it.
pub fn is_driver(message: &str) -> bool {
    let named = message.split_once(": ").map(|(file, _)| file);
    let requiring = message.split_once("(required by ").map(|(_, file)| file.trim_end_matches(')'));
    let name = |file: &str| Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
    named.into_iter().chain(requiring).any(|file| is_of_driver(&name(file)))
}

/// C003 or C051: damaged files outside cuDNN that the libraries load. Loading one may crash (a truncated file) or hang
/// (a pipe).
pub(super) fn damaged(report: &InstallationReport) -> Option<Finding> {
    let mut opened = vec![DRIVER_LIBRARY.to_owned()];
    opened.extend(Companion::of(report).map(|one| one.name));
    let mut found: Vec<(String, PathBuf, Rule, String)> = Vec::new();
    for part in report.libraries.iter().filter(|part| part.identity.is_ok()) {
        let Ok(mut simulation) = Simulation::new(&part.path, &Host::current()) else { continue };
        for name in opened.iter().filter(|_| part.library != Library::Shim) {
            let _ = simulation.dlopen_incomplete(name, 0);
        }
        for lookup in simulation.lookups() {
            let Resolution::Unusable { path, rule, error } = &lookup.resolution else { continue };
            if !lookup.name.starts_with("libcudnn") && found.iter().all(|(_, known, ..)| known != path) {
                found.push((lookup.name.clone(), path.clone(), rule.clone(), error.to_string()));
            }
        }
    }
    let (_, path, rule, _) = found.first()?;
    let kind = if found.iter().all(|(name, ..)| is_of_driver(name)) { DRIVER_CRASHED } else { NOT_LOADED };
    let files: Vec<String> = found.iter().map(|(_, path, _, error)| format!("{} {error}", path.printable())).collect();
    let message = format!("cuDNN cannot be loaded because ld.so finds a damaged library: {}", files.join("; "));
    Some(Finding::new(kind, message).remedy(replace(path, rule)))
}

pub(super) fn replace(file: &Path, rule: &Rule) -> Remedy {
    Remedy::new(match file.parent().filter(|_| *rule == Rule::LibraryPath) {
        Some(dir) => format!(
            "remove that file, or remove {} from LD_LIBRARY_PATH: ld.so takes it before the system's; cuDNN needs no \
             change",
            dir.printable()
        ),
        None => format!(
            "replace that file: reinstall the package that it belongs to (found by: {rule}); cuDNN needs no change"
        ),
    })
}

struct Older {
    needed_by: String,
    file: String,
    versions: Vec<String>,
    remedy: Remedy,
}

/// C051: ld.so finds an older library, such as libstdc++, than cuDNN was built with. The load test reports the same
/// from ld.so's message.
pub(super) fn too_old(report: &InstallationReport, context: &Context) -> Option<Finding> {
    let usable = report.libraries.iter().filter(|part| part.identity.is_ok() && Os::HOST == Os::Linux);
    let mut found = usable.filter_map(|part| {
        let simulation = context.simulation(&part.path).ok()?;
        simulation.lookups().iter().find_map(|lookup| older(&part.path, lookup))
    });
    let Older { needed_by, file, versions, remedy } = found.next()?;
    let also = found.map(|other| format!("{} needs {} of {}", other.needed_by, other.versions.join(", "), other.file));
    let message = format!("{needed_by} cannot be loaded: {file} does not provide {}", versions.join(", "));
    Some(Finding::new(NOT_LOADED, message).notes(also).remedy(remedy))
}

fn older(library: &Path, lookup: &Lookup) -> Option<Older> {
    let Resolution::Found { path, rule } = &lookup.resolution else { return None };
    let is_needed = lookup.requested_by == library && !lookup.name.starts_with("libcudnn");
    let versions = is_needed.then(|| missing_versions(library, &lookup.name, path).ok()).flatten()?;
    let first = versions.first()?.printable();
    let text = match path.parent().filter(|_| *rule == Rule::LibraryPath) {
        Some(dir) => format!(
            "remove {} from LD_LIBRARY_PATH: a library in it is older than the system's, and ld.so takes it before the \
             system's",
            dir.printable()
        ),
        None => {
            format!("install an older cuDNN, or a newer system: this system's libraries do not provide {first}")
        }
    };
    Some(Older {
        needed_by: Path::new(library.file_name()?).printable(),
        file: path.printable(),
        versions: versions.iter().map(|version| version.printable()).collect(),
        remedy: Remedy::new(text),
    })
}
