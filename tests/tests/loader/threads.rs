//! First calls from several threads at once, from static constructors, and in cancelled threads.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cudnn_loader::{Function, SubLibrary};
use cudnn_probe::Library;
use support::{TempDir, lib_dir};

use super::{JIT, child, completed, graph_with, run};

#[test]
fn racing_threads_open_each_library_once_and_lose_no_error() {
    let Some(jit) = lib_dir("jit-cu12-9.19.0") else { return };
    let complete = completed(&jit);
    let witness = dlopen_witness(&complete);
    for round in 0..10 {
        for folder in [jit.as_path(), complete.path()] {
            let ended = run(child(folder).env("LD_PRELOAD", &witness), &["race"]);
            let case = format!("round {round}: {ended:#?}");
            let said = ended.returned("race").unwrap_or_default();
            assert!(said.ends_with(" 0 wrong"), "{case}");
            let found = Function::ALL
                .iter()
                .filter(|function| folder.join(function.library().file_name()).exists())
                .filter(|function| function.since() <= JIT)
                .count();
            assert!(said.starts_with(&format!("{} found, ", found * 64)), "{case}");
            let mut opens = BTreeMap::<&str, u32>::new();
            for file in ended.stderr.lines().filter_map(|line| line.strip_prefix("opens ")) {
                *opens.entry(file).or_default() += 1;
            }
            let expected = SubLibrary::ALL.iter().copied().filter(|library| folder.join(library.file_name()).exists());
            assert_eq!(opens.len(), expected.count(), "{case}");
            assert!(opens.values().all(|times| *times == 1), "{case}");
        }
    }
}

/// A library to preload that writes down every library that is opened.
fn dlopen_witness(folder: &TempDir) -> PathBuf {
    let file = folder.path().join("libwitness.so");
    let code = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n
        void *dlopen(const char *file, int flags) {
            void *(*real)(const char *, int) = dlsym(RTLD_NEXT, \"dlopen\");
            if (file && !(flags & RTLD_NOLOAD)) dprintf(2, \"opens %s\\n\", file);
            return real(file, flags);
        }";
    support::compile(code, &["-shared", "-fPIC"], &file);
    file
}

const CALLS_BACK: &str = "
    char *getenv(const char *);
    unsigned long strtoul(const char *, char **, int);
    __attribute__((constructor)) static void construct(void) {
        const char *callback = getenv(\"CALLBACK\");
        if (callback) ((void (*)(void))strtoul(callback, 0, 10))();
    }";

#[test]
fn a_first_call_from_a_static_constructor_does_not_deadlock_with_one_from_another_thread() {
    let folder = graph_with("");
    let library = folder.path().join("libclient.so");
    support::compile(CALLS_BACK, &["-shared", "-fPIC"], &library);
    let ended = run(child(folder.path()), &[&format!("constructor:{}", library.display())]);
    for said in ["in the constructor: 91900", "in the other thread: 91900"] {
        assert!(ended.stdout.contains(said), "{ended:#?}");
    }
}

#[test]
fn a_library_whose_constructor_calls_its_own_functions_loads() {
    let folder = graph_with(CALLS_BACK);
    let file = folder.file(Library::Graph);
    let ended = run(child(folder.path()), &[&format!("constructor:{}", file.display())]);
    for said in ["in the constructor: 91900", "in the other thread: 91900"] {
        assert!(ended.stdout.contains(said), "{ended:#?}");
    }
}

#[test]
fn a_first_call_in_a_cancelled_thread_completes() {
    let folder = graph_with("");
    let ended = run(child(folder.path()), &["cancel"]);
    assert!(ended.stdout.contains("in the cancelled thread: 91900"), "{ended:#?}");
}
