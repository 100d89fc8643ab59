//! Downloads wheels through pip, and determines their version, sha256 and size.

use crate::command::Result;
use std::path::{Path, PathBuf};

pub(crate) struct Wheel {
    pub(crate) dir: PathBuf,
    pub(crate) version: String,
    pub(crate) sha256: String,
    pub(crate) len: u64,
}

/// Downloads the newest wheel of a package that a specifier such as `==9.28.0.*` allows. Returns `None` if the index
/// lacks one.
pub(crate) fn download(wheels: &Path, package: &str, specifier: &str, platform: &str) -> Result<Option<Wheel>> {
    let dir = wheels.join(format!("{package}{specifier}-{platform}").replace("==", "-").replace(".*", ""));
    std::fs::create_dir_all(&dir)?;
    let mut pip = cudnn_fetch::pip(&dir);
    pip.args(["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"])
        .args(["--no-input", "--quiet", "--progress-bar=off", "--dest"])
        .arg(&dir)
        .args(tags(platform).iter().map(|tag| format!("--platform={tag}")))
        .arg(format!("{package}{specifier}"));
    let output = pip.output().map_err(|error| format!("cannot start {:?}: {error}", pip.get_program()))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        // If this list is empty, pip failed to reach the index.
        if message.contains("Could not find a version") && !message.contains("(from versions: none)") {
            return Ok(None);
        }
        return Err(format!("pip cannot download {package}{specifier}:\n{message}").into());
    }
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    let file = std::fs::read_dir(&dir)?.flatten().map(|entry| entry.path()).filter(is_wheel).max();
    let file = file.ok_or_else(|| format!("pip downloaded no wheel into {}", dir.display()))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let version = name.split('-').nth(1).ok_or_else(|| format!("{name} is not the file name of a wheel"))?.to_owned();
    let sha256 = cudnn_fetch::sha256_hex(&std::fs::read(&file)?);
    Ok(Some(Wheel { version, sha256, len: file.metadata()?.len(), dir }))
}

/// Returns the platform tags that a wheel may have, because pip compares tags literally.
fn tags(platform: &str) -> Vec<String> {
    let Some(architecture) = platform.strip_prefix("linux_") else { return vec![platform.to_owned()] };
    let mut tags: Vec<String> = (17..=39).map(|minor| format!("manylinux_2_{minor}_{architecture}")).collect();
    tags.push(format!("manylinux2014_{architecture}"));
    tags
}
