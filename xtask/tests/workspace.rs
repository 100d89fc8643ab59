//! `cargo xtask` in a copied checkout works on the copy, although the program was built in the original.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn the_checkout_that_cargo_names_is_the_one_that_is_worked_on() {
    let copy = std::env::temp_dir().join(format!("xtask-copy-{}", std::process::id()));
    std::fs::create_dir_all(copy.join("xtask")).unwrap();
    // In place of cargo: records the directory in which the program starts it, and fails.
    let cargo = copy.join("cargo");
    std::fs::write(&cargo, "#!/bin/sh\npwd > \"${0%/*}/started-in\"\nexit 1\n").unwrap();
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
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
