//! Implements `cargo xtask wheel`, which builds a Python wheel with the doctor, the drop-in and the layers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{LINUX_AARCH64, Platform, VERSION, glibc, install, materials, new_dir, pack};
use crate::error::Result;
use crate::workspace::root;

/// The name of the distribution, as in `pip install cudnn-doctor`, in the spelling of file names.
const NAME: &str = "cudnn_doctor";

/// The Python package of the libraries.
const PACKAGE: &str = "cudnn_shim";

/// The files of the repository in the wheel.
const FILES: [(&str, &str); 4] = [
    ("dist/wheel/__init__.py", "cudnn_shim/__init__.py"),
    ("dist/wheel/__main__.py", "cudnn_shim/__main__.py"),
    ("dist/cudnn_layer.h", "cudnn_shim/include/cudnn_layer.h"),
    ("dist/cudnn_shim.h", "cudnn_shim/include/cudnn_shim.h"),
];

/// Builds the wheel for this machine or another target triple, and returns it.
pub(crate) fn build(triple: Option<&str>) -> Result<PathBuf> {
    let platform = Platform::of(triple)?;
    let libraries = super::build(Some(platform.triple))?;
    let doctor = super::doctor(&platform)?;
    let target = super::target_dir()?;
    let dir = new_dir(&target.join("dist/wheel").join(&platform.name))?;
    write(&platform, &libraries, &doctor, &dir)?;
    let file = target.join(format!("dist/{NAME}-{VERSION}-{}.whl", tag(&platform)));
    pack::zip(&dir, "", &file)?;
    Ok(file)
}

/// Returns the compatibility tag of the wheel: any Python 3, and this system.
fn tag(platform: &Platform) -> String {
    let [major, minor] = glibc::OLDEST;
    let linux = |processor: &str| format!("py3-none-manylinux_{major}_{minor}_{processor}");
    match (platform.is_windows, platform.triple) {
        (true, _) => "py3-none-win_amd64".to_owned(),
        (_, LINUX_AARCH64) => linux("aarch64"),
        _ => linux("x86_64"),
    }
}

/// Writes the wheel's files into a directory.
fn write(platform: &Platform, libraries: &Path, doctor: &Path, dir: &Path) -> Result<()> {
    let root = root()?;
    let scripts = format!("{NAME}-{VERSION}.data/scripts/{}", platform.doctor_name());
    install(doctor, &dir.join(scripts))?;
    for name in platform.libraries() {
        install(&libraries.join(name), &dir.join(PACKAGE).join(name))?;
    }
    for (from, to) in FILES {
        install(&root.join(from), &dir.join(to))?;
    }
    let info = dir.join(format!("{NAME}-{VERSION}.dist-info"));
    let (licenses, bill) = (info.join("licenses"), info.join("sboms"));
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        install(&root.join(file), &licenses.join(file))?;
    }
    std::fs::create_dir_all(&bill)?;
    let expression = materials::write(&root, platform.triple, &licenses, &bill)?;
    let metadata = std::fs::read_to_string(root.join("dist/wheel/METADATA"))?;
    let metadata = metadata.replace("@VERSION@", VERSION).replace("@LICENSES@", &expression);
    std::fs::write(info.join("METADATA"), metadata)?;
    let wheel = format!("Wheel-Version: 1.0\nGenerator: cudnn-shim\nRoot-Is-Purelib: false\nTag: {}\n", tag(platform));
    std::fs::write(info.join("WHEEL"), wheel)?;
    let mut record = String::new();
    for name in pack::names(dir)? {
        let file = dir.join(&name);
        let hash = cudnn_fetch::sha256(&file).ok_or_else(|| format!("cannot read {}", file.display()))?;
        writeln!(record, "{name},sha256={hash},{}", file.metadata()?.len())?;
    }
    writeln!(record, "{NAME}-{VERSION}.dist-info/RECORD,,")?;
    Ok(std::fs::write(info.join("RECORD"), record)?)
}
