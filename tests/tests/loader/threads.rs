//! Makes first calls from several threads at once, from static constructors, and in cancelled threads.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cudnn_loader::{Function, Library};
use support::{Share, TempDir, lib_dir};

use super::{JIT, child, complete_jit, graph_with, run};

#[test]
fn racing_threads_open_every_library_once_and_lose_no_errors() {
    let Some(jit) = lib_dir("jit-cu12-9.19.0") else { return };
    let complete = complete_jit(&jit);
    let tracer = dlopen_tracer(&complete);
    // A thread waits at most one second for another thread's attempt.
    let may_open_again = support::is_emulated("libraries are opened once", "an emulator takes seconds to open one");
    for round in (0..10).share(3) {
        for dir in [jit.as_path(), complete.path()] {
            let output = run(child(dir).env("LD_PRELOAD", &tracer), &["race"]);
            let case = format!("round {round}: {output:#?}");
            let text = output.returned("race").unwrap_or_default();
            assert!(text.ends_with(" 0 wrong"), "{case}");
            let found = Function::ALL
                .iter()
                .filter(|function| dir.join(function.library().file_name()).exists())
                .filter(|function| function.since() <= JIT)
                .count();
            assert!(text.starts_with(&format!("{} found, ", found * 64)), "{case}");
            let mut opens = BTreeMap::<&str, u32>::new();
            for file in output.stderr.lines().filter_map(|line| line.strip_prefix("opens ")) {
                *opens.entry(file).or_default() += 1;
            }
            // Functions that may plan also open the engines.
            let libraries = Library::WITH_API.iter().chain(Library::OPENED_BY_GRAPH);
            let expected = libraries.filter(|library| dir.join(library.file_name()).exists());
            assert_eq!(opens.len(), expected.count(), "{case}");
            assert!(may_open_again || opens.values().all(|times| *times == 1), "{case}");
        }
    }
}

/// Builds a library for LD_PRELOAD that prints every library that the program opens.
fn dlopen_tracer(dir: &TempDir) -> PathBuf {
    let file = dir.path().join("libtracer.so");
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
    let dir = graph_with("");
    let library = dir.path().join("libclient.so");
    support::compile(CALLS_BACK, &["-shared", "-fPIC"], &library);
    let output = run(child(dir.path()), &[&format!("constructor:{}", library.display())]);
    for text in ["in the constructor: 91900", "in the other thread: 91900"] {
        assert!(output.stdout.contains(text), "{output:#?}");
    }
}

#[test]
fn a_library_whose_constructor_calls_its_own_functions_loads() {
    let dir = graph_with(CALLS_BACK);
    let file = dir.file(Library::Graph);
    let output = run(child(dir.path()), &[&format!("constructor:{}", file.display())]);
    for text in ["in the constructor: 91900", "in the other thread: 91900"] {
        assert!(output.stdout.contains(text), "{output:#?}");
    }
}

/// The loader opens the library itself, so it must not hold a lock of its own.
#[test]
fn a_first_call_from_a_constructor_of_cudnn_does_not_deadlock() {
    let output = run(child(graph_with(CALLS_BACK).path()), &["constructor:"]);
    for text in ["in the constructor: 91900", "in the other thread: 91900", "in the first call: 91900"] {
        assert!(output.stdout.contains(text), "{output:#?}");
    }
}

#[test]
fn a_first_call_in_a_cancelled_thread_completes() {
    let dir = graph_with("");
    let output = run(child(dir.path()), &["cancel"]);
    assert!(output.stdout.contains("in the cancelled thread: 91900"), "{output:#?}");
}
