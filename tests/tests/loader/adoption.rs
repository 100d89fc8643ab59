//! Tests the loader in a process with a loaded cuDNN, which it adopts or rejects, but never loads a second one.

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
    // In a process without cuDNN, the loader selects the installation from the environment.
    let output = run(there(), &["load:"]);
    assert!(output.returned("load").unwrap().contains("active virtual environment"), "{output:#?}");
    for library in [Library::Graph, Library::Shim] {
        let open = format!("open:{}", real.join(library.file_name()).display());
        let output = run(there(), &[&open, "load:", "cudnnGetVersion", "maps"]);
        assert_eq!(output.returned("load"), Some(format!("9.19.0 {theirs}").as_str()), "{library}: {output:#?}");
        assert!(mapped(&output).iter().all(|file| !file.starts_with(venv.path())), "{library}: {output:#?}");
    }
    let preloaded = there().env("LD_PRELOAD", real.join("libcudnn_graph.so.9"));
    let output = run(preloaded, &["load:"]);
    assert_eq!(output.returned("load"), Some(format!("9.19.0 {theirs}").as_str()), "{output:#?}");
}

#[test]
fn a_loaded_cudnn_is_recognized_by_its_soname() {
    let loaded = graph_with("");
    let other = graph_with("");
    let found = || Child::bare(DRIVER).env("LD_LIBRARY_PATH", other.path());
    let wanted = format!("9.19.0 {:?} (already loaded in this process)", loaded.path());
    // A development symlink, and files that a packager renamed.
    for name in ["libcudnn_graph.so", "libcudnn_graph-1a2b3c.so.9.19.0", "bundled.bin"] {
        let file = loaded.path().join(name);
        std::fs::copy(loaded.file(Library::Graph), &file).unwrap();
        let output = run(found(), &[&format!("open:{}", file.display()), "load:", "maps"]);
        assert_eq!(output.returned("load"), Some(wanted.as_str()), "{name}: {output:#?}");
        assert!(mapped(&output).iter().all(|file| !file.starts_with(other.path())), "{name}: {output:#?}");
    }
    // ld.so finds the library through a relative entry of LD_LIBRARY_PATH, so it reports a relative path.
    let relative =
        Child::bare(DRIVER).within(loaded.path()).env("LD_LIBRARY_PATH", ".").env("LD_PRELOAD", "libcudnn_graph.so.9");
    let output = run(relative, &["cd:/", "load:"]);
    assert_eq!(output.returned("load"), Some(wanted.as_str()), "{output:#?}");
}

#[test]
fn a_loaded_cudnn_that_does_not_fit_is_rejected_and_no_second_one_is_loaded() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let open = format!("open:{}", real.join("libcudnn_graph.so.9").display());
    let other = graph_with("");
    let asked = format!("load:path={}", other.path().display());
    let loaded = format!("cannot be loaded: the process has already loaded cuDNN 9.19.0 from {real:?}");
    let by_variable = Child::bare(DRIVER).env(DIR_VARIABLE, other.path());
    for output in [run(by_variable, &[&open, "load:", "maps"]), run(Child::bare(DRIVER), &[&open, &asked, "maps"])] {
        assert_eq!(output.returned("load"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"), "{output:#?}");
        assert!(output.last_error("load").contains(&loaded), "{output:#?}");
        assert!(mapped(&output).iter().all(|file| !file.starts_with(other.path())), "{output:#?}");
    }
    let too_old = Child::bare(DRIVER).env("LD_LIBRARY_PATH", other.path());
    let output = run(too_old, &[&open, "load:min=9.99.0"]);
    assert!(output.last_error("load").contains("is cuDNN 9.19.0, but 9.99.0 or newer is required"), "{output:#?}");
}

#[test]
fn a_cudnn_whose_files_were_replaced_keeps_the_version_in_memory() {
    let loaded = graph_with("");
    FakeLibrary::new(Library::Ops, JIT).build(&loaded.file(Library::Ops));
    let update = TempDir::new();
    for library in [Library::Graph, Library::Ops] {
        FakeLibrary::new(library, Version::new(9, 28, 0)).build(&update.file(library));
    }
    // A framework may open the library by another spelling of the path.
    let spelling = format!("open:{}/../{}/libcudnn_graph.so.9", loaded.path().display(), loaded.name());
    let mut args = vec![spelling];
    for library in [Library::Graph, Library::Ops] {
        args.push(format!("remove:{}", loaded.file(library).display()));
        args.push(format!("copy:{},{}", update.file(library).display(), loaded.file(library).display()));
    }
    args.extend(["load:", "cudnnGetVersion", "@cudnnDestroyTensorDescriptor", "maps"].map(String::from));
    let output = run(Child::bare(DRIVER), &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.returned("load").unwrap().starts_with("9.19.0 "), "{output:#?}");
    assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{output:#?}");
    let mismatch = output.returned("@cudnnDestroyTensorDescriptor");
    assert_eq!(mismatch, Some("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH (1002)"), "{output:#?}");
    assert!(output.last_error("@cudnnDestroyTensorDescriptor").contains("Restart the program"), "{output:#?}");
}

#[test]
fn a_cudnn_that_is_loaded_later_is_not_silently_mixed_in() {
    // The graph library of the selected installation cannot be opened. Later, another one is loaded.
    let bad = TempDir::new();
    FakeLibrary::new(Library::Graph, JIT).needing("libnowhere.so.1").build(&bad.file(Library::Graph));
    let good = graph_with("");
    let open = format!("open:{}", good.file(Library::Graph).display());
    let output = run(child(bad.path()), &["~cudnnGetVersion", &open, "load:", "maps"]);
    assert!(output.last_error("load").contains("the process has already loaded"), "{output:#?}");
    // If only ops was loaded, the loader does not add the installation's ops.
    let dir = graph_and_ops();
    let foreign = graph_and_ops();
    let open = format!("open:{}", foreign.file(Library::Ops).display());
    let output = run(child(dir.path()), &["~cudnnGetVersion", &open, "@cudnnDestroyTensorDescriptor", "maps"]);
    assert!(output.last_error("@cudnnDestroyTensorDescriptor").contains("already"), "{output:#?}");
}

#[test]
fn a_linked_sub_library_is_not_called_with_the_graph_of_another_installation() {
    let (ours, other) = (TempDir::new(), TempDir::new());
    FakeLibrary::new(Library::Graph, JIT).build(&ours.file(Library::Graph));
    FakeLibrary::new(Library::Graph, Version::new(9, 10, 2)).build(&other.file(Library::Graph));
    FakeLibrary::new(Library::Ops, JIT).needing("libcudnn_graph.so.9").build(&ours.file(Library::Ops));
    // ld.so searches LD_LIBRARY_PATH before the run path of ops.
    let linked = child(ours.path()).env("LD_PRELOAD", ours.file(Library::Ops)).env("LD_LIBRARY_PATH", other.path());
    let output = run(linked, &["@cudnnDestroyTensorDescriptor", "maps"]);
    let error = output.last_error("@cudnnDestroyTensorDescriptor");
    let loaded = format!("the process has already loaded cuDNN 9.10.2 from {:?}", other.path());
    assert!(error.contains(&loaded) && error.contains("help: A process can use one cuDNN"), "{output:#?}");
    // Without CUDNN_LOADER_DIR, the loader adopts that graph, but not the ops of the other installation.
    let linked = Child::bare(DRIVER).env("LD_PRELOAD", ours.file(Library::Ops)).env("LD_LIBRARY_PATH", other.path());
    let output = run(linked, &["cudnnGetVersion", "@cudnnDestroyTensorDescriptor"]);
    assert_eq!(output.returned("cudnnGetVersion"), Some("91002"), "{output:#?}");
    let error = output.last_error("@cudnnDestroyTensorDescriptor");
    let loaded = format!("the process has already loaded cuDNN 9.19.0 from {:?}", ours.path());
    assert!(error.contains(&loaded), "{output:#?}");
}

fn graph_and_ops() -> TempDir {
    let dir = graph_with("");
    FakeLibrary::new(Library::Ops, JIT).build(&dir.file(Library::Ops));
    dir
}

#[test]
fn a_loaded_shim_without_libraries_in_its_directory_does_not_end_the_search() {
    let alone = TempDir::new();
    FakeLibrary::new(Library::Shim, JIT).build(&alone.file(Library::Shim));
    let good = graph_with("");
    let open = format!("open:{}", alone.file(Library::Shim).display());
    let output = run(Child::bare(DRIVER).env("LD_LIBRARY_PATH", good.path()), &[&open, "load:"]);
    assert!(output.returned("load").unwrap().starts_with("9.19.0 "), "{output:#?}");
}

/// Bazel puts libraries into separate directories, as links to the files. Also calls these functions of the release.
fn check_linked_libraries(release: &str, of_ops: &[&str]) {
    let Some(real) = lib_dir(release) else { return };
    let real = std::fs::canonicalize(&real).unwrap();
    let dirs = TempDir::new();
    let mut links = Vec::new();
    for library in Library::ALL.iter().filter(|library| real.join(library.file_name()).exists()) {
        let dir = dirs.path().join(format!("{library:?}"));
        std::fs::create_dir(&dir).unwrap();
        links.push(dir.join(library.file_name()));
        std::os::unix::fs::symlink(real.join(library.file_name()), links.last().unwrap()).unwrap();
    }
    let path = std::env::join_paths(links.iter().map(|link| link.parent().unwrap())).unwrap();
    let found = || Child::bare(DRIVER).env("LD_LIBRARY_PATH", &path);
    let opened: Vec<String> = links.iter().map(|link| format!("open:{}", link.display())).collect();
    let calls = [&["load:", "cudnnGetVersion"], of_ops].concat();
    // Found on the search path, or already loaded, as in a program that links to the libraries.
    let loaded: Vec<&str> = opened.iter().map(String::as_str).chain(calls.iter().copied()).collect();
    for (child, calls) in [(found(), &calls), (found(), &loaded)] {
        let output = run(child, calls);
        assert!(output.returned("load").unwrap().contains(&format!("{real:?}")), "{output:#?}");
        for call in of_ops {
            assert!(output.returned(call).unwrap().contains("SUCCESS"), "{call}: {output:#?}");
        }
    }
}

#[test]
fn links_in_separate_directories_are_one_installation() {
    check_linked_libraries("jit-cu12-9.19.0", &[]);
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn links_in_separate_directories_to_full_libraries_are_one_installation() {
    check_linked_libraries("cu12-9.10.2", &["cudnnDestroyTensorDescriptor", "cudnnDestroyRNNDescriptor"]);
}
