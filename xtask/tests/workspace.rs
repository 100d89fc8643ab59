//! The workspace as a whole: a copied checkout is worked on as the copy, and no build replaces another's libraries.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

#[test]
fn the_checkout_that_cargo_names_is_the_one_that_is_worked_on() {
    let copy = std::env::temp_dir().join(format!("xtask-copy-{}", std::process::id()));
    std::fs::create_dir_all(copy.join("xtask")).unwrap();
    // In place of cargo: records the directory in which the program starts it, and fails.
    let cargo = copy.join("cargo");
    support::write_program(&cargo, "#!/bin/sh\npwd > \"${0%/*}/started-in\"\nexit 1\n");
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("dist")
        .env("CARGO", &cargo)
        .env("CARGO_MANIFEST_DIR", copy.join("xtask"))
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap();
    assert!(!output.status.success(), "{output:?}");
    let started_in = std::fs::read_to_string(copy.join("started-in")).unwrap();
    assert_eq!(started_in.trim(), copy.canonicalize().unwrap().to_str().unwrap());
    let _ = std::fs::remove_dir_all(copy);
}

/// Cargo gives the files of a cdylib the same names in every build. A Rust library of the same package would be replaced by
/// each build with other features, and a program then be linked to a library that it was not compiled with.
#[test]
fn a_shared_library_is_a_package_of_its_own() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().unwrap());
    let shared: Vec<_> = targets
        .filter(|target| target["crate_types"].as_array().unwrap().iter().any(|kind| kind == "cdylib"))
        .collect();
    assert!(shared.len() >= 2, "{shared:?}");
    for target in shared {
        assert_eq!(target["crate_types"], serde_json::json!(["cdylib"]), "{target}");
    }
}
