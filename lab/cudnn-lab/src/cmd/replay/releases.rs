//! Selects the two releases of a comparison, and fetches them if necessary.

use std::error::Error;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{Format, outln};
use cudnn_fetch::{Network, RELEASES, Release};
use cudnn_probe::{Candidate, Installation, Origin, Requirements, check_dir};
use serde_json::{Value, json};

/// A release to compare.
pub(super) struct Compared {
    /// The name that the user has given.
    name: String,
    /// The directory of the libraries.
    pub(super) dir: PathBuf,
    /// `None` if the files cannot be identified.
    installation: Option<Installation>,
}

/// A release that a name may stand for.
#[derive(Clone, Copy)]
enum Choice<'a> {
    Dir(&'a Path),
    Pinned(&'static Release),
}

/// Returns the releases with these names: directories, ids, or versions such as `9.10`. Prefers releases for the same
/// CUDA major version.
pub(super) fn select(names: [&str; 2], format: Format) -> Result<[Compared; 2], Box<dyn Error>> {
    let [before, after] = pair(&choices(names[0])?, &choices(names[1])?).ok_or("no release is named")?;
    Ok([Compared::new(names[0], before, format)?, Compared::new(names[1], after, format)?])
}

/// Returns the release with this name, as for [`select`].
pub(super) fn select_one(name: &str, format: Format) -> Result<Compared, Box<dyn Error>> {
    let choices = choices(name)?;
    let choice = choices.into_iter().max_by_key(|choice| choice.rank()).ok_or("no release is named")?;
    Compared::new(name, choice, format)
}

/// Returns the best pair. The CUDA major versions are more important than the preferences for a single name.
fn pair<'a>(before: &[Choice<'a>], after: &[Choice<'a>]) -> Option<[Choice<'a>; 2]> {
    let pairs = before.iter().flat_map(|before| after.iter().map(move |after| [*before, *after]));
    pairs.max_by_key(|[before, after]| {
        let is_equal = before.cuda_major().is_some() && before.cuda_major() == after.cuda_major();
        (is_equal, before.rank(), after.rank())
    })
}

fn choices(name: &str) -> Result<Vec<Choice<'_>>, Box<dyn Error>> {
    if Path::new(name).is_dir() {
        return Ok(vec![Choice::Dir(Path::new(name))]);
    }
    if name.contains(std::path::is_separator) {
        return Err(format!("there is no directory {}", name.printable()).into());
    }
    let numbers: Option<Vec<u32>> = name.split('.').map(|number| number.parse().ok()).collect();
    let matching = RELEASES.iter().filter(|release| {
        let version = release.cudnn_version().filter(|_| release.platform.is_none());
        version.zip(numbers.as_ref()).is_some_and(|(version, numbers)| version.starts_with(numbers))
    });
    let matching: Vec<Choice<'_>> = matching.map(Choice::Pinned).collect();
    if !matching.is_empty() {
        return Ok(matching);
    }
    let release = cudnn_fetch::release(name)?;
    if !release.is_cudnn() || release.platform.is_some() {
        return Err(format!("{name} is not a release of cuDNN for this machine").into());
    }
    Ok(vec![Choice::Pinned(release)])
}

impl Choice<'_> {
    fn cuda_major(self) -> Option<u32> {
        match self {
            Choice::Dir(dir) => installation(dir)?.cuda_major,
            Choice::Pinned(release) => release.cuda_major(),
        }
    }

    /// Prefers releases in the cache, then full releases, then the newest.
    fn rank(self) -> Option<(bool, bool, Option<[u32; 3]>)> {
        match self {
            Choice::Dir(_) => None,
            Choice::Pinned(release) => Some((release.is_cached(), !release.is_jit(), release.cudnn_version())),
        }
    }
}

fn installation(dir: &Path) -> Option<Installation> {
    let mut installation = check_dir(&Candidate::new(dir, Origin::Explicit), &Requirements::default()).ok()?;
    // The library for graphs may lack the CUDA version.
    installation.cuda_major = installation.cuda_major.or_else(|| installation.cuda_major_from_gpu_code());
    Some(installation)
}

impl Compared {
    fn new(name: &str, choice: Choice<'_>, format: Format) -> Result<Self, Box<dyn Error>> {
        let dir = match choice {
            Choice::Dir(dir) => std::path::absolute(dir)?,
            Choice::Pinned(release) => {
                if format == Format::Text {
                    let Release { package, version, megabytes, .. } = release;
                    outln!("{package} {version} ({megabytes} MB, downloaded unless it is in the cache)");
                }
                release.lib_dir(&cudnn_fetch::fetch(release, Network::Allowed)?)
            }
        };
        Ok(Compared { name: name.to_owned(), installation: installation(&dir), dir })
    }

    /// Returns the version of cuDNN and CUDA, or the name if the version is unknown.
    fn title(&self) -> String {
        let Some(Installation { version, cuda_major, .. }) = &self.installation else { return self.name.clone() };
        let cuda = cuda_major.map_or(String::new(), |major| format!(" for CUDA {major}"));
        format!("{version}{cuda}")
    }

    /// Returns the members for `--json`.
    pub(super) fn value(&self) -> Value {
        let version = self.installation.as_ref().map(|installation| installation.version.to_string());
        let cuda_major = self.installation.as_ref().and_then(|installation| installation.cuda_major);
        let dir = self.dir.to_string_lossy();
        json!({ "name": self.name, "version": version, "cuda_major": cuda_major, "directory": dir })
    }
}

/// Returns the titles of both releases, which differ if the names do.
pub(super) fn titles(releases: &[Compared; 2]) -> [String; 2] {
    let titles = releases.each_ref().map(Compared::title);
    if titles[0] == titles[1] { releases.each_ref().map(|release| release.name.clone()) } else { titles }
}

/// Returns a note if the releases are built for different CUDA major versions.
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
        pair(&choices(before).unwrap(), &choices(after).unwrap()).unwrap().map(|choice| match choice {
            Choice::Pinned(release) => release.id,
            Choice::Dir(_) => "directory",
        })
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
        let error = choices("libclang").err().unwrap().to_string();
        assert!(error.contains("is not a release of cuDNN"), "{error}");
        let error = choices("9.1234").err().unwrap().to_string();
        assert!(error.contains("9.1234"), "{error}");
        let error = choices("/no/such/dir").err().unwrap().to_string();
        assert_eq!(error, "there is no directory /no/such/dir");
    }
}
