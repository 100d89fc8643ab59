//! The loader in a process that has already loaded a cuDNN: it adopts that one or refuses, and never adds a second.

use cudnn_loader::{DIR_VARIABLE, Version};
use cudnn_probe::Library;
use support::{Child, FakeLibrary, TempDir, lib_dir};

use super::{DRIVER, JIT, child, graph_with, mapped, run};

#[test]
fn a_loaded_cudnn_is_adopted() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let other = graph_with("");
    let venv = TempDir::new();
    let wheel = venv.path().join("lib/python3.12/site-packages/nvidia/cudnn/lib");
    std::fs::create_dir_all(&wheel).unwrap();
    std::fs::copy(other.file(Library::Graph), wheel.join("libcudnn_graph.so.9")).unwrap();
    let there = || Child::bare(DRIVER).env("VIRTUAL_ENV", venv.path());
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
fn a_loaded_cudnn_is_recognised_by_its_soname() {
    let held = graph_with("");
    let other = graph_with("");
    let found = || Child::bare(DRIVER).env("LD_LIBRARY_PATH", other.path());
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
        Child::bare(DRIVER).within(held.path()).env("LD_LIBRARY_PATH", ".").env("LD_PRELOAD", "libcudnn_graph.so.9");
    let ended = run(relative, &["cd:/", "load:"]);
    assert_eq!(ended.returned("load"), Some(wanted.as_str()), "{ended:#?}");
}

#[test]
fn a_loaded_cudnn_that_does_not_fit_is_refused_and_no_second_one_is_loaded() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let open = format!("open:{}", real.join("libcudnn_graph.so.9").display());
    let other = graph_with("");
    let asked = format!("load:path={}", other.path().display());
    let loaded = format!("cannot be loaded beside cuDNN 9.19.0 of {real:?}, which the process has loaded already");
    let by_variable = Child::bare(DRIVER).env(DIR_VARIABLE, other.path());
    for ended in [run(by_variable, &[&open, "load:", "maps"]), run(Child::bare(DRIVER), &[&open, &asked, "maps"])] {
        assert_eq!(ended.returned("load"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"), "{ended:#?}");
        assert!(ended.last_error("load").contains(&loaded), "{ended:#?}");
        assert!(mapped(&ended).iter().all(|file| !file.starts_with(other.path())), "{ended:#?}");
    }
    let too_old = Child::bare(DRIVER).env("LD_LIBRARY_PATH", other.path());
    let ended = run(too_old, &[&open, "load:min=9.99.0"]);
    assert!(ended.last_error("load").contains("is cuDNN 9.19.0, and at least 9.99.0 is asked for"), "{ended:#?}");
}

#[test]
fn a_cudnn_whose_files_were_replaced_keeps_the_version_in_memory() {
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
    let ended = run(Child::bare(DRIVER), &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(ended.returned("load").unwrap().starts_with("9.19.0 "), "{ended:#?}");
    assert_eq!(ended.returned("cudnnGetVersion"), Some("91900"), "{ended:#?}");
    let mismatch = ended.returned("@cudnnDestroyTensorDescriptor");
    assert_eq!(mismatch, Some("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH (1002)"), "{ended:#?}");
    assert!(ended.last_error("@cudnnDestroyTensorDescriptor").contains("Start the program again"), "{ended:#?}");
}

#[test]
fn a_cudnn_that_is_loaded_later_is_not_silently_mixed_in() {
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
fn a_loaded_shim_without_libraries_beside_it_does_not_end_the_search() {
    let alone = TempDir::new();
    FakeLibrary::new(Library::Shim, JIT).build(&alone.file(Library::Shim));
    let good = graph_with("");
    let open = format!("open:{}", alone.file(Library::Shim).display());
    let ended = run(Child::bare(DRIVER).env("LD_LIBRARY_PATH", good.path()), &[&open, "load:"]);
    assert!(ended.returned("load").unwrap().starts_with("9.19.0 "), "{ended:#?}");
}
