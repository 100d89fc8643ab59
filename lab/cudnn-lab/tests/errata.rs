//! Tests `errata` with the shipped rules and with files.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use cudnn_probe::release_facts::RELEASE_FACTS;
use support::{TempDir, Version, copy_fake_set};

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
fn rules_are_compared_with_this_machine() {
    let rule =
        r#"{"name":"n","reason":"r","source":"https://a.example","operations":["matmul"],"cudnn":{"before":"9.15"}}"#;
    for (version, applies) in [(Version::new(9, 10, 2), true), (Version::new(9, 19, 0), false)] {
        let cudnn = with_cudnn(version);
        let file = cudnn.path().join("rules.json");
        std::fs::write(&file, format!(r#"{{"errata":1,"rules":[{rule}]}}"#)).unwrap();
        let with_file =
            |arguments: &[&str]| errata(cudnn.path(), &[arguments, &["--rules", file.to_str().unwrap()]].concat());
        let listed = with_file(&["list", "--json"]);
        assert_eq!(listed.status.code(), Some(0), "{listed:?}");
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(listed["rules"][0]["applies"], applies, "{listed}");
        let shown = text(&with_file(&["list"]).stdout);
        let expected = if applies { "applies to cuDNN 9.10.2" } else { "cuDNN 9.19.0 is not affected" };
        assert!(shown.contains(expected), "{shown}");
    }
}

/// The doctor shows the rule together with the known issue.
#[test]
fn every_shipped_rule_belongs_to_a_known_issue() {
    let dir = with_cudnn(Version::new(9, 10, 2));
    let listed = errata(dir.path(), &["list", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let facts: serde_json::Value = serde_json::from_str(RELEASE_FACTS).unwrap();
    let texts = |list: &serde_json::Value, keys: [&str; 3]| -> BTreeSet<[String; 3]> {
        let list = list.as_array().unwrap().iter().filter(|entry| entry[keys[0]].is_string());
        list.map(|entry| keys.map(|key| entry[key].as_str().unwrap().to_owned())).collect()
    };
    let rules = texts(&listed["rules"], ["name", "reason", "source"]);
    assert!(!rules.is_empty());
    assert_eq!(rules, texts(&facts["known_issues"], ["erratum", "effect", "source"]));
}

#[test]
fn the_file_in_the_guide_is_valid() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/errata.md")).unwrap();
    let (_, rest) = guide.split_once("```json\n").unwrap();
    let dir = with_cudnn(Version::new(9, 19, 0));
    let file = dir.path().join("rules.json");
    std::fs::write(&file, rest.split_once("```").unwrap().0).unwrap();
    let both = format!("{},known", file.display());
    let listed = text(&errata(dir.path(), &["list", "--rules", &both]).stdout);
    let shipped: serde_json::Value = serde_json::from_str(RELEASE_FACTS).unwrap();
    let shipped = shipped["errata"]["rules"][0]["name"].as_str().unwrap();
    assert!(listed.contains("my-slow-engine") && listed.contains(shipped), "{listed}");
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
        let refused = errata(dir.path(), &["list", "--rules", file_name]);
        let reason = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{content:?}: {refused:?}");
        assert!(reason.contains(expected) && !reason.contains('\x1b'), "{content:?}: {reason}");
        // No label precedes the file.
        assert!(reason.trim_start_matches('"').starts_with(file_name), "{content:?}: {reason}");
    }
}
