//! Selects the two releases of a comparison, and fetches them if necessary.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{Format, outln, remark};
use cudnn_cli::shell::SEARCH_PATH;
use cudnn_fetch::{Network, RELEASES, Release};
use cudnn_probe::{Candidate, Installation, Library, Origin, Os, ProbeError, Requirements, Version, check_dir};
use serde_json::{Value, json};

use crate::cuda_dirs::{Found, finds_cublas_lt};

pub(super) struct Compared {
    /// The name from the command line.
    name: String,
    pub(super) dir: PathBuf,
    /// `None` if the files cannot be identified.
    installation: Option<Installation>,
}

/// A release that matches a name.
#[derive(Clone, Copy)]
enum NamedRelease<'a> {
    Dir(&'a Path),
    Release(&'static Release),
}

/// The first release that plans for a described GPU.
const DESCRIBES_GPUS: [u32; 2] = [9, 8];

/// The first version that ends the process if a complete release plans without cuBLASLt.
const NEEDS_CUBLAS_LT: Version = Version::new(9, 27, 0);

/// Returns the releases with these names, which are directories, ids, or versions such as `9.10`. Prefers releases for
/// the same CUDA major version, then for the CUDA libraries of this machine. `is_for_described_gpu` excludes releases
/// that need a GPU.
pub(super) fn select(
    names: [&str; 2],
    is_for_described_gpu: bool,
    format: Format,
) -> Result<[Compared; 2], Box<dyn Error>> {
    let found = Found::on_this_machine();
    let [before, after] = names.map(|name| usable_choices(name, is_for_described_gpu));
    let [before, after] = pair(&before?, &after?, &found).ok_or("no release is named")?;
    // Also check the second release before the first one is downloaded.
    after.check_before_download(&found)?;
    Ok([Compared::new(names[0], before, &found, format)?, Compared::new(names[1], after, &found, format)?])
}

pub(super) fn select_one(name: &str, is_for_described_gpu: bool, format: Format) -> Result<Compared, Box<dyn Error>> {
    let (choices, found) = (usable_choices(name, is_for_described_gpu)?, Found::on_this_machine());
    let choice = choices.into_iter().max_by_key(|choice| choice.rank(&found)).ok_or("no release is named")?;
    Compared::new(name, choice, &found, format)
}

/// Returns the best pair. Equal CUDA major versions matter more than the preferences for a single name.
fn pair<'a>(before: &[NamedRelease<'a>], after: &[NamedRelease<'a>], found: &Found) -> Option<[NamedRelease<'a>; 2]> {
    let pairs = before.iter().flat_map(|before| after.iter().map(move |after| [*before, *after]));
    pairs.max_by_key(|[before, after]| {
        let is_equal = before.cuda_major().is_some() && before.cuda_major() == after.cuda_major();
        (is_equal, before.rank(found), after.rank(found))
    })
}

fn usable_choices(name: &str, is_for_described_gpu: bool) -> Result<Vec<NamedRelease<'_>>, Box<dyn Error>> {
    let mut choices = choices(name)?;
    choices.retain(|choice| !is_for_described_gpu || choice.describes_gpus());
    if choices.is_empty() {
        let ([major, minor], name) = (DESCRIBES_GPUS, name.printable());
        return Err(format!("{name}: cuDNN plans for a described GPU from {major}.{minor} on; omit --device").into());
    }
    Ok(choices)
}

fn choices(name: &str) -> Result<Vec<NamedRelease<'_>>, Box<dyn Error>> {
    if Path::new(name).is_dir() {
        return Ok(vec![NamedRelease::Dir(Path::new(name))]);
    }
    if name.contains(std::path::is_separator) {
        return Err(format!("there is no directory {}", name.printable()).into());
    }
    let found = releases(name);
    if found.is_empty() {
        let name = name.printable();
        return Err(
            format!("{name} is not a release of cuDNN 9 such as 9.10 or cu12-9.10.2, and not a directory").into()
        );
    }
    Ok(found.into_iter().map(NamedRelease::Release).collect())
}

/// Returns the pinned releases with this version, line or id, or otherwise the releases that pip may find.
fn releases(name: &str) -> Vec<&'static Release> {
    let is_version = |text: &str| text.starts_with(|start: char| start.is_ascii_digit());
    let (line, version) = match name.rsplit_once('-').filter(|(_, version)| is_version(version)) {
        Some((line, version)) => (Some(line), version),
        None if is_version(name) => (None, name),
        None => (Some(name), ""),
    };
    let of_this_machine = RELEASES.iter().filter(|release| release.is_cudnn() && release.platform.is_none());
    let mut of_line = of_this_machine.filter(|release| line.is_none_or(|line| release.line() == Some(line)));
    if version.is_empty() {
        return of_line.next_back().into_iter().collect();
    }
    let begins = |whole: &str| whole == version || whole.starts_with(&format!("{version}."));
    let pinned: Vec<&Release> = of_line.clone().filter(|release| begins(release.version)).collect();
    if !pinned.is_empty() {
        return pinned;
    }
    let full = of_line.filter(|release| line.is_some() || !release.is_jit());
    let lines: BTreeSet<&str> = full.filter_map(Release::line).collect();
    // `max_by_key` prefers the last of equal choices. All releases exist for the oldest CUDA.
    let found = lines.iter().rev().filter_map(|line| cudnn_fetch::unpinned(&format!("{line}-{version}")));
    found.filter(|release| release.version.split('.').next() == Some("9")).collect()
}

impl NamedRelease<'_> {
    fn cuda_major(self) -> Option<u32> {
        match self {
            NamedRelease::Dir(dir) => installation(dir)?.cuda_major,
            NamedRelease::Release(release) => release.cuda_major(),
        }
    }

    /// Returns whether the release may be able to plan for described GPUs.
    fn describes_gpus(self) -> bool {
        let version = match self {
            NamedRelease::Dir(dir) => installation(dir).map(|installation| installation.version.to_string()),
            NamedRelease::Release(release) => Some(release.version.to_owned()),
        };
        let number = |at| version.as_deref()?.split('.').nth(at)?.parse::<u32>().ok();
        number(0).zip(number(1)).is_none_or(|(major, minor)| [major, minor] >= DESCRIBES_GPUS)
    }

    /// Refuses before the download what [`Compared::check_cublas_lt`] would refuse after it.
    fn check_before_download(self, found: &Found) -> Result<(), String> {
        let NamedRelease::Release(release) = self else { return Ok(()) };
        match (release.cudnn_version(), release.cuda_major()) {
            (Some([major, minor, patch]), Some(cuda_major)) if !release.is_cached() && !release.is_jit() => {
                check_cublas_lt(Version::new(major, minor, patch), cuda_major, None, found)
            }
            _ => Ok(()),
        }
    }

    /// Prefers releases for the CUDA libraries that were found, then cached ones, then full ones, then new ones.
    fn rank(self, found: &Found) -> Option<impl Ord + use<>> {
        match self {
            NamedRelease::Dir(_) => None,
            NamedRelease::Release(release) => {
                let libraries = release.cuda_major().map_or(0, |major| found.count(major));
                Some((libraries, release.is_cached(), !release.is_jit(), release.cudnn_version()))
            }
        }
    }
}

fn check(dir: &Path) -> Result<Installation, ProbeError> {
    check_dir(&Candidate::new(dir, Origin::Explicit), &Requirements::default())
}

fn installation(dir: &Path) -> Option<Installation> {
    let mut installation = check(dir).ok()?;
    // The graph library may not contain the CUDA version.
    installation.cuda_major = installation.cuda_major.or_else(|| installation.cuda_major_from_gpu_code());
    Some(installation)
}

impl Compared {
    fn new(name: &str, choice: NamedRelease<'_>, found: &Found, format: Format) -> Result<Self, Box<dyn Error>> {
        choice.check_before_download(found)?;
        let dir = match choice {
            NamedRelease::Dir(dir) => {
                let dir = std::path::absolute(dir)?;
                // An error of the loader would name a variable that the user has not set.
                check(&dir).map_err(|problem| format!("{}: {problem}", dir.printable()))?;
                dir
            }
            NamedRelease::Release(release) => {
                announce(release, format);
                release.lib_dir(&cudnn_fetch::fetch(release, Network::Allowed)?)
            }
        };
        let compared = Compared { name: name.to_owned(), installation: installation(&dir), dir };
        compared.check_cublas_lt(found)?;
        Ok(compared)
    }

    fn check_cublas_lt(&self, found: &Found) -> Result<(), String> {
        let opener = self.dir.join(Library::EnginesPrecompiled.file_name());
        match self.installation {
            Some(Installation { version, cuda_major: Some(major), .. }) if opener.exists() => {
                check_cublas_lt(version, major, Some(&opener), found)
            }
            _ => Ok(()),
        }
    }

    /// Returns the versions of cuDNN and CUDA, or the name if they are unknown.
    fn title(&self) -> String {
        let Some(Installation { version, cuda_major, .. }) = &self.installation else { return self.name.clone() };
        cuda_major.map_or(version.to_string(), |major| title(*version, major))
    }

    pub(super) fn value(&self) -> Value {
        let version = self.installation.as_ref().map(|installation| installation.version.to_string());
        let cuda_major = self.installation.as_ref().and_then(|installation| installation.cuda_major);
        let dir = self.dir.to_string_lossy();
        json!({ "name": self.name, "version": version, "cuda_major": cuda_major, "directory": dir })
    }
}

fn title(version: Version, cuda_major: u32) -> String {
    format!("{version} for CUDA {cuda_major}")
}

fn check_cublas_lt(version: Version, cuda_major: u32, opener: Option<&Path>, found: &Found) -> Result<(), String> {
    if Os::HOST != Os::Linux || version < NEEDS_CUBLAS_LT || finds_cublas_lt(cuda_major, opener) {
        return Ok(());
    }
    let other = found.best().filter(|best| *best != cuda_major);
    let other = other.map_or(String::new(), |other| format!(", or name a release for CUDA {other}"));
    Err(format!(
        "cuDNN {} would end the process, because ld.so does not find libcublasLt.so.{cuda_major}; add its directory to \
         {SEARCH_PATH}{other}",
        title(version, cuda_major)
    ))
}

fn announce(release: &Release, format: Format) {
    let Release { package, version, megabytes, .. } = release;
    if !release.is_pinned() {
        remark(format_args!(
            "warning: {package} {version} is not pinned: its sha256 is unknown, so that pip verifies the wheel only against \
             the package index"
        ));
    } else if format == Format::Text {
        outln!("{package} {version} ({megabytes} MB, downloaded unless it is in the cache)");
    }
}

/// Returns the titles, and adds the names if both are equal.
pub(super) fn titles(releases: &[Compared; 2]) -> [String; 2] {
    let titles = releases.each_ref().map(Compared::title);
    if titles[0] == titles[1] { releases.each_ref().map(|release| release.name.clone()) } else { titles }
}

/// Returns a note if the CUDA major versions differ.
pub(super) fn cuda_note(releases: &[Compared; 2]) -> Option<String> {
    let [before, after] =
        releases.each_ref().map(|release| release.installation.as_ref().and_then(|found| found.cuda_major));
    let (before, after) = before.zip(after).filter(|(before, after)| before != after)?;
    Some(format!("the releases are built for CUDA {before} and CUDA {after}, which may be the reason for a change"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(before: &str, after: &str) -> [&'static str; 2] {
        ids_with(&Found::default(), before, after)
    }

    fn ids_with(found: &Found, before: &str, after: &str) -> [&'static str; 2] {
        pair(&choices(before).unwrap(), &choices(after).unwrap(), found).unwrap().map(|choice| match choice {
            NamedRelease::Release(release) => release.id,
            NamedRelease::Dir(_) => "directory",
        })
    }

    #[test]
    fn releases_that_are_not_pinned_are_accepted() {
        assert_eq!(ids("9.10", "9.1234"), ["cu12-9.10.2", "cu12-9.1234"]);
        assert_eq!(ids("cu13-9.28.0", "9.1234.5"), ["cu13-9.28.0", "cu13-9.1234.5"]);
        assert_eq!(ids("jit-cu13-9.1234", "cu12-9.1234.5.6"), ["jit-cu13-9.1234", "cu12-9.1234.5.6"]);
        assert_eq!(ids("9.1234", "9.1235"), ["cu12-9.1234", "cu12-9.1235"]);
        let pinned = cudnn_fetch::release("cu12-9.10.2").unwrap();
        assert_eq!(ids(pinned.version, "/"), [pinned.id, "directory"]);
        let is_pinned = |name| {
            choices(name)
                .unwrap()
                .iter()
                .all(|choice| matches!(choice, NamedRelease::Release(release) if release.is_pinned()))
        };
        assert!(["9.28", "cu12", "cu12-9.28", "cu13-9.28.1"].map(is_pinned) == [true; 4] && !is_pinned("9.1234"));
    }

    #[test]
    fn releases_for_the_libraries_of_the_machine_are_preferred() {
        for major in [12, 13] {
            let found = Found::all_for(major);
            let of_line = |id: &str| id.starts_with(&format!("cu{major}-9.28."));
            assert!(ids_with(&found, "9.28", "9.28").iter().all(|id| of_line(id)), "{major}");
            assert!(ids_with(&found, "/", "9.28").iter().any(|id| of_line(id)), "{major}");
        }
        assert_eq!(ids_with(&Found::all_for(13), "9.10", "9.28"), ["cu12-9.10.2", "cu12-9.28.0"]);
        assert_eq!(ids_with(&Found::all_for(12), "9.10", "9.28.1"), ["cu12-9.10.2", "cu13-9.28.1"]);
    }

    #[test]
    fn releases_that_cannot_describe_a_gpu_are_refused_before_they_are_downloaded() {
        let refused = |name| select_one(name, true, Format::Text).err().unwrap().to_string();
        for name in ["9.0.0", "9.7.1234", "cu12-9.7"] {
            assert_eq!(refused(name), format!("{name}: cuDNN plans for a described GPU from 9.8 on; omit --device"));
            let error = select(["9.28", name], true, Format::Text).err().unwrap().to_string();
            assert_eq!(error, refused(name));
        }
        let described = usable_choices("9", true).unwrap();
        assert!(!described.is_empty() && described.len() < usable_choices("9", false).unwrap().len());
        assert_eq!(usable_choices("9.1234", true).unwrap().len(), choices("9.1234").unwrap().len());
    }

    #[test]
    fn releases_without_cublas_lt_are_refused_before_they_are_downloaded() {
        if Os::HOST != Os::Linux {
            return;
        }
        let of_cuda_99 = |id| {
            let release = *cudnn_fetch::unpinned(id).unwrap();
            let package = if release.is_jit() { "nvidia-cudnn-jit-cu99" } else { "nvidia-cudnn-cu99" };
            NamedRelease::Release(Box::leak(Box::new(Release { package, ..release })))
        };
        let found = Found::all_for(12);
        let refused = Compared::new("9", of_cuda_99("cu12-9.1234.5"), &found, Format::Text);
        let error = refused.err().unwrap().to_string();
        assert!(error.starts_with("cuDNN 9.1234.5 for CUDA 99 would end the process"), "{error}");
        assert!(error.ends_with(", or name a release for CUDA 12"), "{error}");
        let check = |id| of_cuda_99(id).check_before_download(&found);
        assert_eq!(["cu12-9.26.0", "jit-cu12-9.1234.5"].map(check), [Ok(()), Ok(())]);
    }

    #[test]
    fn releases_for_the_same_cuda_are_preferred() {
        let [before, after] = ids("9.10", "9.28");
        assert_eq!((before, after.split('-').next()), ("cu12-9.10.2", Some("cu12")));
        let [before, after] = ids("9.28", "9.0.0");
        assert!(before.starts_with("cu12-9.28.") && after == "cu12-9.0.0", "{before} {after}");
        assert_eq!(ids("9.10", "9.28.1"), ["cu12-9.10.2", "cu13-9.28.1"]);
        assert_eq!(ids("cu12-9.10.2", "cu13-9.28.0"), ["cu12-9.10.2", "cu13-9.28.0"]);
        assert_eq!(ids("/", "jit-cu12-9.19.0"), ["directory", "jit-cu12-9.19.0"]);
        for name in ["libclang", "cmake", "9.x", "cu12-", "cu11-9.10", "cu12-8", "8.9", "cu12-8.9.7", "10.0", ""] {
            let error = choices(name).err().unwrap().to_string();
            assert!(error.starts_with(name) && error.contains("is not a release of cuDNN 9"), "{error}");
            assert!(!error.contains(", libclang") && !error.contains(", cmake"), "{error}");
        }
        let error = choices("/no/such/dir").err().unwrap().to_string();
        assert_eq!(error, "there is no directory /no/such/dir");
    }
}
