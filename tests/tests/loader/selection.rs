//! Which installation the loader selects: options, environment variables, and what happens after a failure.

use std::process::Command;

use cudnn_loader::DIR_VARIABLE;
use cudnn_probe::Library;
use support::{Child, FakeLibrary, TempDir, lib_dir};

use super::{DRIVER, JIT, child, completed, graph_with, mapped, run};

#[test]
fn options_are_checked_against_candidates_and_against_the_active_installation() {
    let (Some(cu12), Some(cu13)) = (lib_dir("jit-cu12-9.19.0"), lib_dir("jit-cu13-9.27.0")) else { return };
    let both = std::env::join_paths([&cu12, &cu13]).unwrap();
    let there = || Child::bare(DRIVER).env("LD_LIBRARY_PATH", &both);
    for (wishes, found) in [
        ("load:", "9.19.0"),
        ("load:min=9.20.0", "9.27.0"),
        ("load:cuda=13", "9.27.0"),
        ("load:cuda=12,min=9.19.0,strict", "9.19.0"),
    ] {
        let ended = run(there(), &[wishes]);
        assert!(ended.returned("load").unwrap().starts_with(found), "{wishes}: {ended:#?}");
    }
    for (wishes, words) in [
        ("load:min=9.28.0", "is cuDNN 9.27.0, and at least 9.28.0 is asked for"),
        ("load:cuda=13,min=9.27.1", "What to do: Install cuDNN 9.27.1 or newer."),
        ("load:cuda=11", "is built for CUDA 12, and CUDA 11 is asked for"),
    ] {
        let ended = run(there(), &[wishes]);
        assert_eq!(ended.returned("load"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"), "{ended:#?}");
        assert!(ended.last_error("load").contains(words), "{wishes}: {ended:#?}");
    }
    // The first use decides; later wishes do not change it, and one that it does not meet is an error.
    let ended = run(there(), &["~cudnnGetVersion", "load:min=9.20.0"]);
    assert!(ended.stdout.contains("cudnnGetVersion = 91900"), "{ended:#?}");
    assert!(ended.last_error("load").contains("the cuDNN in use, in "), "{ended:#?}");
    // All wishes are, also those that only the loaded library can tell of.
    for wishes in ["load:cuda=13", &format!("load:path={}", cu13.display())] {
        let ended = run(child(&cu12), &["~cudnnGetVersion", wishes]);
        assert!(ended.last_error("load").contains("the cuDNN in use, in "), "{wishes}: {ended:#?}");
    }
    let only_in_memory = graph_with("unsigned long cudnnGetCudartVersion(void) { return 12090; }");
    let ended = run(child(only_in_memory.path()), &["~cudnnGetVersion", "load:cuda=13"]);
    assert!(ended.last_error("load").contains("is built for CUDA 12, and CUDA 13 is asked for"), "{ended:#?}");
    // A failure is not for good: asking again searches again.
    let ended = run(there(), &["load:min=9.28.0", "~cudnnGetVersion", "load:cuda=13", "cudnnGetVersion"]);
    assert!(ended.stdout.contains("load = 9.27.0"), "{ended:#?}");
}

#[test]
fn a_cudnn_that_cannot_be_opened_does_not_stay_selected() {
    let bad = TempDir::new();
    FakeLibrary::new(Library::Graph, JIT).needing("libnowhere.so.1").build(&bad.file(Library::Graph));
    let good = graph_with("");
    let there = || Child::bare(DRIVER).env("LD_LIBRARY_PATH", bad.path());
    let ended = run(there(), &["load:", &format!("load:path={}", good.path().display())]);
    assert!(ended.last_error("load").contains("needs libnowhere.so.1, which was not found"), "{ended:#?}");
    assert!(ended.stdout.contains("\nload = 9.19.0 "), "{ended:#?}");
}

#[test]
fn a_damaged_library_fails_a_strict_load_and_otherwise_only_its_own_functions() {
    let Some(jit) = lib_dir("jit-cu12-9.19.0") else { return };
    let folder = completed(&jit);
    std::fs::write(folder.cleared(Library::Adv), "no library").unwrap();
    let ended = run(child(folder.path()), &["load:strict"]);
    assert!(ended.last_error("load").contains("is not an ELF file"), "{ended:#?}");
    let ended = run(child(folder.path()), &["~cudnnGetVersion", "load:strict"]);
    assert!(ended.last_error("load").contains("is not an ELF file"), "{ended:#?}");
    let ended = run(child(folder.path()), &["load:", "@cudnnDestroyTensorDescriptor", "@cudnnDestroyRNNDescriptor"]);
    assert_eq!(ended.returned("@cudnnDestroyTensorDescriptor"), Some("resolved"), "{ended:#?}");
    assert_eq!(
        ended.returned("@cudnnDestroyRNNDescriptor"),
        Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"),
        "{ended:#?}"
    );
}

#[test]
fn a_hostile_variable_gives_an_error_that_names_it_and_loads_nothing() {
    let good = graph_with("");
    for (value, words) in [
        (".", "is a relative path, which is never searched"),
        ("/nowhere/at/all", "\"/nowhere/at/all\" (given by CUDNN_LOADER_DIR) is absent"),
        ("/with\nnewline", "\"/with\\nnewline\" (given by CUDNN_LOADER_DIR) is absent"),
        ("/dev/null", "\"/dev/null\" (given by CUDNN_LOADER_DIR) is absent"),
        ("%s%n%s%n$ORIGIN", "is a relative path"),
    ] {
        let hostile = Child::bare(DRIVER).env(DIR_VARIABLE, value).env("LD_LIBRARY_PATH", good.path());
        let ended = run(hostile, &["load:", "maps"]);
        assert!(ended.last_error("load").contains(words), "{value:?}: {ended:#?}");
        assert!(mapped(&ended).is_empty(), "{value:?}: {ended:#?}");
    }
    let long = format!("/{}", "x".repeat(60_000));
    let ended = run(Child::bare(DRIVER).env(DIR_VARIABLE, &long), &["cudnnCreate"]);
    assert_eq!(ended.returned("cudnnCreate"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"));
}

#[test]
fn a_setuid_program_ignores_the_variables() {
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        support::not_run("a_setuid_program_ignores_the_variables", "only root can make a program setuid for another");
        return;
    }
    let folder = graph_with("");
    let program = folder.path().join("driver");
    std::fs::copy(DRIVER, &program).unwrap();
    for command in [["chown", "65533"], ["chmod", "u+s"]] {
        assert!(Command::new(command[0]).arg(command[1]).arg(&program).status().unwrap().success());
    }
    let variables = |child: Child| child.env(DIR_VARIABLE, folder.path()).env("VIRTUAL_ENV", folder.path());
    let plain = run(variables(Child::bare(DRIVER)), &["load:"]);
    assert!(plain.returned("load").unwrap().starts_with("9.19.0"), "{plain:#?}");
    // In a folder of its own, so that what lies beside the program is not found either.
    let apart = TempDir::new();
    let moved = apart.path().join("driver");
    std::fs::rename(&program, &moved).unwrap();
    let ended = run(variables(Child::bare(&moved)).without_privileges(), &["load:"]);
    assert_eq!(ended.returned("load"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"), "{ended:#?}");
    assert!(!ended.last_error("load").contains(&folder.path().display().to_string()), "{ended:#?}");
}
