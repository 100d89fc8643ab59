//! Compares docs/data/findings.json, a page of the site, with the doctor's table. `CUDNN_TESTS_WRITE=1` writes the
//! file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use serde_json::{Value, json};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data/findings.json");

#[test]
fn the_page_explains_every_finding_and_no_other() {
    let output = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor")).args(["facts", "--json"]).output().unwrap();
    let facts: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = facts.get("findings").and_then(Value::as_array).unwrap();
    assert!(findings.len() > 50, "{findings:?}");
    let explained = findings.iter().map(|finding| {
        let [code, severity, title, cause] = ["code", "severity", "title", "cause"].map(|key| finding.get(key));
        json!({ "code": code, "severity": severity, "title": title, "cause": cause })
    });
    let expected: Vec<Value> = explained.collect();
    if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
        std::fs::write(FILE, format!("{:#}\n", json!(expected))).unwrap();
    }
    let found: Vec<Value> = serde_json::from_slice(&std::fs::read(FILE).unwrap()).unwrap();
    assert_eq!(found.len(), expected.len(), "run with CUDNN_TESTS_WRITE=1");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "run with CUDNN_TESTS_WRITE=1");
    }
}
