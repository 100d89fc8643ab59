//! Tests `errata` and `run --errata`, with the shipped rules and with files.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod beside;

use std::path::Path;
use std::process::{Command, Output};

use beside::Prefix;
use support::{TempDir, Version, copy_fake_set};

/// Runs `errata` on a machine with this cuDNN.
fn errata(cudnn: &Path, arguments: &[&str]) -> Output {
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
    doctor.arg("errata").args(arguments).env_clear().env("CUDNN_LOADER_DIR", cudnn).output().unwrap()
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

/// `check` finds the rule for a known issue by the text.
#[test]
fn every_shipped_rule_belongs_to_a_known_issue() {
    let facts = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor")).args(["facts", "--json"]).output().unwrap();
    let facts: serde_json::Value = serde_json::from_slice(&facts.stdout).unwrap();
    let issues: Vec<&str> =
        facts["known_issues"].as_array().unwrap().iter().map(|issue| issue["message"].as_str().unwrap()).collect();
    let dir = with_cudnn(Version::new(9, 10, 2));
    let listed = errata(dir.path(), &["list", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    for rule in listed["rules"].as_array().unwrap() {
        assert!(issues.contains(&rule["reason"].as_str().unwrap()), "{rule}");
    }
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
    doctor.args(["check", "--no-load", "--only", "C017", "--verbose"]).env_clear().env("CUDNN_LOADER_DIR", dir.path());
    let report = text(&doctor.output().unwrap().stdout);
    assert_eq!(report.matches("run --errata known -- PROGRAM").count(), 2, "{report}");
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

#[test]
fn run_turns_the_layer_on_and_refuses_invalid_rules() {
    let (prefix, dir) = (Prefix::new(), with_cudnn(Version::new(9, 19, 0)));
    std::fs::write(dir.path().join("rules.json"), "{").unwrap();
    let print = "echo \"$CUDNN_LAYERS|$CUDNN_ERRATA\"";
    let run = |options: &[&str]| {
        let arguments = [&["run"], options, &["--", "sh", "-c", print]].concat();
        let arguments: Vec<&std::ffi::OsStr> = arguments.iter().map(std::ffi::OsStr::new).collect();
        prefix.command(&arguments).current_dir(dir.path()).output().unwrap()
    };
    for (options, expected) in [
        (&["--errata", "known"][..], "errata|known\n"),
        (&["--errata", "known", "--plans"], "errata,plans|known\n"),
        (&["--errata", "known", "--layers", "plans"], "errata,plans|known\n"),
        (&["--errata", "known", "--trace", "trace.json"], "trace,errata|known\n"),
        (&["--explain", "--errata", "known", "--plans"], "explain,errata,plans|known\n"),
        (&["--explain=used", "--validate", "--plans"], "validate,explain,plans|\n"),
        (&["--validate"], "validate|\n"),
        (&["--validate", "--errata", "known", "--trace", "trace.json"], "trace,validate,errata|known\n"),
    ] {
        let output = run(options);
        assert_eq!(text(&output.stdout), expected, "{output:?}");
    }
    let refused = run(&["--errata", "rules.json"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(text(&refused.stderr).contains("rules.json: EOF while parsing"), "{refused:?}");
    // The program may change its working directory.
    let valid = br#"{"errata":1,"rules":[{"name":"n","reason":"r","operations":["matmul"]}]}"#;
    std::fs::write(dir.path().join("rules.json"), valid).unwrap();
    let output = run(&["--errata", "rules.json"]);
    let expected = format!("errata|{}\n", dir.path().join("rules.json").display());
    assert_eq!(text(&output.stdout), expected, "{output:?}");
}
