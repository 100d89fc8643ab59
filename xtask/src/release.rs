//! Implements `cargo xtask release`, which updates the repository for a new cuDNN release, as far as that is automatic.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_bindgen::File;
use cudnn_fetch::{Network, RELEASES, Release};
use cudnn_probe::{Library, Os, release_facts};

use crate::bindings;
use crate::error::Result;
use crate::pins::{self, Version};
use crate::wheels::{self, Wheel};
use crate::workspace::root;

/// The results of the command, for the final summary.
#[derive(Default)]
struct Summary {
    changes: Vec<String>,
    /// The problems that a person must fix by hand.
    problems: Vec<String>,
}

pub(crate) fn run(version: &str, dry_run: bool) -> Result<()> {
    let version = Version::parse(version)?;
    let root = root()?;
    let mut summary = Summary::default();

    let added = resolve(&root, &version, &mut summary)?;
    let mut list = added.iter().fold(RELEASES.to_vec(), |list, (release, _)| pins::with(&list, **release));
    let superseded = superseded(&root, added.iter().map(|(release, _)| *release))?;
    for (release, files) in &superseded {
        if files.is_empty() {
            list.retain(|pinned| pinned.id != release.id);
            summary.changes.push(format!("dropped pin {}: no file names it", release.id));
        }
    }
    let list: &'static [Release] = list.leak();
    update(&root, dry_run, &root.join(pins::FILE), &pins::source(list), &mut summary)?;

    let mut includes = Vec::new();
    for (release, wheels) in &added {
        let unpacked = unpack(release, wheels)?;
        check_libraries(release, &version, &release.lib_dir(&unpacked), &mut summary)?;
        includes.push((*release, release.include_dir(&unpacked)));
    }

    let newest = pins::newest(list)?;
    if let Some((_, include)) = includes.iter().find(|(release, _)| release.id == newest.id) {
        let files = bindings::generate(&root, newest, Some(version.release()))?;
        compare(&root, &files, &version, &mut summary);
        for header in cudnn_bindgen::headers_without_module(include)? {
            summary
                .problems
                .push(format!("{header} is a new header; add it to cudnn-sys/bindgen/src/module.rs and headers/"));
        }
        for (release, other) in &includes {
            for header in differing_headers(include, other)? {
                summary.problems.push(format!(
                    "{header} of {} differs from the header of {}, which the bindings are generated from",
                    release.id, newest.id
                ));
            }
        }
        for file in bindings::differing(&root, &files) {
            update(&root, dry_run, &bindings::path(&root, &file.name), &file.text, &mut summary)?;
        }
    } else {
        summary.changes.push(format!("the bindings stay at {}, which is newer", newest.id));
    }
    print(&version, &superseded, dry_run, &summary);
    if summary.problems.is_empty() {
        Ok(())
    } else {
        Err("the release needs changes by hand; see \"To fix\" above".into())
    }
}

/// Returns the pins that were the newest of their lines until now, with the files that name them.
fn superseded(
    root: &Path,
    added: impl Iterator<Item = &'static Release>,
) -> Result<Vec<(&'static Release, Vec<String>)>> {
    let former = pins::newest_of_lines(RELEASES);
    let former_of = |release: &Release| {
        let mut of_line = former.iter().filter(move |former| former.line() == release.line());
        of_line.next().copied().filter(|former| former.cudnn_version() < release.cudnn_version())
    };
    added.filter_map(former_of).map(|release| Ok((release, files_naming(root, release.id)?))).collect()
}

/// Returns the files of the repository that name a release. Measurements and the changelog are excluded, because they
/// describe the past.
fn files_naming(root: &Path, id: &str) -> Result<Vec<String>> {
    // `windows-cu13-9.28.0` must not match `cu13-9.28.0`.
    let pattern = format!("(^|[^a-z0-9-]){}($|[^0-9.])", id.replace('.', "[.]"));
    let mut grep = Command::new("git");
    grep.arg("-C").arg(root).args(["grep", "-lE", &pattern, "--", ".", ":!docs/measurements", ":!CHANGELOG.md"]);
    let output = grep.arg(format!(":!{}", pins::FILE)).output()?;
    // 1 means that no file contains it.
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("git grep: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Returns the names of headers with different contents in another directory. Headers that are missing there are
/// ignored.
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

/// Finds the wheels of a release, one per line of pins, and converts them to pins.
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

/// Puts a release into the cache, from wheels that were already downloaded.
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

/// Writes a file of the workspace if the content changes.
fn update(root: &Path, dry_run: bool, path: &Path, text: &str, summary: &mut Summary) -> Result<()> {
    let old = std::fs::read_to_string(path).unwrap_or_default();
    if old == text {
        return Ok(());
    }
    let name = path.strip_prefix(root).unwrap_or(path).display();
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (old.lines().collect(), text.lines().collect());
    let (plus, minus) = (new.difference(&old).count(), old.difference(&new).count());
    summary.changes.push(format!("{name}: {plus} lines added, {minus} removed"));
    if !dry_run {
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// Compares the libraries of a wheel with the libraries that the probe expects in this release.
fn check_libraries(release: &Release, version: &Version, lib_dir: &Path, summary: &mut Summary) -> Result<()> {
    let os = if release.is_windows() { Os::Windows } else { Os::Linux };
    let parsed: cudnn_probe::Version = version.release().parse()?;
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(lib_dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.contains("cudnn") && (name.ends_with(".so.9") || name.ends_with(".dll")) {
            files.insert(name);
        }
    }
    for library in Library::ALL {
        let is_there = files.remove(library.name_on(os));
        let is_expected = release_facts::has_library(parsed, *library);
        if is_there != is_expected && (is_there || !release.is_jit()) {
            let problem = if is_there { "has" } else { "lacks" };
            summary.problems.push(format!(
                "{} {problem} {}; correct LIBRARY_SINCE in cudnn-probe/src/release_facts.rs",
                release.id,
                library.name_on(os)
            ));
        }
    }
    for name in files {
        let problem =
            format!("{} contains the unknown library {name}; add it to cudnn-probe/src/library.rs", release.id);
        summary.problems.push(problem);
    }
    Ok(())
}

/// Lists declarations that are new in the headers, and declarations that were removed from them.
fn compare(root: &Path, files: &[File], version: &Version, summary: &mut Summary) {
    let table = |name: &str| {
        let old = std::fs::read_to_string(bindings::path(root, name)).unwrap_or_default();
        let new = files.iter().find(|file| file.name == name).map(|file| file.text.clone()).unwrap_or_default();
        (old, new)
    };
    let since = format!("since({})", version.release().replace('.', ", "));
    let (old, new) = table("functions.rs");
    let (old, new) = (functions(&old), functions(&new));
    for (name, row) in &new {
        if !old.iter().any(|(other, _)| other == name) {
            summary.changes.push(format!("new function {name}"));
            if !row.contains(&since) {
                let stated = row.split(" deprecated").next().unwrap_or(row);
                summary.problems.push(format!(
                    "the headers state {stated} for {name}, which the release before lacks; see SINCE_OVERRIDES in \
                     cudnn-sys/bindgen/src/annotations.rs"
                ));
            }
        }
    }
    for (name, _) in &old {
        if !new.iter().any(|(other, _)| other == name) {
            summary.problems.push(format!("the headers no longer declare {name}; older releases still export it"));
        }
    }
    let (old, new) = table("names.rs");
    let names = |text: &str| -> BTreeSet<String> {
        let declared = text.lines().filter_map(|line| Some(line.trim().split_once(") ")?.1.to_owned()));
        declared.collect()
    };
    let (old, new) = (names(&old), names(&new));
    // `struct(cudnnGnnCscGraph_t cscOffsets ...)`: a struct with other fields starts with the same word.
    let first_word = |name: &String| name.split([' ', ')']).next().map(str::to_owned);
    let (old_words, new_words) =
        (old.iter().map(first_word).collect::<BTreeSet<_>>(), new.iter().map(first_word).collect::<BTreeSet<_>>());
    for name in new.difference(&old) {
        let is_changed = name.starts_with("struct(") && old_words.contains(&first_word(name));
        let what = if is_changed { "changed" } else { "new" };
        summary.changes.push(format!("{what} {}", name.trim_end_matches(';')));
    }
    for name in
        old.difference(&new).filter(|name| !(name.starts_with("struct(") && new_words.contains(&first_word(name))))
    {
        summary.problems.push(format!("the headers no longer declare {}", name.trim_end_matches(';')));
    }
}

/// Returns the functions of the function table: name and row.
fn functions(table: &str) -> Vec<(&str, &str)> {
    let rows = table.lines().map(str::trim).filter(|line| line.starts_with("since("));
    rows.filter_map(|row| Some((row.split(" fn ").nth(1)?.split('/').next()?, row))).collect()
}

fn print(version: &Version, superseded: &[(&Release, Vec<String>)], dry_run: bool, summary: &Summary) {
    println!("{}", if dry_run { "Would change:" } else { "Changed:" });
    summary.changes.iter().for_each(|change| println!("  {change}"));
    if !summary.problems.is_empty() {
        println!("\nTo fix:");
        summary.problems.iter().for_each(|problem| println!("  {problem}"));
    }
    let release = version.release();
    println!(
        "\nTo decide, from NVIDIA's release notes and support matrix of cuDNN {release}:\n  \
         new known issues, and fixed ones          KNOWN_ISSUES in cudnn-probe/src/release_facts.rs\n  \
         a new minimum driver                      MIN_DRIVER in cudnn-probe/src/release_facts.rs\n  \
         a new minimum compute capability          MIN_COMPUTE_CAPABILITY in cudnn-probe/src/release_facts.rs\n  \
         what users should know                    CHANGELOG.md\n  \
         pins to drop                              {}",
        pins::FILE
    );
    for (former, files) in superseded.iter().filter(|(_, files)| !files.is_empty()) {
        println!("\nTo review, because these files name {}:", former.id);
        files.iter().for_each(|file| println!("  {file}"));
    }
    println!("\nThen run .ci/run, which tests the pinned releases.");
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "graph {\n    #[doc = \"x\"]\n    since(9, 29, 0) deprecated(false) fn cudnnNew/CudnnNew() -> usize;\n\
                         since(9, 3, 0) deprecated(true) fn cudnnOld/CudnnOld(a: i32) -> usize;\n}\n";

    #[test]
    fn functions_are_read_from_the_table() {
        let names: Vec<&str> = functions(TABLE).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["cudnnNew", "cudnnOld"]);
    }

    #[test]
    fn files_that_name_a_superseded_release_are_listed() {
        if !root().unwrap().join(".git").exists() {
            return support::not_run(
                "files_that_name_a_superseded_release_are_listed",
                "the directory is not a git checkout",
            );
        }
        let files = files_naming(&root().unwrap(), "cu12-9.10.2").unwrap();
        assert!(files.contains(&"xtask/src/release.rs".to_owned()), "{files:?}");
        assert!(!files.contains(&pins::FILE.to_owned()), "{files:?}");
        for other in [concat!("cu12-", "9.98.7"), concat!("u12-", "9.10.2"), concat!("cu12-", "9.10")] {
            assert_eq!(files_naming(&root().unwrap(), other).unwrap(), [""; 0]);
        }
    }

    #[test]
    fn headers_that_differ_between_cuda_majors_are_named() {
        let dir = std::env::temp_dir().join(format!("xtask-headers-{}", std::process::id()));
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
        let _ = std::fs::remove_dir_all(&dir);
    }

    #[test]
    fn libraries_that_do_not_fit_the_release_are_problems() {
        let dir = std::env::temp_dir().join(format!("xtask-libraries-{}", std::process::id())).join("lib");
        std::fs::create_dir_all(&dir).unwrap();
        for name in ["libcudnn.so.9", "libcudnn_graph.so.9", "libcudnn_quantum.so.9"] {
            std::fs::write(dir.join(name), "").unwrap();
        }
        let jit = cudnn_fetch::release("jit-cu12-9.19.0").unwrap();
        let full = cudnn_fetch::release("cu12-9.28.0").unwrap();
        let problems = |release| {
            let mut summary = Summary::default();
            check_libraries(release, &Version::parse("9.28.0").unwrap(), &dir, &mut summary).unwrap();
            summary.problems.join("\n")
        };
        assert_eq!(problems(jit).lines().count(), 1);
        assert!(problems(jit).contains("unknown library libcudnn_quantum.so.9"));
        assert!(problems(full).contains("cu12-9.28.0 lacks libcudnn_ops.so.9; correct LIBRARY_SINCE"));
        let _ = std::fs::remove_dir_all(dir.parent().unwrap());
    }
}
