//! Recreates reports from the facts in `tests/facts`, which check.rs saved for each finding. `CUDNN_TESTS_WRITE=1 cargo
//! test -p cudnn-doctor --test check --test facts` saves facts and reports again.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "these tests save nothing")]
mod again;

use std::path::{Path, PathBuf};

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts");

fn facts() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(DIR).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|file| file.extension().is_some_and(|kind| kind == "json")).collect();
    files.sort();
    assert!(files.len() > 45, "{files:?}");
    files
}

#[test]
fn saved_facts_lead_to_the_expected_findings_and_plan() {
    let mut wrong = String::new();
    for file in facts() {
        let code = file.file_stem().unwrap().to_str().unwrap();
        let report = String::from_utf8(again::from_facts(&file, &["--verbose"]).stdout).unwrap();
        let expected = file.with_extension("txt");
        if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
            std::fs::write(&expected, &report).unwrap();
        }
        assert!(report.contains(&format!("[{code}]")), "{code}: {report}");
        if std::fs::read_to_string(&expected).unwrap_or_default() != report {
            wrong.push_str(&format!("{} is not this report:\n{report}\n", expected.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn changed(code: &str, change: impl Fn(&mut serde_json::Value)) -> std::process::Output {
    let text = std::fs::read(Path::new(DIR).join(format!("{code}.json"))).unwrap();
    let mut value = serde_json::from_slice(&text).unwrap();
    change(&mut value);
    let dir = support::TempDir::new();
    let file = dir.path().join("facts.json");
    std::fs::write(&file, value.to_string()).unwrap();
    again::from_facts(&file, &[])
}

#[test]
fn facts_that_cannot_be_used_are_refused_with_the_reason() {
    let refused = |change: &dyn Fn(&mut serde_json::Value)| {
        let output = changed("C010", change);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (key, value, expected) in [
        ("saved_facts", serde_json::json!(99), "has format 99 of saved facts"),
        ("system", serde_json::json!("plan9"), "has facts about plan9"),
        ("processor", serde_json::json!("\u{1b}[31m"), "has facts about"),
        ("facts", serde_json::json!(5), "does not contain saved facts"),
        ("options", serde_json::json!(["--no-such-option"]), "has unknown options of check"),
    ] {
        let error = refused(&|facts: &mut serde_json::Value| facts[key] = value.clone());
        assert!(error.contains(expected) && !error.contains('\u{1b}'), "{error}");
    }
    let error = refused(&|facts| *facts = serde_json::json!({ "schema": 2 }));
    assert!(error.contains("`check --save-facts` writes such files"), "{error}");
    let absent = again::from_facts(Path::new("/nowhere/facts.json"), &[]);
    assert_eq!(absent.status.code(), Some(3), "{absent:?}");
}

#[test]
fn a_fact_that_was_removed_by_hand_counts_as_absent() {
    let output = changed("C020", |facts| {
        let _ = facts["facts"]["identity"]
            .as_object_mut()
            .unwrap()
            .remove("/opt/cudnn/libcudnn_graph.so.9 libcudnn_graph.so.9");
    });
    assert!(String::from_utf8_lossy(&output.stdout).contains("error[C010]"), "{output:?}");
}

/// Hostile facts must not cause panics or execute commands.
#[test]
fn answers_of_another_type_are_ignored() {
    for file in facts() {
        let code = file.file_stem().unwrap().to_str().unwrap();
        for junk in
            [serde_json::json!(null), serde_json::json!("text"), serde_json::json!([[1], { "Ok": {} }]), (-1).into()]
        {
            let output = changed(code, |facts| {
                for answers in facts["facts"].as_object_mut().unwrap().values_mut() {
                    answers.as_object_mut().unwrap().values_mut().for_each(|answer| *answer = junk.clone());
                }
            });
            assert!((0..=3).contains(&output.status.code().unwrap()), "{code}: {output:?}");
            assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{code}: {output:?}");
        }
    }
}

#[test]
fn nothing_is_installed_on_a_system_without_glibc() {
    let report = |loaders: &[&str]| {
        let output = changed("C010", |facts| {
            let metadata = facts["facts"]["metadata"].as_object_mut().unwrap();
            metadata.retain(|path, _| !path.contains("/ld-linux"));
            let file = serde_json::json!({ "Ok": { "kind": "File", "len": 1 } });
            metadata.extend(loaders.iter().map(|loader| ((*loader).to_owned(), file.clone())));
        });
        String::from_utf8(output.stdout).unwrap()
    };
    let (musl, glibc) = ("/lib/ld-musl-x86_64.so.1", "/lib64/ld-linux-x86-64.so.2");
    let alpine = report(&[musl]);
    assert!(alpine.contains("help: this system has musl (/lib/ld-musl-x86_64.so.1), but no glibc"), "{alpine}");
    assert!(!alpine.contains("To fix this"), "{alpine}");
    // Debian has a package with musl.
    let debian = report(&[musl, glibc]);
    assert!(!debian.contains("musl") && debian.contains("To fix this"), "{debian}");
}
