//! Implements `cargo xtask archives`, which builds all files of a release, with their sha256.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{LINUX_AARCH64, LINUX_X86_64, Platform, STATIC, VERSION, WINDOWS_X86_64};
use super::{install, materials, new_dir, pack, run, target_dir, wheel};
use crate::error::Result;
use crate::workspace::root;

/// All targets of a release.
const ALL: [&str; 4] = [LINUX_X86_64, LINUX_AARCH64, WINDOWS_X86_64, STATIC];

/// Builds the archives and wheels for these target triples, or for all targets if the list is empty, and returns their
/// directory.
pub(crate) fn build(triples: &[&str]) -> Result<PathBuf> {
    let target = target_dir()?;
    let archives = new_dir(&target.join("dist/archives"))?;
    for triple in if triples.is_empty() { &ALL } else { triples } {
        if *triple == STATIC {
            archive_static_doctor(&target, &archives)?;
            continue;
        }
        let platform = Platform::of(Some(triple))?;
        let wheel = wheel::build(Some(triple))?;
        install(&wheel, &archives.join(wheel.file_name().unwrap_or_default()))?;
        archive_libraries(&platform, &target, &archives)?;
    }
    write_sums(&archives)?;
    Ok(archives)
}

/// Packs the directory of `cargo xtask dist`, with the doctor.
fn archive_libraries(platform: &Platform, target: &Path, archives: &Path) -> Result<()> {
    let libraries = super::build(Some(platform.triple))?;
    let name = format!("cudnn-shim-{VERSION}-{}", platform.name);
    let dir = new_dir(&target.join("dist/archive").join(&name))?;
    for file in pack::names(&libraries)? {
        let (from, to) = (libraries.join(&file), dir.join(&file));
        match std::fs::read_link(&from) {
            Ok(link) => run(Command::new("ln").arg("-s").arg(link).arg(to))?,
            Err(_) => install(&from, &to)?,
        }
    }
    install(&super::doctor(platform)?, &dir.join("bin").join(platform.doctor_name()))?;
    materials::write(&root()?, platform.triple, &dir, &dir)?;
    let file = archives.join(format!("{name}.{}", if platform.is_windows { "zip" } else { "tar.gz" }));
    let prefix = format!("{name}/");
    if platform.is_windows { pack::zip(&dir, &prefix, &file) } else { pack::tar_gz(&dir, &prefix, &file) }
}

/// Packs the static doctor, a single file that needs no C library.
fn archive_static_doctor(target: &Path, archives: &Path) -> Result<()> {
    let root = root()?;
    let name = format!("cudnn-doctor-{VERSION}-linux-x86_64-static");
    let dir = new_dir(&target.join("dist/archive").join(&name))?;
    install(&super::static_doctor()?, &dir.join("cudnn-doctor"))?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        install(&root.join(file), &dir.join(file))?;
    }
    materials::write(&root, STATIC, &dir, &dir)?;
    pack::tar_gz(&dir, &format!("{name}/"), &archives.join(format!("{name}.tar.gz")))
}

/// Writes the file that `sha256sum --check` reads.
fn write_sums(archives: &Path) -> Result<()> {
    let names = pack::names(archives)?;
    let output = Command::new("sha256sum").arg("--").args(names).current_dir(archives).output();
    let output = output.map_err(|error| format!("cannot start sha256sum (coreutils): {error}"))?;
    if !output.status.success() {
        return Err(format!("sha256sum: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(std::fs::write(archives.join("SHA256SUMS"), output.stdout)?)
}
