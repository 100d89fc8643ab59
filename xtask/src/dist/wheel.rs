//! Builds a wheel through pip and maturin, as described in `pyproject.toml` and `python`.

use std::path::{Path, PathBuf};

use super::{BILL, Platform, glibc, install, materials, new_dir, put_stripped, target_dir};
use crate::command::{Result, root, run};

/// Builds the wheel with these libraries, and returns the file.
pub(crate) fn build(platform: &Platform, libraries: &Path, release: &Path) -> Result<PathBuf> {
    let root = root()?;
    let target = target_dir()?;
    let dir = new_dir(&target.join("dist/wheel").join(platform.triple))?;
    let (files, wheels) = (dir.join("files"), dir.join("wheels"));
    for name in platform.libraries() {
        install(&libraries.join(name), &files.join(name))?;
    }
    let [_, lab] = platform.programs();
    put_stripped(platform, &platform.compile("dist-doctor", &["cudnn-lab"])?.join(lab), &files.join("scripts"), lab)?;
    let bill = dir.join(BILL);
    materials::write(&root, platform.triple, &files.join("THIRD-PARTY.txt"), &bill)?;
    let [major, minor] = glibc::OLDEST;
    let compatibility = if platform.is_windows { "off".to_owned() } else { format!("manylinux_{major}_{minor}") };
    let arguments = format!(
        "--profile dist-doctor --target {} --compatibility {compatibility} --auditwheel check --sbom-include '{}'",
        platform.triple,
        bill.display()
    );
    let mut pip = cudnn_fetch::pip(&root);
    pip.args(["wheel", "--quiet", "--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--wheel-dir"])
        .args([&wheels, &root])
        .env("CUDNN_SHIM_WHEEL_FILES", &files)
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTFLAGS", platform.rustflags()?)
        .env("SOURCE_DATE_EPOCH", "315532800")
        .env("MATURIN_PEP517_ARGS", arguments);
    run(&mut pip)?;
    let wheel = std::fs::read_dir(&wheels)?.next().ok_or("pip built no wheel")??.path();
    let file = release.join(wheel.file_name().unwrap_or_default());
    install(&wheel, &file)?;
    Ok(file)
}
