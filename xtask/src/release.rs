//! `cargo xtask release`: updates the repository for a new cuDNN release, as far as possible.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_bindgen::File;
use cudnn_fetch::{Network, RELEASES, Release};
use cudnn_probe::{Library, Os, release_facts};

use crate::bindings;
use crate::command::{Result, output, root};
use crate::newest;
use crate::pins::{self, Version};
use crate::wheels::{self, Wheel};

#[derive(Default)]
struct Summary {
    changes: Vec<String>,
    /// The problems to fix by hand.
    problems: Vec<String>,
    /// New attributes of descriptors. The headers omit the elements that they take.
    undescribed: Vec<String>,
    /// Texts, with the files that contain them and need a review.
    to_review: Vec<(String, Vec<String>)>,
}

pub(crate) fn run(version: &str, dry_run: bool) -> Result<()> {
    let version = Version::parse(version)?;
    let root = root()?;
    let mut summary = Summary::default();

    check_order(&version)?;
    let added = resolve(&root, &version, &mut summary)?;
    let mut list = added.iter().fold(RELEASES.to_vec(), |list, (release, _)| pins::with(&list, **release));
    let committed_pins = committed(&root, &root.join(pins::FILE))?;
    for id in added.iter().filter_map(|(release, _)| superseded(release, &committed_pins)) {
        let files = files_naming(&root, id, &["."])?;
        if files.is_empty() {
            let before = list.len();
            list.retain(|pinned| pinned.id != id);
            summary.changes.extend((list.len() < before).then(|| format!("dropped pin {id}: no file names it")));
        } else {
            summary.to_review.push((id.to_owned(), files));
        }
    }
    let list: &'static [Release] = list.leak();
    update(&root, dry_run, &root.join(pins::FILE), &pins::source(list), &mut summary)?;

    let mut includes = Vec::new();
    for (release, wheels) in &added {
        let unpacked = unpack(release, wheels)?;
        summary.problems.extend(library_problems(release, &version, &release.lib_dir(&unpacked))?);
        includes.push((*release, release.include_dir(&unpacked)));
    }

    let newest = pins::newest(list)?;
    if let Some((_, include)) = includes.iter().find(|(release, _)| release.id == newest.id) {
        summary.problems.extend(header_problems(newest.id, include, &includes)?);
        match bindings::generate(&root, newest, Some(version.release())) {
            Ok(files) => {
                compare(&root, &files, &mut summary)?;
                for file in bindings::differing(&root, &files) {
                    update(&root, dry_run, &bindings::path(&root, &file.name), &file.text, &mut summary)?;
                }
            }
            Err(error) => summary.problems.push(format!("the bindings were not updated: {error}")),
        }
        review_pages(&root, &version, &mut summary)?;
    } else {
        summary.changes.push(format!("the bindings stay at {}, which is newer", newest.id));
    }
    print(&version, dry_run, &summary);
    if summary.problems.is_empty() {
        Ok(())
    } else {
        Err("the release needs changes by hand; see \"To fix\" above, then run this command again".into())
    }
}

/// Fails if the package index has an unpinned release between the pins and this one. The headers date some names only
/// by the order of releases.
fn check_order(version: &Version) -> Result<()> {
    let pinned = Version::parse(pins::newest(RELEASES)?.version)?;
    let mut published = Vec::new();
    for package in newest::packages() {
        published.extend(newest::published(package)?);
    }
    let Some(skipped) = skipped(published, &pinned, version) else { return Ok(()) };
    let (skipped, version) = (skipped.text(), version.text());
    Err(format!(
        "cuDNN {skipped} is older than {version} and not pinned\nhelp: run `cargo xtask release {skipped}` first, or \
         {version} becomes the first release with all names that are new in {skipped}"
    )
    .into())
}

/// Returns the oldest published release between two releases.
fn skipped(published: Vec<Version>, pinned: &Version, version: &Version) -> Option<Version> {
    let release = |version: &Version| Version::parse(&version.release()).ok();
    let is_between = |other: &Version| release(pinned) < release(other) && release(other) < release(version);
    published.into_iter().filter(is_between).min()
}

/// Returns a file as of the last commit, so that repeated runs make the same comparison. Returns an empty text for a
/// new file.
fn committed(root: &Path, path: &Path) -> Result<String> {
    let name = path.strip_prefix(root).unwrap_or(path);
    let git = |arguments: &[&str]| output(Command::new("git").arg("-C").arg(root).args(arguments));
    let name = name.to_str().ok_or_else(|| format!("{} is not UTF-8", name.display()))?;
    if git(&["ls-tree", "--name-only", "HEAD", "--", name])?.is_empty() {
        return Ok(String::new());
    }
    git(&["show", &format!("HEAD:./{name}")])
}

/// Returns the pin that a release supersedes: the newest one of the same line in this file.
fn superseded<'a>(release: &Release, pins: &'a str) -> Option<&'a str> {
    let line = release.line()?;
    let version = |id: &str| Version::parse(id.strip_prefix(line)?.strip_prefix('-')?).ok();
    let ids = pins.lines().filter_map(|line| line.trim().strip_prefix("id: \"")?.strip_suffix("\","));
    let (former, id) = ids.filter_map(|id| Some((version(id)?, id))).max()?;
    (former < version(release.id)?).then_some(id)
}

fn review_pages(root: &Path, version: &Version, summary: &mut Summary) -> Result<()> {
    let former = committed(root, &bindings::path(root, "version.txt"))?;
    let former = former.trim();
    if !former.is_empty() && former != version.release() {
        let files = files_naming(root, former, &["*.md", ":!docs/design"])?;
        summary.to_review.push((former.to_owned(), files));
    }
    Ok(())
}

/// Returns the files below these paths that name a release. Measurements and the changelog describe the past.
fn files_naming(root: &Path, name: &str, paths: &[&str]) -> Result<Vec<String>> {
    // `windows-cu13-9.0.0` must not match `cu13-9.0.0`.
    let pattern = format!("(^|[^a-z0-9-]){}($|[^0-9.]|[.]$|[.][^0-9])", name.replace('.', "[.]"));
    let mut grep = Command::new("git");
    grep.arg("-C").arg(root).args(["grep", "-lE", &pattern, "--"]).args(paths);
    let output = grep.args([":!docs/measurements", ":!CHANGELOG.md"]).arg(format!(":!{}", pins::FILE)).output()?;
    // No file contains it.
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("git grep: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Returns headers that the generator does not know, or that differ between the wheels of a release.
fn header_problems(newest: &str, include: &Path, all: &[(&Release, PathBuf)]) -> Result<Vec<String>> {
    let unknown = |header| format!("{header} is a new header; add it to cudnn-sys/bindgen/src/module.rs and headers/");
    let mut problems: Vec<String> = cudnn_bindgen::headers_without_module(include)?.iter().map(unknown).collect();
    for (Release { id, .. }, other) in all {
        let differs = |header| format!("{header} of {id} differs from {newest}, which the bindings are generated from");
        problems.extend(differing_headers(include, other)?.iter().map(differs));
    }
    Ok(problems)
}

/// Returns the names of headers in another directory that are new or different there.
fn differing_headers(include: &Path, other: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(other)? {
        let entry = entry?;
        if std::fs::read(include.join(entry.file_name())).ok() != Some(std::fs::read(entry.path())?) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Finds the wheels of a release for each line of pins, and converts them to pins.
fn resolve(root: &Path, version: &Version, summary: &mut Summary) -> Result<Vec<(&'static Release, Vec<PathBuf>)>> {
    let wheels = root.join("target/wheels");
    let mut added = Vec::new();
    for newest in pins::newest_of_lines(RELEASES) {
        let id = format!("{}-{}", newest.line().unwrap_or_default(), version.release());
        let platforms = match newest.platform {
            Some(platform) if newest.is_windows() => vec![platform],
            Some(_) => vec!["linux_aarch64"],
            None => ["linux_x86_64", "linux_aarch64"].into_iter().take(newest.sha256.len()).collect(),
        };
        let mut found: Vec<Wheel> = Vec::new();
        for platform in &platforms {
            eprintln!("downloading {}{} for {platform}", newest.package, version.specifier());
            match wheels::download(&wheels, newest.package, &version.specifier(), platform)? {
                Some(wheel) => found.push(wheel),
                None => break,
            }
        }
        if found.len() < platforms.len()
            || found.iter().any(|wheel| found.iter().any(|other| other.version != wheel.version))
        {
            summary.changes.push(format!(
                "no pin {id}: {} is not published for all of {}",
                newest.package,
                platforms.join(", ")
            ));
            continue;
        }
        let Some(first) = found.first() else { continue };
        let hashes: Vec<&'static str> = found.iter().map(|wheel| leak(&wheel.sha256)).collect();
        let release: &'static Release = Box::leak(Box::new(Release {
            id: leak(&id),
            package: newest.package,
            version: leak(&first.version),
            sha256: hashes.leak(),
            platform: newest.platform,
            megabytes: u32::try_from(first.len.div_ceil(1_000_000))?,
        }));
        let what = match RELEASES.iter().find(|pinned| pinned.id == release.id) {
            Some(pinned) if pinned == release => "unchanged pin",
            Some(_) => "changed pin",
            None => "new pin",
        };
        summary
            .changes
            .push(format!("{what} {}: {}=={}, {} MB", release.id, release.package, release.version, release.megabytes));
        added.push((release, found.into_iter().map(|wheel| wheel.dir).collect()));
    }
    if added.is_empty() {
        return Err(format!("no pinned package has a version {}", version.specifier()).into());
    }
    Ok(added)
}

/// Puts a release into the cache from downloaded wheels.
fn unpack(release: &'static Release, wheels: &[PathBuf]) -> Result<PathBuf> {
    let wheels: Vec<String> = wheels.iter().map(|dir| dir.display().to_string()).collect();
    let settings = [("PIP_FIND_LINKS", wheels.join(" ")), ("PIP_NO_INDEX", "1".to_owned())];
    let before = settings.each_ref().map(|(name, _)| (*name, std::env::var_os(name)));
    for (name, value) in settings {
        // SAFETY: this program is single-threaded.
        unsafe { std::env::set_var(name, value) };
    }
    let result = cudnn_fetch::fetch(release, Network::Allowed);
    for (name, value) in before {
        match value {
            // SAFETY: as above.
            Some(value) => unsafe { std::env::set_var(name, value) },
            // SAFETY: as above.
            None => unsafe { std::env::remove_var(name) },
        }
    }
    Ok(result?)
}

fn leak(text: &str) -> &'static str {
    text.to_owned().leak()
}

fn update(root: &Path, dry_run: bool, path: &Path, text: &str, summary: &mut Summary) -> Result<()> {
    let old = std::fs::read_to_string(path).unwrap_or_default();
    if old == text {
        return Ok(());
    }
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (old.lines().collect(), text.lines().collect());
    let (plus, minus) = (new.difference(&old).count(), old.difference(&new).count());
    let name = path.strip_prefix(root).unwrap_or(path).display();
    summary.changes.push(format!("{name}: {plus} lines added, {minus} removed"));
    if !dry_run {
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// Returns how the libraries of a wheel differ from the probe's expectation.
fn library_problems(release: &Release, version: &Version, lib_dir: &Path) -> Result<Vec<String>> {
    let os = if release.is_windows() { Os::Windows } else { Os::Linux };
    let (id, version) = (release.id, version.release().parse::<cudnn_probe::Version>()?);
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(lib_dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.contains("cudnn") && (name.ends_with(".so.9") || name.ends_with(".dll")) {
            files.insert(name);
        }
    }
    let mut problems = Vec::new();
    for library in Library::ALL {
        let name = library.name_on(os);
        let problem = match (files.remove(name), release_facts::has_library(version, *library)) {
            (true, false) => "has",
            (false, true) if !release.is_jit() => "lacks",
            _ => continue,
        };
        problems.push(format!("{id} {problem} {name}; correct LIBRARY_SINCE in cudnn-probe/src/release_facts.rs"));
    }
    let unknown = |name| format!("{id} contains the unknown library {name}; add it to cudnn-probe/src/library.rs");
    problems.extend(files.iter().map(unknown));
    Ok(problems)
}

/// Lists new and removed declarations.
fn compare(root: &Path, files: &[File], summary: &mut Summary) -> Result<()> {
    let text = |name: &str| files.iter().find(|file| file.name == name).map_or("", |file| &file.text);
    let former = Version::parse(committed(root, &bindings::path(root, "version.txt"))?.trim()).ok();
    let old = committed(root, &bindings::path(root, cudnn_bindgen::ANNOTATIONS))?;
    let (old, new) = (rows(&old), rows(text(cudnn_bindgen::ANNOTATIONS)));
    let (functions, elements) = (text("functions.rs"), text(cudnn_bindgen::ATTRIBUTES));
    for (name, annotations) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        let kind = if functions.contains(&format!(" fn {name}/")) { "function " } else { "" };
        summary.changes.push(format!("new {kind}{name}"));
        let stated = since(annotations);
        if stated <= former {
            let text = stated.as_ref().map_or("no release".into(), Version::text);
            summary.problems.push(format!(
                "the headers state {text} as the first release with {name}, but an earlier release lacks it; see \
                 SINCE_OVERRIDES in cudnn-sys/bindgen/src/annotations.rs"
            ));
        }
        if name.starts_with("CUDNN_ATTR_") && !elements.contains(&format!("::{name},")) {
            summary.undescribed.push((*name).to_owned());
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        summary.problems.push(format!("the headers no longer declare {name}; older releases may still export it"));
    }
    Ok(())
}

fn rows(annotations: &str) -> BTreeMap<&str, &str> {
    annotations.lines().skip(1).filter_map(|row| row.split_once(' ')).collect()
}

fn since(annotations: &str) -> Option<Version> {
    Version::parse(annotations.strip_prefix("new-in=")?.split(';').next()?).ok()
}

fn print(version: &Version, dry_run: bool, summary: &Summary) {
    println!("{}", if dry_run { "Would change:" } else { "Changed:" });
    summary.changes.iter().for_each(|change| println!("  {change}"));
    if !summary.problems.is_empty() {
        println!("\nTo fix:");
        summary.problems.iter().for_each(|problem| println!("  {problem}"));
    }
    let release = version.release();
    println!(
        "\nTo decide, from NVIDIA's release notes and support matrix of cuDNN {release}:\n  \
         new known issues, and fixed ones          cudnn-probe/src/release_facts.json, with a new version and date\n  \
         a new minimum driver                      MIN_DRIVER in cudnn-probe/src/release_facts.rs\n  \
         a new minimum compute capability          MIN_COMPUTE_CAPABILITY in cudnn-probe/src/release_facts.rs\n  \
         what users should know                    CHANGELOG.md\n  \
         pins to drop                              {}",
        pins::FILE
    );
    if !summary.undescribed.is_empty() {
        println!(
            "\nTo measure, because the headers do not state the elements of these attributes. Plans that set one are \
             not\ncached until it is in cudnn-sys/bindgen/src/measured_attributes.txt:"
        );
        summary.undescribed.iter().for_each(|name| println!("  {name}"));
    }
    for (name, files) in summary.to_review.iter().filter(|(_, files)| !files.is_empty()) {
        println!("\nTo review, because these files name {name}:");
        files.iter().for_each(|file| println!("  {file}"));
    }
    println!("\nThen run .ci/run, which tests the pinned releases.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_the_generated_file() {
        let all =
            rows("// Generated.\ncudnnNew new-in=9.29.0;\nCUDNN_OLD new-in=9.3.0;deprecated;\nCUDNN_ODD deprecated;\n");
        let all: Vec<_> = all.iter().map(|(name, row)| (*name, since(row).map(|since| since.text()))).collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(all, [("CUDNN_ODD", None), ("CUDNN_OLD", text("9.3.0")), ("cudnnNew", text("9.29.0"))]);
    }

    #[test]
    fn an_older_release_that_is_not_pinned_is_found() {
        let version = |text| Version::parse(text).unwrap();
        let published = || ["9.28.1.4", "9.28.0.42", "9.27.1.3", "9.27.0.42", "9.26.0.51"].map(version).to_vec();
        let skipped = |pinned, added| skipped(published(), &version(pinned), &version(added)).map(|found| found.text());
        assert_eq!(skipped("9.27.0.42", "9.28.1.4").as_deref(), Some("9.27.1.3"));
        assert_eq!(skipped("9.27.1.3", "9.28.1").as_deref(), Some("9.28.0.42"));
        for (pinned, added) in [("9.28.0.42", "9.28.1.4"), ("9.28.1.4", "9.28.1.4"), ("9.28.1.4", "9.26.1.1")] {
            assert_eq!(skipped(pinned, added), None);
        }
    }

    #[test]
    fn a_release_supersedes_the_newest_older_pin_of_its_line() {
        let pins = ["cu12-9.9.1", "cu12-9.10.2", "cu12-9.9.9", "jit-cu12-9.19.0", "windows-cu12-9.20.0", "libclang"];
        let pins: String = pins.map(|id| format!("        id: \"{id}\",\n")).concat();
        let newest = *cudnn_fetch::release("cu12").unwrap();
        let superseded = |id, version| superseded(&Release { id, version, ..newest }, &pins);
        assert_eq!(superseded("cu12-9.11.0", "9.11.0.1"), Some("cu12-9.10.2"));
        assert_eq!(superseded("cu12-9.10.2", "9.10.2.21"), None);
        assert_eq!(superseded("cu12-9.10.1", "9.10.1.4"), None);
        assert_eq!(superseded("windows-cu12-9.21.0", "9.21.0.1"), Some("windows-cu12-9.20.0"));
        assert_eq!(superseded("cu13-9.11.0", "9.11.0.1"), None);
    }

    #[test]
    fn files_that_name_a_superseded_release_are_listed() {
        if !root().unwrap().join(".git").exists() {
            return support::not_run(
                "files_that_name_a_superseded_release_are_listed",
                "the directory is not a git checkout",
            );
        }
        let files = files_naming(&root().unwrap(), "cu12-9.10.2", &["."]).unwrap();
        assert!(files.contains(&"xtask/src/release.rs".to_owned()), "{files:?}");
        assert!(!files.contains(&pins::FILE.to_owned()), "{files:?}");
        for other in [concat!("cu12-", "9.98.7"), concat!("u12-", "9.10.2"), concat!("cu12-", "9.10")] {
            assert_eq!(files_naming(&root().unwrap(), other, &["."]).unwrap(), [""; 0]);
        }
    }

    #[test]
    fn headers_that_differ_between_cuda_majors_are_named() {
        let temporary = support::TempDir::new();
        let dir = temporary.path();
        for (name, text) in [("12/cudnn.h", "a"), ("12/cudnn_ops.h", "b"), ("13/cudnn.h", "a"), ("13/cudnn_ops.h", "c")]
        {
            let file = dir.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        std::fs::write(dir.join("13/cudnn_new.h"), "").unwrap();
        let differing = |one: &str, other: &str| differing_headers(&dir.join(one), &dir.join(other)).unwrap();
        assert_eq!(differing("12", "13"), ["cudnn_new.h", "cudnn_ops.h"]);
        assert_eq!(differing("13", "12"), ["cudnn_ops.h"]);
    }

    #[test]
    fn libraries_that_do_not_fit_the_release_are_problems() {
        let dir = support::TempDir::new();
        for name in ["libcudnn.so.9", "libcudnn_graph.so.9", "libcudnn_quantum.so.9"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let jit = cudnn_fetch::release("jit-cu12-9.19.0").unwrap();
        let full = cudnn_fetch::release("cu12").unwrap();
        let version = Version::parse("9.28.0").unwrap();
        let problems = |release| library_problems(release, &version, dir.path()).unwrap().join("\n");
        assert_eq!(problems(jit).lines().count(), 1);
        assert!(problems(jit).contains("unknown library libcudnn_quantum.so.9"));
        let expected = format!("{} lacks libcudnn_ops.so.9; correct LIBRARY_SINCE", full.id);
        assert!(problems(full).contains(&expected), "{}", problems(full));
    }
}
