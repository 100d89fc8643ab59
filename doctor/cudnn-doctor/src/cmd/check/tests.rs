#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::observe::diagnosis::observations;
use cudnn_rules::check::checks;

const REMEDY: &str = "its remedy asks what the installers and environments allow";
const DOCTOR: &str = "its remedy asks by which name PATH leads to the doctor";
const FILES: &str = "it reads files that no other check needs";

/// Checks that still query the system, with the reason. The results of `load` and `framework_runs` are
/// interpreted when they are collected.
const ASKING: [(&str, &str); 20] = [
    ("drop_in", FILES),
    ("frameworks", REMEDY),
    ("incomplete", REMEDY),
    ("known_issues", REMEDY),
    ("linked_programs", FILES),
    ("load", REMEDY),
    ("lost_python", REMEDY),
    ("mixed", FILES),
    ("no_cudnn", REMEDY),
    ("no_kernels", FILES),
    ("not_as_installed", FILES),
    ("not_verified", FILES),
    ("old_gpu", REMEDY),
    ("other_installations", DOCTOR),
    ("overlapping_packages", REMEDY),
    ("program", FILES),
    ("rejected", REMEDY),
    ("requirements", REMEDY),
    ("search", FILES),
    ("unusable", REMEDY),
];

#[test]
fn checks_read_only_what_was_collected() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts"));
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut asked: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files.filter(|file| file.extension().is_some_and(|kind| kind == "json")) {
        let saved = saved_facts::read(&file).unwrap_or_else(|error| panic!("{error}"));
        let SavedOptions { options } = SavedOptions::try_parse_from(&saved.options).unwrap();
        let questions = |context: &Context, requested: &Requested| {
            checks::questions(&observations(context, requested, &Timeouts::new(None)), &saved.facts)
        };
        let of_machine =
            saved.facts.within(|| with_request(&options, &Context::current(), Format::Text, questions).ok().unwrap());
        for (check, questions) in of_machine {
            asked.entry(check).or_default().extend(questions);
        }
    }
    asked.retain(|_, questions| !questions.is_empty());
    let expected: Vec<&str> = ASKING.iter().map(|(check, _)| *check).collect();
    assert_eq!(asked.keys().copied().collect::<Vec<_>>(), expected, "{asked:#?}");
}
