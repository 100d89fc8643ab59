#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

#[test]
fn the_file_is_complete_and_in_order() {
    let data: Data = serde_json::from_str(include_str!("../../../data/frameworks.json")).unwrap();
    assert!(!data.newest.is_empty());
    assert_eq!(data.facts, all());
    for pair in data.facts.windows(2) {
        let [first, second] = pair else { continue };
        assert!(first.package <= second.package, "{first:?} {second:?}");
        if first.package == second.package {
            assert!(parse(first.since) < parse(second.since), "{first:?} {second:?}");
        }
    }
    let is_source = |source: &Citation| source.url.starts_with("https://") && is_day(source.date);
    for fact in &data.facts {
        let newest = data.newest.iter().find(|newest| newest.package == fact.package);
        assert!(newest.is_some_and(|newest| parse(newest.version) >= parse(fact.since)), "{fact:?}");
        assert!(is_source(&fact.source), "{fact:?}");
        // Metadata and wheels must come from the same package.
        let is_of_index = fact.source.url.starts_with(&format!("https://pypi.org/project/{}/", fact.package));
        assert_eq!(is_of_index, fact.source.evidence != EvidenceKind::Document, "{fact:?}");
    }
    let has_fact = |newest: &Newest| data.facts.iter().any(|fact| fact.package == newest.package);
    assert!(data.newest.iter().all(has_fact));
}

/// Returns whether the text has the form `2026-11-22`.
fn is_day(text: &str) -> bool {
    let numbers: Vec<u32> = text.split('-').filter_map(|number| number.parse().ok()).collect();
    text.len() == 10 && matches!(numbers[..], [year, 1..=12, 1..=31] if year >= 2026)
}

#[test]
fn a_fact_applies_until_the_next_fact() {
    let cudnn = |fact: &Fact| fact.cudnn.map(|version| (version.major, version.minor, version.patch));
    let cudnn = |package, version| about(package, version).map(|(fact, is_newer)| (cudnn(fact), is_newer));
    for (package, version, expected) in [
        ("ctranslate2", "4.4.0", Some((Some((8, 9, 7)), false))),
        ("ctranslate2", "4.6.2", Some((Some((9, 1, 0)), false))),
        ("ctranslate2", "4.8.5", Some((None, false))),
        ("ctranslate2", "4.9.0", Some((None, true))),
        ("ctranslate2", "3.24.0", None),
        ("torch", "2.10.0+cu128", Some((Some((9, 10, 2)), false))),
        ("torch", "2.16.0.dev20261122+cu132", Some((Some((9, 26, 0)), true))),
        ("torch", "not a version", None),
        ("none", "1.0", None),
    ] {
        assert_eq!(cudnn(package, version), expected, "{package} {version}");
    }
}
