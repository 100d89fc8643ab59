//! The loader on real cuDNN, each test in a process of its own: what it loads and when, from where, and what it does
//! in a process that is not its own.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a test says so by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_loader::{DIR_VARIABLE, Function, SubLibrary, Version};
use cudnn_probe::Library;
use support::{Child, ChildOutput, FakeLibrary, Subject, TempDir, lib_dir};

const CALL: &str = env!("CARGO_BIN_EXE_call");
const JIT: Version = Version::new(9, 19, 0);

fn child(folder: &Path) -> Child {
    Child::new(CALL, Subject::Loader, folder)
}

/// Runs a child that must end by itself.
fn run(child: Child, words: &[&str]) -> ChildOutput {
    let ended = child.run(words);
    assert_eq!(ended.code, Some(0), "{words:?}: {ended:#?}");
    ended
}

/// The files of cuDNN's that were mapped whenever the child was asked, one after the other.
fn mapped(ended: &ChildOutput) -> Vec<PathBuf> {
    ended.stdout.lines().filter_map(|line| line.strip_prefix("mapped ")).map(PathBuf::from).collect()
}

/// The real graph library of a JIT wheel, with stand-ins for the libraries that such a wheel has not.
fn completed(jit: &Path) -> TempDir {
    let folder = TempDir::links_to(jit);
    for library in [Library::Ops, Library::Cnn, Library::Adv] {
        FakeLibrary::new(library, JIT).build(&folder.file(library));
    }
    folder
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

#[test]
fn every_function_has_the_name_and_the_signature_that_cudnn_sys_gives_it() {
    macro_rules! same {
        ($($library:ident { $(
            $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
            fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
        )* })*) => { $(
            #[allow(unused_imports, reason = "the types that the signatures need")]
            mod $library {
                use cudnn_sys::types::*;
                // Compiled, never run: nothing is linked here.
                $( const _: unsafe extern "C" fn($($type),*) -> $returns = cudnn_loader::$name; )*
                $( const _: unsafe extern "C" fn($($type),*) -> $returns = cudnn_loader::$library::$name; )*
                $( const _: unsafe extern "C" fn($($type),*) -> $returns = cudnn_sys::$name; )*
            }
        )* };
    }
    cudnn_sys::for_each_function!(same);
}

#[test]
fn nothing_is_loaded_before_the_first_call_and_then_only_what_it_needs() {
    let Some(folder) = lib_dir("jit-cu12-9.19.0") else { return };
    assert_eq!(mapped(&run(child(&folder), &["maps"])).len(), 0);
    let ended = run(child(&folder), &["cudnnGetVersion", "maps"]);
    assert_eq!(ended.returned("cudnnGetVersion"), Some("91900"));
    let graph = std::fs::canonicalize(folder.join("libcudnn_graph.so.9")).unwrap();
    assert_eq!(mapped(&ended), [graph]);
    // The functions that are served without cuDNN load none.
    assert_eq!(mapped(&run(child(&folder), &["cudnnGetErrorString", "cudnnGetLastErrorString", "maps"])).len(), 0);
    let complete = completed(&folder);
    let ended = run(child(complete.path()), &["cudnnDestroyConvolutionDescriptor", "maps"]);
    let names: Vec<String> =
        mapped(&ended).iter().filter_map(|file| Some(file.file_name()?.to_str()?.to_owned())).collect();
    for library in [Library::Graph, Library::Ops, Library::Cnn] {
        assert!(names.iter().any(|name| name.starts_with(library.file_name())), "{ended:#?}");
    }
    assert_eq!(names.len(), 3, "{ended:#?}");
}

#[test]
fn each_librarys_last_error_is_told_in_its_turn_and_once() {
    let Some(folder) = lib_dir("jit-cu12-9.19.0") else { return };
    let of_cudnn = "handle == __null";
    let of_ours = "cudnnDestroyTensorDescriptor (in libcudnn_ops.so.9 since cuDNN 9.0.0) cannot be called";
    let story_after = |words: &[&str]| {
        let ended = run(child(&folder), words);
        let (_, after) = ended.stdout.rsplit_once(" = ").unwrap();
        after.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()
    };
    for (words, wanted, unwanted) in [
        (&["~cudnnCreate", "last"][..], of_cudnn, of_ours),
        (&["~cudnnDestroyTensorDescriptor", "last"], of_ours, of_cudnn),
        (&["~cudnnCreate", "~cudnnDestroyTensorDescriptor", "last"], of_ours, of_cudnn),
        (&["~cudnnDestroyTensorDescriptor", "~cudnnCreate", "last"], of_cudnn, of_ours),
    ] {
        let story = story_after(words);
        assert!(story.contains(wanted) && !story.contains(unwanted), "{words:?}: {story}");
        let twice: Vec<&str> = words.iter().copied().chain(["last"]).collect();
        assert_eq!(story_after(&twice), story, "fetched, it is gone: {words:?}");
    }
    // It is the thread's own.
    assert_eq!(story_after(&["~cudnnDestroyTensorDescriptor", "last-of-other-thread"]), "");
}

#[test]
fn threads_that_race_open_each_library_once_and_lose_no_error() {
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

/// A good graph library, in C, of which the given code is a part.
fn graph_with(code: &str) -> TempDir {
    let folder = TempDir::new();
    FakeLibrary::new(Library::Graph, JIT).with_code(code).build(&folder.file(Library::Graph));
    folder
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
fn a_library_whose_constructor_calls_a_function_that_is_in_it_is_loaded() {
    let folder = graph_with(CALLS_BACK);
    let file = folder.file(Library::Graph);
    let ended = run(child(folder.path()), &[&format!("constructor:{}", file.display())]);
    for said in ["in the constructor: 91900", "in the other thread: 91900"] {
        assert!(ended.stdout.contains(said), "{ended:#?}");
    }
}

#[test]
fn a_child_forked_in_the_middle_of_a_first_call_makes_its_own() {
    let folder = graph_with(
        "int usleep(unsigned); __attribute__((constructor)) static void construct(void) { usleep(900000); }",
    );
    let ended = run(child(folder.path()), &["fork"]);
    for said in ["in the child: 91900", "the child ended with 0", "in the parent: 91900"] {
        assert!(ended.stdout.contains(said), "{ended:#?}");
    }
}

#[test]
fn a_first_call_in_a_thread_that_is_being_cancelled_is_made() {
    let folder = graph_with("");
    let ended = run(child(folder.path()), &["cancel"]);
    assert!(ended.stdout.contains("in the cancelled thread: 91900"), "{ended:#?}");
}

#[test]
fn a_cudnn_that_the_process_holds_is_known_by_the_name_that_it_gives_itself() {
    let held = graph_with("");
    let other = graph_with("");
    let found = || Child::bare(CALL).env("LD_LIBRARY_PATH", other.path());
    let wanted = format!("9.19.0 {:?} (already loaded in this process)", held.path());
    // A development link, and a file that a packager has renamed.
    for name in ["libcudnn_graph.so", "libcudnn_graph-1a2b3c.so.9.19.0", "bundled.bin"] {
        let file = held.path().join(name);
        std::fs::copy(held.file(Library::Graph), &file).unwrap();
        let ended = run(found(), &[&format!("open:{}", file.display()), "load:", "maps"]);
        assert_eq!(ended.returned("load"), Some(wanted.as_str()), "{name}: {ended:#?}");
        assert!(mapped(&ended).iter().all(|file| !file.starts_with(other.path())), "{name}: {ended:#?}");
    }
    // Found through a relative part of LD_LIBRARY_PATH: its path is relative to the linker.
    let relative =
        Child::bare(CALL).within(held.path()).env("LD_LIBRARY_PATH", ".").env("LD_PRELOAD", "libcudnn_graph.so.9");
    let ended = run(relative, &["cd:/", "load:"]);
    assert_eq!(ended.returned("load"), Some(wanted.as_str()), "{ended:#?}");
}

#[test]
fn a_cudnn_that_was_replaced_under_the_running_process_is_still_the_one_in_memory() {
    let held = graph_with("");
    FakeLibrary::new(Library::Ops, JIT).build(&held.file(Library::Ops));
    let update = TempDir::new();
    for library in [Library::Graph, Library::Ops] {
        FakeLibrary::new(library, Version::new(9, 28, 0)).build(&update.file(library));
    }
    // Opened by another spelling of its path, as a framework does.
    let spelling = format!("open:{}/../{}/libcudnn_graph.so.9", held.path().display(), held.name());
    let mut words = vec![spelling];
    for library in [Library::Graph, Library::Ops] {
        words.push(format!("remove:{}", held.file(library).display()));
        words.push(format!("copy:{},{}", update.file(library).display(), held.file(library).display()));
    }
    words.extend(["load:", "cudnnGetVersion", "@cudnnDestroyTensorDescriptor", "maps"].map(String::from));
    let ended = run(Child::bare(CALL), &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(ended.returned("load").unwrap().starts_with("9.19.0 "), "{ended:#?}");
    assert_eq!(ended.returned("cudnnGetVersion"), Some("91900"), "{ended:#?}");
    let mismatch = ended.returned("@cudnnDestroyTensorDescriptor");
    assert_eq!(mismatch, Some("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH (1002)"), "{ended:#?}");
    assert!(ended.last_error("@cudnnDestroyTensorDescriptor").contains("Start the program again"), "{ended:#?}");
}

#[test]
fn a_cudnn_that_somebody_loads_later_is_no_silent_second() {
    // The pinned one's graph cannot be opened; then another comes into the process.
    let bad = TempDir::new();
    FakeLibrary::new(Library::Graph, JIT).needing("libnowhere.so.1").build(&bad.file(Library::Graph));
    let good = graph_with("");
    let open = format!("open:{}", good.file(Library::Graph).display());
    let ended = run(child(bad.path()), &["~cudnnGetVersion", &open, "load:", "maps"]);
    assert!(ended.last_error("load").contains("which the process has loaded already"), "{ended:#?}");
    // The same with ops alone: the installation's own is not put beside it.
    let folder = completed_stand_ins();
    let foreign = completed_stand_ins();
    let open = format!("open:{}", foreign.file(Library::Ops).display());
    let ended = run(child(folder.path()), &["~cudnnGetVersion", &open, "@cudnnDestroyTensorDescriptor", "maps"]);
    assert!(ended.last_error("@cudnnDestroyTensorDescriptor").contains("already"), "{ended:#?}");
}

/// Stand-ins for graph and ops.
fn completed_stand_ins() -> TempDir {
    let folder = graph_with("");
    FakeLibrary::new(Library::Ops, JIT).build(&folder.file(Library::Ops));
    folder
}

#[test]
fn a_shim_without_libraries_beside_it_does_not_end_the_search() {
    let alone = TempDir::new();
    FakeLibrary::new(Library::Shim, JIT).build(&alone.file(Library::Shim));
    let good = graph_with("");
    let open = format!("open:{}", alone.file(Library::Shim).display());
    let ended = run(Child::bare(CALL).env("LD_LIBRARY_PATH", good.path()), &[&open, "load:"]);
    assert!(ended.returned("load").unwrap().starts_with("9.19.0 "), "{ended:#?}");
}

#[test]
fn a_cudnn_that_cannot_be_opened_does_not_stay_the_chosen_one() {
    let bad = TempDir::new();
    FakeLibrary::new(Library::Graph, JIT).needing("libnowhere.so.1").build(&bad.file(Library::Graph));
    let good = graph_with("");
    let there = || Child::bare(CALL).env("LD_LIBRARY_PATH", bad.path());
    let ended = run(there(), &["load:", &format!("load:path={}", good.path().display())]);
    assert!(ended.last_error("load").contains("needs libnowhere.so.1, which was not found"), "{ended:#?}");
    assert!(ended.stdout.contains("\nload = 9.19.0 "), "{ended:#?}");
}

#[test]
fn a_cudnn_that_the_process_holds_is_adopted() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let other = graph_with("");
    let venv = TempDir::new();
    let wheel = venv.path().join("lib/python3.12/site-packages/nvidia/cudnn/lib");
    std::fs::create_dir_all(&wheel).unwrap();
    std::fs::copy(other.file(Library::Graph), wheel.join("libcudnn_graph.so.9")).unwrap();
    let there = || Child::bare(CALL).env("VIRTUAL_ENV", venv.path());
    let theirs = format!("{:?} (already loaded in this process)", std::fs::canonicalize(&real).unwrap());
    // Without another in the process, the one in the environment is taken.
    let ended = run(there(), &["load:"]);
    assert!(ended.returned("load").unwrap().contains("the active virtual environment"), "{ended:#?}");
    for library in [Library::Graph, Library::Shim] {
        let open = format!("open:{}", real.join(library.file_name()).display());
        let ended = run(there(), &[&open, "load:", "cudnnGetVersion", "maps"]);
        assert_eq!(ended.returned("load"), Some(format!("9.19.0 {theirs}").as_str()), "{library}: {ended:#?}");
        assert!(mapped(&ended).iter().all(|file| !file.starts_with(venv.path())), "{library}: {ended:#?}");
    }
    let preloaded = there().env("LD_PRELOAD", real.join("libcudnn_graph.so.9"));
    let ended = run(preloaded, &["load:"]);
    assert_eq!(ended.returned("load"), Some(format!("9.19.0 {theirs}").as_str()), "{ended:#?}");
}

#[test]
fn a_cudnn_that_the_process_holds_and_that_does_not_serve_is_refused_and_no_second_one_loaded() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let open = format!("open:{}", real.join("libcudnn_graph.so.9").display());
    let other = graph_with("");
    let asked = format!("load:path={}", other.path().display());
    let loaded = format!("cannot be loaded beside cuDNN 9.19.0 of {real:?}, which the process has loaded already");
    let by_variable = Child::bare(CALL).env(DIR_VARIABLE, other.path());
    for ended in [run(by_variable, &[&open, "load:", "maps"]), run(Child::bare(CALL), &[&open, &asked, "maps"])] {
        assert_eq!(ended.returned("load"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"), "{ended:#?}");
        assert!(ended.last_error("load").contains(&loaded), "{ended:#?}");
        assert!(mapped(&ended).iter().all(|file| !file.starts_with(other.path())), "{ended:#?}");
    }
    let too_old = Child::bare(CALL).env("LD_LIBRARY_PATH", other.path());
    let ended = run(too_old, &[&open, "load:min=9.99.0"]);
    assert!(ended.last_error("load").contains("is cuDNN 9.19.0, and at least 9.99.0 is asked for"), "{ended:#?}");
}

#[test]
fn wishes_are_held_against_what_is_found_and_against_what_is_in_use() {
    let (Some(cu12), Some(cu13)) = (lib_dir("jit-cu12-9.19.0"), lib_dir("jit-cu13-9.27.0")) else { return };
    let both = std::env::join_paths([&cu12, &cu13]).unwrap();
    let there = || Child::bare(CALL).env("LD_LIBRARY_PATH", &both);
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
fn a_function_newer_than_the_installation_says_since_when_it_is() {
    let Some(folder) = lib_dir("jit-cu12-9.19.0") else { return };
    let newer: Vec<&Function> = Function::ALL.iter().filter(|function| function.since() > JIT).collect();
    assert!(!newer.is_empty());
    for function in newer {
        let ended = run(child(&folder), &[function.name()]);
        let story = ended.last_error(function.name());
        assert_eq!(ended.returned(function.name()), Some("CUDNN_STATUS_NOT_SUPPORTED (3000)"), "{ended:#?}");
        for words in
            [&format!("{function} (in"), "is 9.19.0, and too old for it", &format!("cuDNN {}", function.since())]
        {
            assert!(story.contains(words), "{words}: {story}");
        }
    }
}

#[test]
fn engines_come_from_the_pinned_folder_also_where_the_library_path_names_another() {
    // A graph library that opens an engine by its bare name, as the real one does, and tells where it got it from.
    let folder = graph_with(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n
        int cudnnDestroy(void *handle) {
            Dl_info info;
            // As the real one: what is loaded under the short name, then four names in turn.
            const char *names[] = { \"libcudnn_heuristic.so.9.19.0\", \"libcudnn_heuristic.so.9.19\",
                                    \"libcudnn_heuristic.so.9\", \"libcudnn_heuristic.so\" };
            void *engine = dlopen(names[2], RTLD_NOW | RTLD_NOLOAD);
            for (int i = 0; i < 4 && !engine; i++) engine = dlopen(names[i], RTLD_NOW);
            if (!engine || !dladdr(dlsym(engine, \"mark\"), &info)) return 1;
            dprintf(2, \"engine from %s\\n\", info.dli_fname);
            return 0;
        }",
    );
    let elsewhere = TempDir::new();
    for place in [&folder, &elsewhere] {
        FakeLibrary::new(Library::Heuristic, JIT).with_code("int mark;").build(&place.file(Library::Heuristic));
    }
    let full_name = TempDir::new();
    let copy = full_name.path().join("libcudnn_heuristic.so.9.19.0");
    std::fs::copy(elsewhere.file(Library::Heuristic), copy).unwrap();
    let said = format!("engine from {}", folder.file(Library::Heuristic).display());
    let elsewhere_second = format!("/nowhere;{}", elsewhere.path().display());
    for path in ["", &elsewhere_second, &folder.path().display().to_string(), &full_name.path().display().to_string()] {
        let ended = run(child(folder.path()).env("LD_LIBRARY_PATH", path), &["cudnnDestroy"]);
        assert!(ended.stderr.contains(&said), "{path:?}: {ended:#?}");
    }
}

#[test]
fn an_engine_of_another_cuda_major_is_refused_also_when_it_comes_from_elsewhere() {
    // 12.9, as the graph library says of itself; the engine's GPU code is of CUDA 13.
    let folder = graph_with("unsigned long cudnnGetCudartVersion(void) { return 12090; }");
    let elsewhere = TempDir::new();
    FakeLibrary::new(Library::EnginesPrecompiled, JIT).with_ptx(9).build(&elsewhere.file(Library::EnginesPrecompiled));
    let ended = run(child(folder.path()).env("LD_LIBRARY_PATH", elsewhere.path()), &["cudnnDestroy"]);
    let mismatch = Some("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH (1002)");
    assert_eq!(ended.returned("cudnnDestroy"), mismatch, "{ended:#?}");
    assert!(ended.last_error("cudnnDestroy").contains("is built for CUDA 13 beside"), "{ended:#?}");
    // One of another minor release could not be loaded: it is no reason to refuse what works.
    FakeLibrary::new(Library::Graph, Version::new(9, 14, 0)).build(&elsewhere.file(Library::Graph));
    let ended = run(child(folder.path()).env("LD_LIBRARY_PATH", elsewhere.path()), &["cudnnDestroy"]);
    assert_eq!(ended.returned("cudnnDestroy"), Some("CUDNN_STATUS_SUCCESS (0)"), "{ended:#?}");
}

#[cfg(feature = "full-releases")]
#[test]
fn the_real_graph_library_gets_the_pinned_engines() {
    let (Some(real), Some(other)) = (lib_dir("cu12-9.10.2"), lib_dir("cu12-9.0.0")) else { return };
    let shadow = TempDir::new();
    for library in Library::OPENED_BY_GRAPH {
        let engine = other.join(library.file_name());
        if engine.exists() {
            std::os::unix::fs::symlink(&engine, shadow.file(*library)).unwrap();
            let full_name = shadow.path().join(format!("{library}.10.2"));
            std::os::unix::fs::symlink(engine, full_name).unwrap();
        }
    }
    let plan = concat!("plan:", env!("CARGO_MANIFEST_DIR"), "/../cudnn-loader/examples/plan_without_gpu/h200.json");
    let ended = run(child(&real).env("LD_LIBRARY_PATH", shadow.path()), &[plan, "maps"]);
    assert!(ended.returned("plan").unwrap().ends_with(" configurations"), "{ended:#?}");
    let real = std::fs::canonicalize(real).unwrap();
    let mapped = mapped(&ended);
    assert!(mapped.len() > 3 && mapped.iter().all(|file| file.starts_with(&real)), "{mapped:#?}");
}

#[test]
fn a_setuid_program_ignores_the_variables() {
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        support::not_run("a_setuid_program_ignores_the_variables", "only root can make a program setuid for another");
        return;
    }
    let folder = graph_with("");
    let program = folder.path().join("call");
    std::fs::copy(CALL, &program).unwrap();
    for command in [["chown", "65533"], ["chmod", "u+s"]] {
        assert!(Command::new(command[0]).arg(command[1]).arg(&program).status().unwrap().success());
    }
    let variables = |child: Child| child.env(DIR_VARIABLE, folder.path()).env("VIRTUAL_ENV", folder.path());
    let plain = run(variables(Child::bare(CALL)), &["load:"]);
    assert!(plain.returned("load").unwrap().starts_with("9.19.0"), "{plain:#?}");
    // In a folder of its own, so that what lies beside the program is not found either.
    let apart = TempDir::new();
    let moved = apart.path().join("call");
    std::fs::rename(&program, &moved).unwrap();
    let ended = run(variables(Child::bare(&moved)).without_privileges(), &["load:"]);
    assert_eq!(ended.returned("load"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"), "{ended:#?}");
    assert!(!ended.last_error("load").contains(&folder.path().display().to_string()), "{ended:#?}");
}

#[test]
fn a_hostile_variable_is_an_error_that_names_it_and_nothing_else_is_loaded() {
    let good = graph_with("");
    for (value, words) in [
        (".", "is a relative path, which is never searched"),
        ("/nowhere/at/all", "\"/nowhere/at/all\" (given by CUDNN_LOADER_DIR) is absent"),
        ("/with\nnewline", "\"/with\\nnewline\" (given by CUDNN_LOADER_DIR) is absent"),
        ("/dev/null", "\"/dev/null\" (given by CUDNN_LOADER_DIR) is absent"),
        ("%s%n%s%n$ORIGIN", "is a relative path"),
    ] {
        let hostile = Child::bare(CALL).env(DIR_VARIABLE, value).env("LD_LIBRARY_PATH", good.path());
        let ended = run(hostile, &["load:", "maps"]);
        assert!(ended.last_error("load").contains(words), "{value:?}: {ended:#?}");
        assert!(mapped(&ended).is_empty(), "{value:?}: {ended:#?}");
    }
    let long = format!("/{}", "x".repeat(60_000));
    let ended = run(Child::bare(CALL).env(DIR_VARIABLE, &long), &["cudnnCreate"]);
    assert_eq!(ended.returned("cudnnCreate"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"));
}

/// The steps of a preload that the child printed, with what came of each.
fn steps(ended: &ChildOutput) -> Vec<(String, String)> {
    let step = |line: &str| {
        let (step, outcome) = line.strip_prefix("step ")?.split_once(" = ")?;
        Some((step.to_owned(), outcome.to_owned()))
    };
    ended.stdout.lines().filter_map(step).collect()
}

#[test]
fn a_preload_loads_what_there_is_and_registers_the_engines_without_a_device() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    for wishes in ["preload:engines", "preload:engines,background", "preload:engines,twice"] {
        let ended = run(child(&real), &[wishes, "maps", "cudnnGetVersion"]);
        let steps = steps(&ended);
        let of = |name: &str| -> Vec<&str> {
            steps.iter().filter(|(step, _)| step == name).map(|(_, outcome)| outcome.as_str()).collect()
        };
        let count = if wishes.contains("twice") { 2 } else { 1 };
        for step in ["find cuDNN", "load libcudnn_graph.so.9", "register engines"] {
            assert_eq!(of(step), vec!["done"; count], "{ended:#?}");
        }
        assert!(of("load libcudnn_ops.so.9").iter().all(|outcome| outcome.starts_with("left out")), "{ended:#?}");
        let engines = mapped(&ended).iter().any(|file| file.ends_with("libcudnn_engines_runtime_compiled.so.9"));
        assert!(engines, "{ended:#?}");
        assert_eq!(ended.returned("cudnnGetVersion"), Some("91900"));
    }
}

#[test]
fn a_preload_that_fails_says_where_and_leaves_the_rest_as_usable_as_before() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let folder = completed(&real);
    std::fs::write(folder.cleared(Library::Cnn), "not a library").unwrap();
    let words = ["preload:", "cudnnDestroyTensorDescriptor", "cudnnDestroyConvolutionDescriptor"];
    let ended = run(child(folder.path()), &words);
    let word = ended.returned("preload").unwrap_or_default();
    assert!(word.starts_with("failed at load libcudnn_cnn.so.9"), "{ended:#?}");
    assert_eq!(ended.returned("cudnnDestroyTensorDescriptor"), Some("CUDNN_STATUS_SUCCESS (0)"), "{ended:#?}");
    assert!(ended.last_error("cudnnDestroyConvolutionDescriptor").contains("is not an ELF file"), "{ended:#?}");

    if !Path::new("/proc/driver/nvidia/version").exists() {
        let ended = run(child(&real), &["preload:context,engines", "cudnnGetVersion"]);
        let word = ended.returned("preload").unwrap_or_default();
        assert!(word.starts_with("failed at start the driver") && word.contains("libcuda.so.1"), "{ended:#?}");
        assert_eq!(ended.returned("cudnnGetVersion"), Some("91900"));
    }
    let ended = run(Child::bare(CALL).env(DIR_VARIABLE, "/nowhere"), &["preload:engines"]);
    assert!(ended.returned("preload").unwrap_or_default().starts_with("failed at find cuDNN"), "{ended:#?}");
}

/// Before 9.8 there is no planning without a device; where cuBLASLt is missing, cuDNN would end the process.
#[cfg(feature = "full-releases")]
#[test]
fn engines_are_left_out_where_registering_them_is_not_possible_or_not_safe() {
    for (id, outcome) in [
        ("cu12-9.0.0", "left out: this cuDNN is 9.0.0"),
        ("cu12-9.10.2", "done"),
        ("cu12-9.28.0", "left out: libcublasLt.so.12"),
    ] {
        let Some(real) = lib_dir(id) else { return };
        let ended = run(child(&real), &["preload:engines"]);
        let engines = steps(&ended).into_iter().find(|(step, _)| step == "register engines").unwrap();
        assert!(engines.1.starts_with(outcome), "{id}: {ended:#?}");
        assert_eq!(ended.returned("preload"), Some("done"), "{id}: {ended:#?}");
    }
}

#[test]
fn cudnns_log_comes_to_a_closure_read_and_its_panics_are_contained() {
    for id in ["jit-cu12-9.19.0", "jit-cu13-9.27.0"] {
        let Some(real) = lib_dir(id) else { return };
        for word in ["log", "log:panic"] {
            let ended = run(child(&real), &[word, "~cudnnBackendFinalize", "check", "cudnnGetVersion"]);
            assert_eq!(ended.returned("log"), Some("Ok(())"), "{ended:#?}");
            let has = |text: &str| ended.stdout.lines().any(|line| line.starts_with(text));
            assert!(has("event info: cudnnBackendFinalize(descriptor=NULL_PTR): 0 Some("), "{ended:#?}");
            let error =
                "event error: cudnnBackendFinalize: CUDNN_STATUS_BAD_PARAM_NULL_POINTER: nullptr == descriptor: 2002";
            assert!(has(error), "{ended:#?}");
            // cuDNN leaves the device undefined where there is no handle.
            assert!(ended.stdout.lines().filter(|line| line.starts_with("event")).all(|line| line.ends_with("None")));
            assert!(ended.returned("cudnnGetVersion").is_some_and(|version| version != "0"), "{ended:#?}");
        }
    }
}

#[test]
fn a_checked_call_says_what_failed_in_cudnns_words_or_in_the_loaders() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let ended = run(child(&real), &["check"]);
    assert_eq!(
        ended.returned("check"),
        Some(
            "cudnnBackendFinalize gave CUDNN_STATUS_BAD_PARAM_NULL_POINTER (2002): nullptr == descriptor; category \
             CUDNN_STATUS_BAD_PARAM (2000)"
        ),
        "{ended:#?}"
    );
    let ended = run(Child::bare(CALL).env(DIR_VARIABLE, "/nowhere"), &["check"]);
    assert!(
        ended.stdout.contains("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008): cudnnBackendFinalize (in "),
        "{ended:#?}"
    );
    assert!(ended.stdout.contains("What to do: "), "{ended:#?}");
}
