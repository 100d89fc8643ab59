//! Compares the symbol versions that cuDNN requires with the system's libraries (C051).

use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::Os;
use cudnn_probe::image::missing_versions;
use cudnn_probe::ld_so::{Lookup, Resolution, Rule};

use super::finding::{Finding, NOT_LOADED};
use crate::context::Context;
use crate::remedy::Remedy;

struct Older {
    needed_by: String,
    file: String,
    versions: Vec<String>,
    remedy: Remedy,
}

/// C051: ld.so finds an older library, such as libstdc++, than cuDNN was built with. The load test reports the same
/// from ld.so's message.
pub(super) fn finding(report: &InstallationReport, context: &Context) -> Option<Finding> {
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
