//! Checks NVRTC and the builtins library that it opens (C031, C032). The name of the builtins contains the minor
//! release of CUDA.

use cudnn_cli::escape::Printable;
use std::path::{Path, PathBuf};

use cudnn_frameworks::nvrtc::{BUILTINS, builtins_name};
use cudnn_frameworks::real_path;
use cudnn_probe::ld_so::{Resolution, Simulation, needed};
use cudnn_probe::{ProbeError, facts};

use super::finding::{Finding, NO_BUILTINS, NO_NVRTC};
use crate::system::is_too_many_open_files;

/// C031: the file is NVRTC for a different CUDA major than the name suggests.
pub(super) fn other_major(name: &str, nvrtc: &Path, cuda_major: u32) -> Option<Finding> {
    let wanted = builtins_name(nvrtc)?;
    let release = wanted.strip_prefix(BUILTINS)?;
    let found: u32 = release.split('.').next()?.parse().ok()?;
    let is_other = found != cuda_major;
    let message = format!("{name} is NVRTC {release}, for another CUDA major: {}", nvrtc.printable());
    is_other.then(|| Finding::new(NO_NVRTC, message).note(format!("this cuDNN is built for CUDA {cuda_major}")))
}

/// C032: the builtins are missing or damaged. The simulated process opens this NVRTC as `name`.
pub(super) fn builtins(name: &str, nvrtc: &Path, cuda_major: u32, mut simulation: Simulation) -> Option<Finding> {
    let wanted = builtins_name(nvrtc);
    // ld.so may find the builtins in a different directory.
    let by_ld_so = wanted.as_ref().and_then(|wanted| {
        let index = simulation.dlopen_incomplete(name, 0)?;
        simulation.dlopen(wanted, index);
        match &simulation.lookups().last()?.resolution {
            Resolution::Found { .. } => Some(Ok(())),
            Resolution::Unusable { path, error, .. } => Some(Err(format!("{} {error}", path.printable()))),
            _ => None,
        }
    });
    let name = wanted.clone().unwrap_or_else(|| format!("{BUILTINS}{}.*", cuda_major));
    let message = match (by_ld_so, builtins_next_to(nvrtc, wanted.as_deref(), cuda_major)) {
        (Some(Ok(())), _) | (None, Some((_, Ok(())))) => return None,
        (_, Some((_, Err(error)))) if is_too_many_open_files(&error) => return None,
        (Some(Err(error)), _) => format!("{name} is damaged: {error}"),
        (None, Some((file, Err(error)))) => {
            let name = Path::new(file.file_name().unwrap_or_default()).printable();
            format!("{name} is damaged: {} {error}", file.printable())
        }
        (None, None) => format!("{name} is not next to {}, and ld.so does not find it", nvrtc.printable()),
    };
    Some(Finding::new(NO_BUILTINS, message).note("NVRTC opens it to compile a kernel"))
}

pub(super) fn has_builtins(nvrtc: &Path, cuda_major: u32) -> bool {
    builtins_next_to(nvrtc, builtins_name(nvrtc).as_deref(), cuda_major).is_some_and(|(_, usable)| usable.is_ok())
}

/// Finds the builtins in NVRTC's directory by name, or by CUDA major if the name is unknown. Prefers a usable file.
fn builtins_next_to(nvrtc: &Path, wanted: Option<&str>, cuda_major: u32) -> Option<(PathBuf, Result<(), ProbeError>)> {
    let nvrtc = real_path(nvrtc);
    let start = format!("{BUILTINS}{cuda_major}");
    let is_builtins = |entry: &facts::DirEntry| {
        let name = entry.file_name();
        wanted.map_or_else(|| name.to_string_lossy().starts_with(&start), |wanted| name == wanted)
    };
    let entries = match facts::read_dir(nvrtc.parent()?) {
        Ok(entries) => entries.into_iter(),
        Err(error) => {
            let error = ProbeError::Unreadable { error: error.into() };
            return is_too_many_open_files(&error).then_some((nvrtc, Err(error)));
        }
    };
    let mut last = None;
    for entry in entries.filter(is_builtins) {
        let usable = needed(&entry.path()).map(drop);
        let is_usable = usable.is_ok();
        last = Some((entry.path(), usable));
        if is_usable {
            break;
        }
    }
    last
}
