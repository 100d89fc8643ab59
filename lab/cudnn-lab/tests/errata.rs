//! Tests `errata` with the shipped rules and with files.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use cudnn_probe::release_facts::KNOWN_ISSUES;
use support::{TempDir, Version, copy_fake_set};

/// Runs `errata` on a machine with this cuDNN.
fn errata(cudnn: &Path, arguments: &[&str]) -> Output {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
    lab.arg("errata").args(arguments).env_clear().env("CUDNN_LOADER_DIR", cudnn).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn with_cudnn(version: Version) -> TempDir {
    let dir = TempDir::new();
    copy_fake_set(version, dir.path());
    dir
}

#[test]
fn the_shipped_rules_are_compared_with_this_machine() {
    for (version, applies) in [(Version::new(9, 10, 2), true), (Version::new(9, 19, 0), false)] {
        let cudnn = with_cudnn(version);
        let listed = errata(cudnn.path(), &["list", "--json"]);
        assert_eq!(listed.status.code(), Some(0), "{listed:?}");
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        let rules = listed["rules"].as_array().unwrap();
        assert!(rules.len() > 1 && rules.iter().all(|rule| rule["applies"] == applies), "{listed}");
        let shown = text(&errata(cudnn.path(), &["list"]).stdout);
        assert_eq!(shown.contains(" applies to cuDNN 9.10.2 "), applies, "{shown}");
        let explained = text(&errata(cudnn.path(), &["why", "conv3d-tf32-wrong"]).stdout);
        let expected = if applies { "applies to cuDNN 9.10.2" } else { "does not apply: cuDNN 9.19.0 is not affected" };
        assert!(explained.contains(expected) && explained.contains("https://"), "{explained}");
    }
}

/// The doctor names the rule for a known issue.
#[test]
fn every_shipped_rule_belongs_to_a_known_issue() {
    let dir = with_cudnn(Version::new(9, 10, 2));
    let listed = errata(dir.path(), &["list", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let rules = listed["rules"].as_array().unwrap().iter().map(|rule| (text(&rule["name"]), text(&rule["reason"])));
    let rules: BTreeSet<(Option<String>, Option<String>)> = rules.collect();
    let issues = KNOWN_ISSUES.iter().filter_map(|issue| Some((issue.erratum?, issue.description)));
    assert_eq!(rules, issues.map(|(name, reason)| (Some(name.to_owned()), Some(reason.to_owned()))).collect());
}

#[test]
fn the_file_in_the_guide_is_valid() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/errata.md")).unwrap();
    let (_, rest) = guide.split_once("```json\n").unwrap();
    let dir = with_cudnn(Version::new(9, 19, 0));
    let file = dir.path().join("rules.json");
    std::fs::write(&file, rest.split_once("```").unwrap().0).unwrap();
    let checked = errata(dir.path(), &["check", "--rules", file.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    assert!(text(&checked.stdout).starts_with("1 rule in "), "{checked:?}");
    let both = format!("{},known", file.display());
    let listed = text(&errata(dir.path(), &["list", "--rules", &both]).stdout);
    assert!(listed.contains("my-slow-engine") && listed.contains("conv3d-tf32-wrong"), "{listed}");
}

#[test]
fn invalid_rules_are_refused_with_the_reason() {
    let dir = with_cudnn(Version::new(9, 19, 0));
    let file = dir.path().join("rules.json");
    let file_name = file.to_str().unwrap();
    for (content, expected) in [
        (&b""[..], "EOF while parsing"),
        (b"{\"errata\":1,\"rules\":[{}]}", "missing field `name`"),
        (b"{\"errata\":1,\"rules\":[{\"name\":\"\x1b[31m\",\"reason\":\"r\"}]}", "control character"),
        (b"\xff\xfe", "valid UTF-8"),
        (br#"{"errata":1,"rules":[{"name":"n","reason":"r","operations":["conv"]}]}"#, "unknown operation \"conv\""),
        (br#"{"errata":1,"rules":[]}"#, "selects no rules"),
    ] {
        std::fs::write(&file, content).unwrap();
        let refused = errata(dir.path(), &["check", "--rules", file_name]);
        let reason = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{content:?}: {refused:?}");
        assert!(reason.contains(expected) && !reason.contains('\x1b'), "{content:?}: {reason}");
    }
    let unknown = errata(dir.path(), &["why", "no-such-rule"]);
    assert_eq!(unknown.status.code(), Some(3), "{unknown:?}");
}
