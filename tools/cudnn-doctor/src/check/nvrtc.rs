//! The finding about NVRTC without usable builtins. Knows nothing of cuDNN's own libraries.

use std::path::Path;

use cudnn_probe::InstallationReport;
use cudnn_probe::ld_so::{Resolution, Simulation};

use super::finding::{Finding, NO_BUILTINS};
use super::fix_commands::Companion;
use super::nvrtc_builtins::{STEM, beside, wanted_name};
use crate::context::Context;
use crate::escape::Printable;
use crate::platform::is_too_many_open_files;

/// The builtins that NVRTC opens, in the process of this simulation.
pub(super) fn builtins(
    companion: Companion<'_>,
    nvrtc: &Path,
    mut simulation: Simulation,
    report: &InstallationReport,
    context: &Context,
) -> Option<Finding> {
    let cuda_major = companion.cuda_major;
    let wanted = wanted_name(nvrtc);
    // It may be in another directory that ld.so searches.
    let by_ld_so = wanted.as_ref().and_then(|wanted| {
        let index = simulation.dlopen_incomplete(companion.name, 0)?;
        simulation.dlopen(wanted, index);
        match &simulation.lookups().last()?.resolution {
            Resolution::Found { .. } => Some(Ok(())),
            Resolution::Unusable { path, error, .. } => Some(Err(format!("{} {error}", path.printable()))),
            _ => None,
        }
    });
    let name = wanted.clone().unwrap_or_else(|| format!("{STEM}{cuda_major}.*"));
    let message = match (by_ld_so, beside(nvrtc, wanted.as_deref(), cuda_major)) {
        (Some(Ok(())), _) | (None, Some((_, Ok(())))) => return None,
        (_, Some((_, Err(error)))) if is_too_many_open_files(&error) => return None,
        (Some(Err(error)), _) => format!("{name} is damaged: {error}"),
        (None, Some((file, Err(error)))) => {
            let name = Path::new(file.file_name().unwrap_or_default()).printable();
            format!("{name} is damaged: {} {error}", file.printable())
        }
        (None, None) => format!("{name} is not beside {}, and ld.so does not find it", nvrtc.printable()),
    };
    let other = beside(nvrtc, None, cuda_major).filter(|_| wanted.is_some());
    let other = other.filter(|(file, _)| file.file_name().is_some_and(|found| found != name.as_str()));
    let other = other.map(|(file, _)| format!("found for another release: {}", file.printable()));
    let companion = Companion { incomplete: Some(nvrtc), ..companion };
    Some(
        Finding::new(NO_BUILTINS, message)
            .note("NVRTC opens it to compile a kernel")
            .notes(other)
            .help(companion.help(report, context)),
    )
}
