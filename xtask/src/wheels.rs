//! Downloads wheels from the package index through pip, and determines the newest version, the sha256 and the size.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;

/// A downloaded wheel.
pub(crate) struct Wheel {
    pub(crate) dir: PathBuf,
    pub(crate) version: String,
    pub(crate) sha256: String,
    pub(crate) len: u64,
}

/// Downloads the newest wheel of a package that a specifier (`==9.28.0.*`) allows, into a new directory below `wheels`.
/// Returns `None` if no version matches.
pub(crate) fn download(wheels: &Path, package: &str, specifier: &str, platform: &str) -> Result<Option<Wheel>> {
    let dir = wheels.join(format!("{package}{specifier}-{platform}").replace("==", "-").replace(".*", ""));
    std::fs::create_dir_all(&dir)?;
    let mut pip = cudnn_fetch::pip(&dir);
    pip.args(["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"])
        .args(["--no-input", "--quiet", "--progress-bar=off", "--dest"])
        .arg(&dir)
        .args(tags(platform).iter().map(|tag| format!("--platform={tag}")))
        .arg(format!("{package}{specifier}"));
    let output = run(&mut pip)?;
    if let Err(message) = output {
        // pip lists the versions that it found. An empty list means that pip could not reach the index.
        let is_other = message.contains("Could not find a version") && !message.contains("(from versions: none)");
        return if is_other {
            Ok(None)
        } else {
            Err(format!("pip cannot download {package}{specifier}:\n{message}").into())
        };
    }
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    let file = std::fs::read_dir(&dir)?.flatten().map(|entry| entry.path()).filter(is_wheel).max();
    let file = file.ok_or_else(|| format!("pip downloaded no wheel into {}", dir.display()))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let version = name.split('-').nth(1).ok_or_else(|| format!("{name} is not the file name of a wheel"))?.to_owned();
    let hash = run(cudnn_fetch::pip(&dir).args(["--disable-pip-version-check", "hash"]).arg(&file))??;
    let sha256 = hash.split("sha256:").nth(1).map(|hash| hash.trim().to_owned());
    let sha256 = sha256.ok_or_else(|| format!("`pip hash` printed no sha256 of {name}: {hash}"))?;
    Ok(Some(Wheel { version, sha256, len: file.metadata()?.len(), dir }))
}

/// Runs a command. Returns the standard output, or the standard error of a failed command.
fn run(command: &mut Command) -> Result<Result<String, String>> {
    let output = command.output().map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
    let text = if output.status.success() { &output.stdout } else { &output.stderr };
    let text = String::from_utf8_lossy(text).into_owned();
    Ok(if output.status.success() { Ok(text) } else { Err(text) })
}

/// The platform tags that a wheel may have. pip compares the tags that it is given literally.
fn tags(platform: &str) -> Vec<String> {
    let Some(architecture) = platform.strip_prefix("linux_") else { return vec![platform.to_owned()] };
    let mut tags: Vec<String> = (17..=39).map(|minor| format!("manylinux_2_{minor}_{architecture}")).collect();
    tags.push(format!("manylinux2014_{architecture}"));
    tags
}
