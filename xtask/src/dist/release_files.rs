//! `cargo xtask release-files`: builds all files of a release, with checksums and release notes.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{BILL, LINUX_AARCH64, LINUX_X86_64, Platform, STATIC, VERSION, WINDOWS_X86_64};
use super::{install, materials, new_dir, pack, target_dir, wheel};
use crate::command::{Result, root, run};

const ALL: [&str; 4] = [LINUX_X86_64, LINUX_AARCH64, WINDOWS_X86_64, STATIC];

/// Builds the files for these targets, or for all, and returns their directory.
pub(crate) fn build(triples: &[&str]) -> Result<PathBuf> {
    // Fail before the long builds.
    let notes = release_notes(&std::fs::read_to_string(root()?.join("CHANGELOG.md"))?, VERSION)?;
    if let Some(unknown) = triples.iter().find(|triple| !ALL.contains(triple)) {
        return Err(format!("no release has files for {unknown}, only for {}", ALL.join(", ")).into());
    }
    let target = target_dir()?;
    let dir = new_dir(&target.join("dist/release"))?;
    for triple in if triples.is_empty() { &ALL } else { triples } {
        if *triple == STATIC {
            archive_static_doctor(&target, &dir)?;
            continue;
        }
        let platform = Platform::of(Some(triple))?;
        let libraries = super::build(super::PROFILE, Some(triple))?;
        let wheel = wheel::build(&platform, &libraries, &dir)?;
        archive(&platform, &libraries, &wheel, &target, &dir)?;
    }
    std::fs::write(dir.join("RELEASE-NOTES.md"), notes)?;
    write_sums(&dir)?;
    Ok(dir)
}

/// Packs the directory of `cargo xtask dist` with the wheel's programs.
fn archive(platform: &Platform, libraries: &Path, wheel: &Path, target: &Path, release: &Path) -> Result<()> {
    let name = format!("cudnn-shim-{VERSION}-{}", platform.triple);
    let dir = new_dir(&target.join("dist/archive").join(&name))?;
    run(Command::new("cp")
        .args(["--recursive", "--no-dereference", "--preserve=mode"])
        .arg(libraries.join("."))
        .arg(&dir))?;
    put_programs(platform, wheel, &dir.join("bin"))?;
    put_materials(platform.triple, &name, &dir, release)?;
    let file = release.join(format!("{name}.{}", if platform.is_windows { "zip" } else { "tar.gz" }));
    if platform.is_windows { pack::zip(&dir, &file) } else { pack::tar_gz(&dir, &file) }
}

fn put_programs(platform: &Platform, wheel: &Path, dir: &Path) -> Result<()> {
    let mut wheel = zip::ZipArchive::new(File::open(wheel)?)?;
    std::fs::create_dir_all(dir)?;
    for program in platform.programs() {
        let mut bytes = Vec::new();
        wheel.by_name(&format!("cudnn_doctor-{VERSION}.data/scripts/{program}"))?.read_to_end(&mut bytes)?;
        let file = dir.join(program);
        std::fs::write(&file, bytes)?;
        run(Command::new("chmod").arg("755").arg(file))?;
    }
    Ok(())
}

/// Packs the static doctor.
fn archive_static_doctor(target: &Path, release: &Path) -> Result<()> {
    let root = root()?;
    let name = format!("cudnn-doctor-{VERSION}-{STATIC}");
    let dir = new_dir(&target.join("dist/archive").join(&name))?;
    install(&super::static_doctor()?, &dir.join("cudnn-doctor"))?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        install(&root.join(file), &dir.join(file))?;
    }
    put_materials(STATIC, &name, &dir, release)?;
    pack::tar_gz(&dir, &release.join(format!("{name}.tar.gz")))
}

/// Writes the licenses and the bill of materials into an archive's directory, and the bill also into the release.
fn put_materials(triple: &str, name: &str, dir: &Path, release: &Path) -> Result<()> {
    materials::write(&root()?, triple, &dir.join("THIRD-PARTY.txt"), &dir.join(BILL))?;
    install(&dir.join(BILL), &release.join(format!("{name}.cdx.json")))
}

/// Returns the newest section of the changelog, which must describe this version.
fn release_notes(changelog: &str, version: &str) -> Result<String> {
    let section = changelog.split("\n## ").nth(1).ok_or("CHANGELOG.md has no section")?;
    let (heading, notes) = section.split_once('\n').unwrap_or((section, ""));
    if heading.split_whitespace().next() == Some(version) {
        Ok(format!("{}\n", notes.trim()))
    } else {
        Err(format!("the newest section of CHANGELOG.md is \"{heading}\", but the version is {version}").into())
    }
}

/// Writes the input of `sha256sum --check`.
fn write_sums(dir: &Path) -> Result<()> {
    run(Command::new("sh").args(["-c", "sums=$(sha256sum -- *) && echo \"$sums\" > SHA256SUMS"]).current_dir(dir))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_changelog_describes_this_version() {
        let notes = release_notes(&std::fs::read_to_string(root().unwrap().join("CHANGELOG.md")).unwrap(), VERSION);
        let notes = notes.unwrap();
        assert!(notes.len() > 1000 && !notes.contains("\n## "), "{notes}");
    }

    #[test]
    fn release_notes_are_the_newest_section() {
        let changelog = "# Changelog\n\nText.\n\n## 0.2.0 (2027-01-01)\n\n- New.\n\n## 0.1.0\n\n- First.\n";
        assert_eq!(release_notes(changelog, "0.2.0").unwrap(), "- New.\n");
        let error = release_notes(changelog, "0.1.0").unwrap_err().to_string();
        assert_eq!(error, "the newest section of CHANGELOG.md is \"0.2.0 (2027-01-01)\", but the version is 0.1.0");
        assert!(release_notes("# Changelog\n", "0.1.0").is_err());
    }
}
