//! Checks the workspace: copied checkouts, file names of builds, dependencies, the loader's cold build, and workflows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

#[test]
fn commands_use_the_checkout_that_cargo_names() {
    let copy = std::env::temp_dir().join(format!("xtask-copy-{}", std::process::id()));
    std::fs::create_dir_all(copy.join("xtask")).unwrap();
    // A fake cargo records the working directory and fails.
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

/// Cargo uses the same file names for a cdylib in every build. With a Rust library in the package, builds with other
/// features would replace it, and programs would link to the wrong one.
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

/// The doctor and the lab depend on the core, and the lab also on code that both share.
#[test]
fn dependencies_point_from_the_doctor_and_the_lab_to_the_core() {
    const SHARED: [&str; 2] = ["cudnn-cli", "cudnn-fetch"];
    let metadata = metadata();
    let root = Path::new(metadata["workspace_root"].as_str().unwrap());
    let part = |dir: &str| match Path::new(dir).strip_prefix(root).unwrap().iter().next().and_then(|name| name.to_str())
    {
        Some(part @ ("doctor" | "lab" | "tests" | "xtask")) => part.to_owned(),
        _ => "core".to_owned(),
    };
    let mut seen = BTreeSet::new();
    for package in metadata["packages"].as_array().unwrap() {
        let own = part(package["manifest_path"].as_str().unwrap());
        for dependency in package["dependencies"].as_array().unwrap() {
            let Some(path) = dependency["path"].as_str() else { continue };
            let (other, name) = (part(path), dependency["name"].as_str().unwrap());
            let is_allowed = match own.as_str() {
                "core" => other == "core",
                "doctor" => ["core", "doctor"].contains(&other.as_str()),
                "lab" => ["core", "lab"].contains(&other.as_str()) || SHARED.contains(&name),
                _ => true,
            };
            assert!(is_allowed || dependency["kind"] == "dev", "{} depends on {name}", package["name"]);
        }
        seen.insert(own);
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

#[test]
fn only_the_doctor_depends_on_the_rules() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let depends = |package: &serde_json::Value, name: &str| {
        package["dependencies"].as_array().unwrap().iter().any(|dependency| dependency["name"] == name)
    };
    let users = packages.iter().filter(|package| depends(package, "cudnn-rules"));
    assert_eq!(users.map(|package| package["name"].as_str().unwrap()).collect::<Vec<_>>(), ["cudnn-doctor"]);
    let rules = packages.iter().find(|package| package["name"] == "cudnn-rules").unwrap();
    for name in ["clap", "cudnn-backend", "cudnn-layer-api", "nvml-wrapper-sys"] {
        assert!(!depends(rules, name), "{name}");
    }
}

/// Each crate and feature takes seconds of a cold build.
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

/// A tag can move to unreviewed code. In YAML, a colon in an unquoted command starts a new key, which invalidates the
/// workflow.
#[test]
fn workflows_pin_their_actions_and_quote_colons() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.github/workflows");
    let mut actions = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines().map(|line| line.trim_start().trim_start_matches("- ")) {
            if let Some(action) = line.strip_prefix("uses: ") {
                let (_, commit) = action.split_once('@').unwrap();
                let commit = commit.split(" # v").next().unwrap();
                assert!(commit.len() == 40 && commit.bytes().all(|digit| digit.is_ascii_hexdigit()), "{line}");
                actions += 1;
            }
            let command = line.strip_prefix("run: ").unwrap_or_default();
            let is_quoted = command.starts_with(['"', '\'', '|', '>']);
            assert!(is_quoted || !(command.contains(": ") || command.ends_with(':')), "{line}");
        }
    }
    assert!(actions > 5);
}

fn metadata() -> serde_json::Value {
    serde_json::from_slice(&cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"])).unwrap()
}

fn cargo(args: &[&str]) -> Vec<u8> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let output = Command::new(cargo).args(args).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}
