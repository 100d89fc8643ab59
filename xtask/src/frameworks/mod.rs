//! Implements `cargo xtask frameworks`, which updates the facts about framework releases from the package index.

mod data;
mod index;
mod requires;

use std::str::FromStr;

use pep440_rs::Version;

use crate::error::Result;
use crate::workspace::root;
use data::{Data, FILE, Fact, METADATA};
use requires::Requires;

/// Adds the metadata of newer releases to the file. With `check`, leaves the file unchanged and fails if it would
/// change.
pub(crate) fn run(check: bool) -> Result<()> {
    let file = root()?.join(FILE);
    let old = std::fs::read_to_string(&file)?;
    let mut data = Data::parse(&old)?;
    let today = index::today()?;
    let mut undecided = Vec::new();
    for newest in data.newest.clone() {
        let known = Version::from_str(&newest.version)?;
        let mut newer = index::releases(&newest.url)?;
        newer.retain(|release| release.version > known);
        let Some(latest) = newer.last().map(|release| release.version.to_string()) else { continue };
        let Some(last) = data.last_fact(&newest.package) else { continue };
        if last.evidence == METADATA {
            let releases = required(&newest.package, newer)?;
            undecided.extend(add(&mut data, &newest.package, releases, &today));
        } else {
            undecided.push(format!(
                "{} {latest} is newer than {known}, and the last row was read from a {}: {}",
                newest.package, last.evidence, last.url
            ));
        }
    }
    let new = data.text()?;
    for line in new.lines().filter(|line| !old.lines().any(|other| other == *line)) {
        println!("{}", line.trim());
    }
    if !undecided.is_empty() {
        println!("To decide: if something changed, add a row to `facts`. Then set `version` and `date` in `newest`.");
        undecided.iter().for_each(|line| println!("  {line}"));
    }
    match (new == old, check) {
        (true, _) => println!("{FILE} is up to date with the metadata on the package index."),
        (false, true) => return Err(format!("{FILE} is out of date; run `cargo xtask frameworks`").into()),
        (false, false) => std::fs::write(&file, new)?,
    }
    Ok(())
}

/// Reads the requirements of these releases from their metadata. Skips releases without a wheel for Linux.
fn required(package: &str, releases: Vec<index::Release>) -> Result<Vec<(Version, Option<Requires>)>> {
    let (versions, wheels): (Vec<Version>, Vec<String>) =
        releases.into_iter().filter_map(|release| Some((release.version, release.wheel?))).unzip();
    let texts = index::metadata(&wheels)?;
    let read = |(version, text): (Version, String)| {
        let requires = requires::read(package, &version.to_string(), &text)?;
        Ok((version, requires))
    };
    versions.into_iter().zip(texts).map(read).collect()
}

/// Adds a fact for every release whose requirements differ from the previous release, and updates the newest release of
/// the package. Stops at a release without cuDNN, and returns the question for a person.
fn add(data: &mut Data, package: &str, releases: Vec<(Version, Option<Requires>)>, today: &str) -> Option<String> {
    for (version, requires) in releases {
        let Some(requires) = requires else {
            return Some(format!("{package} {version}: the metadata requires no cuDNN"));
        };
        let last = data.facts.iter().rposition(|fact| fact.package == package)?;
        let before = data.facts.get(last)?;
        if !states(before, &requires) {
            let fact = Fact {
                since: version.to_string(),
                cudnn: Some(requires.cudnn),
                cuda: Some(requires.cuda),
                date: today.to_owned(),
                note: None,
                ..before.clone()
            };
            data.facts.insert(last + 1, fact);
        }
        let newest = data.newest.iter_mut().find(|newest| newest.package == package)?;
        (newest.version, newest.date) = (version.to_string(), today.to_owned());
    }
    None
}

fn states(fact: &Fact, requires: &Requires) -> bool {
    (fact.cudnn.as_ref(), fact.cuda.as_ref()) == (Some(&requires.cudnn), Some(&requires.cuda))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked_in() -> Data {
        Data::parse(include_str!("../../../doctor/cudnn-frameworks/data/frameworks.json")).unwrap()
    }

    #[test]
    fn a_release_with_other_requirements_becomes_a_row() {
        let before = checked_in();
        let last = before.last_fact("torch").unwrap().clone();
        let (cudnn, cuda) = (last.cudnn.clone().unwrap(), last.cuda.clone().unwrap());
        let release = |version: &str, cudnn: &str, cuda: &str| {
            let requires = Requires { cudnn: cudnn.to_owned(), cuda: cuda.to_owned() };
            (Version::from_str(version).unwrap(), Some(requires))
        };
        let mut data = before.clone();
        let releases = vec![
            release("999.0", &cudnn, &cuda),
            release("999.1", "9.99.0", &cuda),
            release("999.1.1", "9.99.0", &cuda),
            release("999.2", "9.99.0", "99.0"),
        ];
        assert_eq!(add(&mut data, "torch", releases, "2027-01-01"), None);
        let added: Vec<_> = data.facts.iter().filter(|fact| !before.facts.contains(fact)).collect();
        let row = |since: &str, cuda: &str| Fact {
            since: since.to_owned(),
            cudnn: Some("9.99.0".to_owned()),
            cuda: Some(cuda.to_owned()),
            date: "2027-01-01".to_owned(),
            ..last.clone()
        };
        assert_eq!(added, [&row("999.1", &cuda), &row("999.2", "99.0")]);
        assert_eq!(data.facts.len(), before.facts.len() + 2);
        let newest = data.newest.iter().find(|newest| newest.package == "torch").unwrap();
        assert_eq!((newest.version.as_str(), newest.date.as_str()), ("999.2", "2027-01-01"));
        assert_eq!(data.newest.iter().filter(|newest| !before.newest.contains(newest)).count(), 1);
    }

    #[test]
    fn a_release_that_requires_no_cudnn_is_left_to_a_person() {
        let before = checked_in();
        let mut data = before.clone();
        let releases = vec![(Version::from_str("999.0").unwrap(), None)];
        let undecided = add(&mut data, "torch", releases, "2027-01-01").unwrap();
        assert!(undecided.contains("torch 999.0: the metadata requires no cuDNN"), "{undecided}");
        assert_eq!(data, before);
    }

    /// Compares the facts about a package with the metadata of all releases since the first fact.
    #[test]
    #[cfg_attr(target_arch = "x86_64", ignore = "downloads metadata of frameworks")]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "needs x86-64")]
    fn the_facts_match_the_metadata() {
        let data = checked_in();
        let mut wrong = Vec::new();
        for newest in &data.newest {
            let facts: Vec<&Fact> = data.facts.iter().filter(|fact| fact.package == newest.package).collect();
            if facts.iter().all(|fact| fact.evidence != METADATA) {
                continue;
            }
            let since = |fact: &Fact| Version::from_str(&fact.since).unwrap();
            let releases = match index::releases(&newest.url) {
                Ok(releases) => releases,
                Err(error) if std::env::var_os(support::OFFLINE_VARIABLE).is_some_and(|value| value == "skip") => {
                    return support::not_run("the_facts_match_the_metadata", &error.to_string());
                }
                Err(error) => panic!("{error}\nSet {}=skip to skip the test.", support::OFFLINE_VARIABLE),
            };
            let is_described = |release: &index::Release| {
                (since(facts[0])..=Version::from_str(&newest.version).unwrap()).contains(&release.version)
            };
            let releases = required(&newest.package, releases.into_iter().filter(is_described).collect()).unwrap();
            for fact in &facts {
                if !releases.iter().any(|(version, _)| *version == since(fact)) {
                    wrong.push(format!("{} has no release {}", newest.package, fact.since));
                }
            }
            for (version, requires) in releases {
                let fact = facts.iter().rfind(|fact| since(fact) <= version).unwrap();
                // Older releases of ONNX Runtime define no extras.
                let is_right = match &requires {
                    Some(requires) => states(fact, requires),
                    None => fact.evidence != METADATA,
                };
                if !is_right {
                    wrong.push(format!("{} {version}: {requires:?}, but {fact:?}", newest.package));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
