//! Checks the workspace as a whole: commands in a copied checkout use the copy, builds do not overwrite each other's
//! libraries, and packages depend only on packages in the same or a lower tier.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

#[test]
fn commands_use_the_checkout_that_cargo_names() {
    let copy = std::env::temp_dir().join(format!("xtask-copy-{}", std::process::id()));
    std::fs::create_dir_all(copy.join("xtask")).unwrap();
    // A fake cargo that records the working directory and fails.
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

/// Cargo uses the same file names for a cdylib in every build. If the package also contained a Rust library, every
/// build with other features would replace it, and programs could be linked to a library that they were not compiled
/// with.
#[test]
fn a_shared_library_is_a_package_of_its_own() {
    let metadata = metadata();
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

/// Tools may depend on layers and on the core, layers on the core, and the core only on itself. Tests may use
/// everything.
#[test]
fn dependencies_point_from_tools_to_layers_to_the_core() {
    let metadata = metadata();
    let root = Path::new(metadata["workspace_root"].as_str().unwrap());
    let tier = |dir: &str| match Path::new(dir).strip_prefix(root).unwrap().iter().next().and_then(|name| name.to_str())
    {
        Some("layers") => 1,
        Some("tools" | "tests" | "xtask") => 2,
        _ => 0,
    };
    let mut seen = [0; 3];
    for package in metadata["packages"].as_array().unwrap() {
        let own = tier(package["manifest_path"].as_str().unwrap());
        seen[own] += 1;
        for dependency in package["dependencies"].as_array().unwrap() {
            let Some(path) = dependency["path"].as_str() else { continue };
            if dependency["kind"] != "dev" {
                assert!(tier(path) <= own, "{} depends on {}", package["name"], dependency["name"]);
            }
        }
    }
    assert!(seen.iter().all(|count| *count >= 3), "{seen:?}");
}

/// Returns cargo's metadata of the workspace's packages.
fn metadata() -> serde_json::Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}
