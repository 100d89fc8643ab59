//! Tests commands that move cuDNN while CUDNN_LOADER_DIR names the old directory, and commands that restore links.

use std::path::{Path, PathBuf};

use cudnn_probe::Library;
use cudnn_probe::release_facts::has_library;
use support::Share;

use crate::world::{Case, World, files_below};
use crate::{CU12, CU12_OLDER, V9_19};

/// After `eval "$(cudnn-doctor env)"`, the variable names a directory that the commands remove.
#[test]
fn commands_that_move_cudnn_update_cudnn_loader_dir() {
    let Some(release) = support::release("jit-cu12-9.19.0") else { return };
    let package = "nvidia-cudnn-jit-cu12";
    let world = || {
        let world = World::new("env", true).with_real_wheel(&release);
        let dir = world.site_packages().join("nvidia/cudnn_jit/lib");
        world.variable("CUDNN_LOADER_DIR", dir)
    };
    let function = &["--function", "cudnnConvolutionForward"][..];
    for case in [
        Case::new("no convolutions", "C019", &[package], |_| {}).options(function),
        Case::new("an old GPU", "C040", &[package], |_| {}).with_old_gpu(),
    ]
    .into_iter()
    .share(6)
    {
        let commands = case.run(&world());
        assert!(commands.last().unwrap().starts_with("eval "), "{commands:?}");
    }
    // Only the variable leads to the cuDNN of the inactive environment.
    let inactive = world().variable("VIRTUAL_ENV", "");
    Case::new("an inactive environment", "C019", &[package], |_| {}).options(function).run(&inactive);

    // pip cannot upgrade these directories.
    for dir in ["opt/cudnn-linux-x86_64-9.18.0.56_cuda12-archive/lib", "target/nvidia/cudnn/lib"] {
        let world = World::new("env", true);
        let dir = world.home().join(dir);
        CU12_OLDER.copy_to(&dir);
        let world = world.variable("CUDNN_LOADER_DIR", dir);
        Case::new("too old", "C018", &[], |_| {}).options(&["--minimum", "9.19"]).run(&world);
    }
}

/// Renames the libraries to their full names, like a copy without symbolic links.
fn without_links(dir: &Path, libraries: &[Library]) {
    for library in libraries.iter().filter(|library| has_library(V9_19, **library)) {
        let file = dir.join(library.file_name());
        std::fs::rename(&file, dir.join(format!("{}.19.0", library.file_name()))).unwrap();
    }
}

#[test]
fn commands_restore_lost_links() {
    let archive = "opt/cudnn-linux-x86_64-9.19.0.56_cuda12-archive/lib";
    for (dir, variable, lost, code) in [
        (archive, "CUDNN_LOADER_DIR", Library::ALL, "C010"),
        (archive, "LD_LIBRARY_PATH", Library::ALL, "C010"),
        ("it's a $(copy)", "LD_LIBRARY_PATH", Library::ALL, "C010"),
        (archive, "CUDNN_LOADER_DIR", &[Library::Ops], "C012"),
        ("it's a $(copy)", "LD_LIBRARY_PATH", &[Library::Cnn, Library::Shim], "C012"),
    ]
    .into_iter()
    .share(6)
    {
        let world = World::new("env", true);
        let dir = world.home().join(dir);
        let of_files = |dir: &PathBuf| -> Vec<PathBuf> {
            let mut files = files_below(dir);
            files.retain(|file| !file.is_symlink());
            files
        };
        CU12.copy_to(&dir);
        without_links(&dir, lost);
        let before = of_files(&dir);
        let world = world.variable(variable, &dir);
        let commands = Case::new("lost links", code, &[], |_| {}).run(&world);
        assert_eq!(commands.len(), 1, "{commands:?}");
        assert_eq!(of_files(&dir), before, "{commands:?}");
        let incomplete = world.findings(&[]).into_iter().any(|finding| finding["code"] == "C012");
        assert!(!incomplete, "{commands:?}");
    }
}

#[test]
fn commands_for_a_cudnn_8_program_install_cudnn_8() {
    let options = &["--minimum", "8.9"][..];
    let requirement = |world: &World, lines: &str, options: &[&str]| {
        let findings = world.findings_after("sh", lines, options);
        assert!(findings.iter().all(|finding| finding["code"] != "C010"), "{findings:#?}");
        let found = findings.into_iter().find(|finding| finding["code"] == "C018");
        found.unwrap_or_else(|| panic!("no C018 after {lines}"))
    };
    for (package, install) in
        [("nvidia-cudnn-cu12", Some("'nvidia-cudnn-cu12>=8.9.0,<9'")), ("nvidia-cudnn-cu12==8.9.7.29", None)]
    {
        let world = World::new("env", true);
        world.unpack(package);
        let found = requirement(&world, "", options);
        assert_eq!(found["severity"], "error", "{found:#?}");
        let commands: Vec<&str> =
            found["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        match install {
            Some(install) => assert!(commands[0].ends_with(install), "{commands:?}"),
            None => assert!(commands.iter().all(|line| line.starts_with("export ")), "{commands:?}"),
        }
        let after = requirement(&world, &commands.join("\n"), options);
        assert_eq!(after["severity"], "warning", "{commands:?}: {after:#?}");
    }
    let world = World::new("env", true);
    for options in [&["--minimum", "10.0"][..], &["--minimum", "8.9", "--cuda", "13"], &["--minimum", "7"]] {
        let found = requirement(&world, "", options);
        assert_eq!(found["commands"].as_array().unwrap().len(), 0, "{found:#?}");
    }
    world.unpack("nvidia-cudnn-cu12");
    let findings = world.findings(&["--minimum", "9"]);
    assert!(findings.iter().all(|finding| finding["code"] != "C018"), "{findings:#?}");
}
