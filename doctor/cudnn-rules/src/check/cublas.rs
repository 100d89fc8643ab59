//! Compares the releases of libcublas and libcublasLt, which NVIDIA only tests together (C030).

use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_probe::ld_so::{Resolution, Simulation};
use cudnn_probe::{Component, canonicalize};

use super::finding::{Finding, NO_CUBLAS};
use super::plain_program::open;
use crate::packages::{PackageNames, records};

/// C030: ld.so finds libcublas from a different release than this libcublasLt, which the process opens as `name`.
pub(super) fn mixed(name: &str, lt: &Path, cuda_major: u32, mut simulation: Simulation) -> Option<Finding> {
    simulation.dlopen(name, 0);
    let other_name = name.replace("cublasLt", "cublas");
    let other = match &open(&mut simulation, &other_name).first()?.resolution {
        Resolution::Found { path, .. } => path.clone(),
        _ => return None,
    };
    let (release, other_release) = (release(lt, cuda_major)?, release(&other, cuda_major)?);
    let (file, other_file) = (lt.printable(), other.printable());
    let message =
        format!("two releases of cuBLAS would be mixed: {release} ({file}) and {other_release} ({other_file})");
    let text = "have one directory with both libraries come first, or install the same release of both";
    let finding = Finding::new(NO_CUBLAS, message).note(format!("{other_name} calls functions of {name}"));
    (release != other_release).then(|| finding.remedy(text))
}

/// Reads the release from the full file name, such as `libcublas.so.12.9.1.4`, or from the record of the wheel.
pub(super) fn release(file: &Path, cuda_major: u32) -> Option<String> {
    let file = canonicalize(file).ok()?;
    let (_, version) = file.file_name()?.to_str()?.split_once(".so.")?;
    if version.contains('.') {
        return Some(version.printable());
    }
    let wheel_dir = Component::Cublas.wheel_dir(cuda_major);
    let site: PathBuf = file.ancestors().find(|site| file.starts_with(site.join(&wheel_dir)))?.to_owned();
    let wheel = Component::Cublas.wheel(cuda_major);
    records(&site).into_iter().find(|record| record.name == wheel)?.version
}
