//! Checks the workspace as a whole: commands in a copied checkout use the copy, builds do not overwrite each other's
//! libraries, packages depend only on packages in the same or a lower tier, and the loader compiles fast.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
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

/// Each crate and feature costs the users of the loader seconds in a cold build.
#[test]
fn the_loader_compiles_few_crates_and_no_code_for_tools() {
    let output = cargo(&[
        "tree",
        "--package",
        "cudnn-loader",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p} {f}",
        "--target",
        "x86_64-unknown-linux-gnu",
        "--offline",
    ]);
    let tree = String::from_utf8(output).unwrap();
    let crates: BTreeSet<String> = tree
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace().filter(|word| !word.starts_with('(') && !word.ends_with(')'));
            let name = words.next().unwrap();
            // The version comes before the features.
            words.nth(1).map_or(name.to_owned(), |features| format!("{name} {features}"))
        })
        .collect();
    let expected = [
        "cfg-if",
        "cudnn-layer-api",
        "cudnn-loader",
        "cudnn-os native",
        "cudnn-probe",
        "cudnn-sys",
        "libc default,std",
        "libloading default,std",
        "once_cell alloc,race",
    ];
    assert!(crates.iter().all(|name| expected.contains(&name.as_str())), "{crates:#?}");
    assert!(crates.contains("cudnn-probe"), "{crates:#?}");
}

/// Returns cargo's metadata of the workspace's packages.
fn metadata() -> serde_json::Value {
    serde_json::from_slice(&cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"])).unwrap()
}

/// Runs cargo in the workspace and returns the output.
fn cargo(args: &[&str]) -> Vec<u8> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let output = Command::new(cargo).args(args).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}
