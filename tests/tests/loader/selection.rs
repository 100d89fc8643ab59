//! Tests which installation the loader selects: options, environment variables, and the selection after a failure.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use cudnn_loader::DIR_VARIABLE;
use cudnn_probe::Library;
use support::{Child, FakeLibrary, TempDir, lib_dir};

use super::{DRIVER, JIT, child, complete_jit, graph_with, mapped, run};

#[test]
fn options_are_checked_against_candidates_and_against_the_active_installation() {
    let (Some(cu12), Some(cu13)) = (lib_dir("jit-cu12-9.19.0"), lib_dir("jit-cu13-9.27.0")) else { return };
    let both = std::env::join_paths([&cu12, &cu13]).unwrap();
    let there = || Child::bare(DRIVER).env("LD_LIBRARY_PATH", &both);
    for (options, found) in [
        ("load:", "9.19.0"),
        ("load:min=9.20.0", "9.27.0"),
        ("load:cuda=13", "9.27.0"),
        ("load:cuda=12,min=9.19.0,strict", "9.19.0"),
    ] {
        let output = run(there(), &[options]);
        assert!(output.returned("load").unwrap().starts_with(found), "{options}: {output:#?}");
    }
    for (options, fragment) in [
        ("load:min=9.28.0", "is cuDNN 9.27.0, but 9.28.0 or newer is required"),
        ("load:cuda=13,min=9.27.1", "is cuDNN 9.27.0, but 9.27.1 or newer is required"),
        ("load:cuda=11", "is built for CUDA 12, but CUDA 11 is required"),
    ] {
        let output = run(there(), &[options]);
        assert_eq!(output.returned("load"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"), "{output:#?}");
        assert!(output.last_error("load").contains(fragment), "{options}: {output:#?}");
    }
    // The first use selects the installation. Later options cannot change the selection, and unmet options are errors.
    let output = run(there(), &["~cudnnGetVersion", "load:min=9.20.0"]);
    assert!(output.stdout.contains("cudnnGetVersion = 91900"), "{output:#?}");
    assert!(output.last_error("load").contains("this process already uses the cuDNN in "), "{output:#?}");
    // This applies to all options, including options that can only be checked on a loaded library.
    for options in ["load:cuda=13", &format!("load:path={}", cu13.display())] {
        let output = run(child(&cu12), &["~cudnnGetVersion", options]);
        assert!(
            output.last_error("load").contains("this process already uses the cuDNN in "),
            "{options}: {output:#?}"
        );
    }
    let only_in_memory = graph_with("unsigned long cudnnGetCudartVersion(void) { return 12090; }");
    let output = run(child(only_in_memory.path()), &["~cudnnGetVersion", "load:cuda=13"]);
    assert!(output.last_error("load").contains("is built for CUDA 12, but CUDA 13 is required"), "{output:#?}");
    // A failure is not final, because the next load searches again.
    let output = run(there(), &["load:min=9.28.0", "~cudnnGetVersion", "load:cuda=13", "cudnnGetVersion"]);
    assert!(output.stdout.contains("load = 9.27.0"), "{output:#?}");
}

#[test]
fn a_cudnn_that_cannot_be_opened_does_not_stay_selected() {
    let bad = TempDir::new();
    FakeLibrary::new(Library::Graph, JIT).needing("libnowhere.so.1").build(&bad.file(Library::Graph));
    let good = graph_with("");
    let there = || Child::bare(DRIVER).env("LD_LIBRARY_PATH", bad.path());
    let output = run(there(), &["load:", &format!("load:path={}", good.path().display())]);
    assert!(output.last_error("load").contains("needs libnowhere.so.1, which ld.so did not find"), "{output:#?}");
    assert!(output.stdout.contains("\nload = 9.19.0 "), "{output:#?}");
}

#[test]
fn a_damaged_library_fails_a_strict_load_or_only_its_own_functions() {
    let Some(jit) = lib_dir("jit-cu12-9.19.0") else { return };
    let dir = complete_jit(&jit);
    std::fs::write(dir.cleared(Library::Adv), "no library").unwrap();
    let output = run(child(dir.path()), &["load:strict"]);
    assert!(output.last_error("load").contains("is not an ELF file"), "{output:#?}");
    let output = run(child(dir.path()), &["~cudnnGetVersion", "load:strict"]);
    assert!(output.last_error("load").contains("is not an ELF file"), "{output:#?}");
    let output = run(child(dir.path()), &["load:", "@cudnnDestroyTensorDescriptor", "@cudnnDestroyRNNDescriptor"]);
    assert_eq!(output.returned("@cudnnDestroyTensorDescriptor"), Some("resolved"), "{output:#?}");
    assert_eq!(
        output.returned("@cudnnDestroyRNNDescriptor"),
        Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"),
        "{output:#?}"
    );
}

#[test]
fn a_library_of_another_release_fails_a_strict_load() {
    let dir = graph_with("");
    // Heuristics contain no version.
    FakeLibrary::new(Library::Heuristic, JIT)
        .with_undefined("cudnn_of_another_release")
        .build(&dir.file(Library::Heuristic));
    let output = run(child(dir.path()), &["load:strict"]);
    let error = output.last_error("load");
    let reason = format!(
        "{:?} (set by CUDNN_LOADER_DIR) contains a libcudnn_heuristic.so.9 that is from a different release than the \
         libraries next to it, which lack 1 of the symbols that it needs, such as \"cudnn_of_another_release\"",
        dir.path()
    );
    assert!(error.contains(&reason) && error.contains("help: Run `cudnn-doctor check`"), "{error}");
    let output = run(child(dir.path()), &["load:"]);
    assert!(output.returned("load").unwrap().starts_with("9.19.0"), "{output:#?}");
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn a_real_library_of_another_release_fails_a_strict_load() {
    let ids = ["cu12-9.0.0", "cu12-9.10.2", "cu12-9.28.0"];
    for id in ids {
        let Some(release) = lib_dir(id) else { return };
        let output = run(child(&release), &["load:strict"]);
        assert!(!output.returned("load").unwrap().contains("CUDNN_STATUS"), "{id}: {output:#?}");
        for other in ids.into_iter().filter(|other| *other != id) {
            for library in [Library::Heuristic, Library::EnginesPrecompiled, Library::EnginesRuntimeCompiled] {
                let mixed = TempDir::links_to(&release);
                let foreign = lib_dir(other).unwrap().join(library.file_name());
                std::os::unix::fs::symlink(foreign, mixed.cleared(library)).unwrap();
                let output = run(child(mixed.path()), &["load:strict"]);
                let reason = format!("contains a {library} that is from a different release");
                assert!(output.last_error("load").contains(&reason), "{id} {other} {library}: {output:#?}");
            }
        }
    }
}

#[test]
fn an_invalid_variable_is_named_in_the_error_and_loads_no_library() {
    let good = graph_with("");
    for (value, fragment) in [
        (".", "is a relative path, which is never searched"),
        ("/nowhere/at/all", "\"/nowhere/at/all\" (set by CUDNN_LOADER_DIR) does not exist"),
        ("/with\nnewline", "\"/with\\nnewline\" (set by CUDNN_LOADER_DIR) does not exist"),
        ("/dev/null", "\"/dev/null\" (set by CUDNN_LOADER_DIR) is not a directory"),
        ("%s%n%s%n$ORIGIN", "is a relative path"),
    ] {
        let hostile = Child::bare(DRIVER).env(DIR_VARIABLE, value).env("LD_LIBRARY_PATH", good.path());
        let output = run(hostile, &["load:", "maps"]);
        let first_line = output.last_error("load").lines().next().unwrap_or_default().to_owned();
        assert!(first_line.contains("(set by CUDNN_LOADER_DIR)"), "{value:?}: {first_line}");
        assert!(output.last_error("load").contains(fragment), "{value:?}: {output:#?}");
        assert!(mapped(&output).is_empty(), "{value:?}: {output:#?}");
    }
    let long = format!("/{}", "x".repeat(60_000));
    let output = run(Child::bare(DRIVER).env(DIR_VARIABLE, &long), &["cudnnCreate"]);
    assert_eq!(output.returned("cudnnCreate"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"));
}

/// The program is in a directory like /tmp, where another user creates a link to a world-writable directory of root.
#[test]
fn code_that_another_user_planted_next_to_a_program_does_not_run() {
    if !cudnn_os::rights::is_root() {
        let test = "code_that_another_user_planted_next_to_a_program_does_not_run";
        return support::not_run(test, "only root can make files of other users");
    }
    let evil = graph_with("__attribute__((constructor)) static void run(void) { *(volatile int *)0 = 0; }");
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(evil.path(), 0o777);
    let shared = TempDir::new();
    let build = shared.path().join("build");
    std::fs::create_dir(&build).unwrap();
    // Copy it with `cp`, because a child that another thread of this process starts could inherit the open file.
    assert!(Command::new("cp").arg(DRIVER).arg(&build).status().unwrap().success());
    std::os::unix::fs::chown(&build, Some(65534), Some(65534)).unwrap();
    let link = shared.path().join("lib");
    std::os::unix::fs::symlink(evil.path(), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65533), Some(65533)).unwrap();
    mode(shared.path(), 0o1777);
    let output = Child::bare(build.join("driver")).without_privileges().run(&["?cudnnCreate"]);
    assert_eq!((output.code, output.returned("?cudnnCreate")), (Some(0), Some("false")), "{output:#?}");
}

#[test]
fn a_setuid_program_ignores_the_variables() {
    if support::is_emulated("a_setuid_program_ignores_the_variables", "an emulator ignores the set-user-ID bit") {
        return;
    }
    if !cudnn_os::rights::is_root() {
        support::not_run(
            "a_setuid_program_ignores_the_variables",
            "only root can make a program setuid for another user",
        );
        return;
    }
    let dir = graph_with("");
    let program = dir.path().join("driver");
    support::copy_program(DRIVER, &program);
    for command in [["chown", "65533"], ["chmod", "u+s"]] {
        assert!(Command::new(command[0]).arg(command[1]).arg(&program).status().unwrap().success());
    }
    let variables = |child: Child| child.env(DIR_VARIABLE, dir.path()).env("VIRTUAL_ENV", dir.path());
    let plain = run(variables(Child::bare(DRIVER)), &["load:"]);
    assert!(plain.returned("load").unwrap().starts_with("9.19.0"), "{plain:#?}");
    // A separate directory, so that the loader finds no cuDNN next to the program either.
    let apart = TempDir::new();
    let moved = apart.path().join("driver");
    std::fs::rename(&program, &moved).unwrap();
    let output = run(variables(Child::bare(&moved)).without_privileges(), &["load:"]);
    assert_eq!(output.returned("load"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"), "{output:#?}");
    assert!(!output.last_error("load").contains(&dir.path().display().to_string()), "{output:#?}");
}
