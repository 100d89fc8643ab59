//! Tests that libraries that `libcudnn_graph.so.9` opens itself come from the selected installation.

use std::path::Path;

use cudnn_loader::Version;
use cudnn_probe::Library;
use support::{FakeLibrary, TempDir, lib_dir};

use super::{JIT, child, graph_with, mapped, run};

#[test]
fn plugins_come_from_the_selected_directory_even_if_the_library_path_names_another() {
    // A graph library that opens a plugin by its bare name, like the real one, and prints the resulting path.
    let dir = graph_with(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n
        int cudnnBackendFinalize(void *handle) {
            Dl_info info;
            // Like the real library, it tries an already loaded short name, then four names in turn.
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
    for place in [&dir, &elsewhere] {
        FakeLibrary::new(Library::Heuristic, JIT).with_code("int mark;").build(&place.file(Library::Heuristic));
    }
    let full_name = TempDir::new();
    let copy = full_name.path().join("libcudnn_heuristic.so.9.19.0");
    std::fs::copy(elsewhere.file(Library::Heuristic), copy).unwrap();
    let text = format!("engine from {}", dir.file(Library::Heuristic).display());
    let elsewhere_second = format!("/nowhere;{}", elsewhere.path().display());
    for path in ["", &elsewhere_second, &dir.path().display().to_string(), &full_name.path().display().to_string()] {
        let output = run(child(dir.path()).env("LD_LIBRARY_PATH", path), &["cudnnBackendFinalize"]);
        assert!(output.stderr.contains(&text), "{path:?}: {output:#?}");
    }
}

#[test]
fn plugins_of_another_installation_are_rejected_unless_compatible_or_unloadable() {
    // The graph library reports CUDA 12.9.
    let dir = graph_with("unsigned long cudnnGetCudartVersion(void) { return 12090; }");
    let engine = || FakeLibrary::new(Library::EnginesPrecompiled, JIT);
    let other = Version::new(9, 14, 0);
    for (engine, other_graph, is_accepted) in [
        // Without other libraries: for a different CUDA major version, for the same one, and for an unknown one.
        (engine().with_ptx(9), None, false),
        (engine().with_ptx(8), None, false),
        (engine(), None, false),
        // Together with graph libraries.
        (engine().with_ptx(8), Some(JIT), true),
        (engine().with_ptx(9), Some(JIT), false),
        (engine().with_ptx(8), Some(other), false),
        // The plugin needs a symbol that graph does not export, so cuDNN works without the plugin.
        (engine().with_ptx(9).with_undefined("cudnn_of_another_release"), Some(other), true),
        (engine().with_undefined("cudnn_of_another_release"), None, true),
    ] {
        let elsewhere = TempDir::new();
        engine.build(&elsewhere.file(Library::EnginesPrecompiled));
        if let Some(version) = other_graph {
            FakeLibrary::new(Library::Graph, version).build(&elsewhere.file(Library::Graph));
        }
        let output = run(child(dir.path()).env("LD_LIBRARY_PATH", elsewhere.path()), &["cudnnBackendFinalize"]);
        if is_accepted {
            let success = Some("CUDNN_STATUS_SUCCESS (0)");
            assert_eq!(output.returned("cudnnBackendFinalize"), success, "{engine:?} {other_graph:?} {output:#?}");
            continue;
        }
        let mismatch = Some("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH (1002)");
        assert_eq!(output.returned("cudnnBackendFinalize"), mismatch, "{engine:?} {other_graph:?} {output:#?}");
        let error = output.last_error("cudnnBackendFinalize");
        for text in [elsewhere.path(), dir.path()].map(|dir| dir.display().to_string()) {
            assert!(error.contains(&text), "{text} {error}");
        }
        for text in ["does not belong to the libcudnn_graph.so.9 in", "help: Run `cudnn-doctor check`"] {
            assert!(error.contains(text), "{text} {error}");
        }
    }
    // The loader identifies the plugin by reading the file, because opening it would run code.
    let elsewhere = TempDir::new();
    let code = "__attribute__((constructor)) static void start(void) { dprintf(2, \"foreign code\\n\"); }";
    engine().with_code(code).build(&elsewhere.file(Library::EnginesPrecompiled));
    let output = run(child(dir.path()).env("LD_LIBRARY_PATH", elsewhere.path()), &["cudnnBackendFinalize"]);
    assert!(output.returned("cudnnBackendFinalize").unwrap().ends_with("(1002)"), "{output:#?}");
    assert!(!output.stderr.contains("foreign code"), "{output:#?}");
    // The same holds if ld.so cannot load the installation's library, or if the process has loaded another one.
    let elsewhere = TempDir::new();
    let foreign = elsewhere.file(Library::EnginesPrecompiled);
    engine().build(&foreign);
    let own = dir.file(Library::EnginesPrecompiled);
    let (open_foreign, open_own) = (format!("open:{}", foreign.display()), format!("open:{}", own.display()));
    let returned = |path: &Path, args: &[&str]| {
        let output = run(child(dir.path()).env("LD_LIBRARY_PATH", path), args);
        output.returned("cudnnBackendFinalize").unwrap().to_owned()
    };
    let (accepted, rejected) = ("CUDNN_STATUS_SUCCESS (0)", "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH (1002)");
    for (own_engine, expected) in
        [(engine(), accepted), (engine().with_undefined("cudnn_of_another_release"), rejected)]
    {
        own_engine.build(&own);
        assert_eq!(returned(elsewhere.path(), &["cudnnBackendFinalize"]), expected);
    }
    engine().build(&own);
    assert_eq!(returned(Path::new("/nowhere"), &[&open_own, "cudnnBackendFinalize"]), accepted);
    assert_eq!(returned(Path::new("/nowhere"), &[&open_foreign, "cudnnBackendFinalize"]), rejected);
    // This release of graph does not open this library.
    let elsewhere = TempDir::new();
    FakeLibrary::new(Library::EnginesTensorIr, JIT).with_ptx(9).build(&elsewhere.file(Library::EnginesTensorIr));
    let output = run(child(dir.path()).env("LD_LIBRARY_PATH", elsewhere.path()), &["cudnnBackendFinalize"]);
    assert_eq!(output.returned("cudnnBackendFinalize"), Some("CUDNN_STATUS_SUCCESS (0)"), "{output:#?}");
}

#[test]
fn a_damaged_plugin_that_graph_would_open_under_another_name_is_refused() {
    let dir = graph_with("");
    let own = dir.file(Library::Heuristic);
    FakeLibrary::new(Library::Heuristic, JIT).build(&own);
    let full_name = dir.path().join("libcudnn_heuristic.so.9.19.0");
    let returned = |path: &Path| {
        let output = run(child(dir.path()).env("LD_LIBRARY_PATH", path), &["cudnnBackendFinalize"]);
        (output.returned("cudnnBackendFinalize").unwrap().to_owned(), output.last_error("cudnnBackendFinalize"))
    };
    // An additional file is harmless, because the intact file is opened first.
    std::fs::write(&full_name, "").unwrap();
    assert_eq!(returned(Path::new("/nowhere")).0, "CUDNN_STATUS_SUCCESS (0)");
    std::fs::remove_file(&own).unwrap();
    let elsewhere = TempDir::new();
    std::fs::write(elsewhere.file(Library::Heuristic), "").unwrap();
    for (path, file) in
        [(Path::new("/nowhere"), full_name.clone()), (elsewhere.path(), elsewhere.file(Library::Heuristic))]
    {
        let (status, message) = returned(path);
        assert_eq!(status, "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)", "{message}");
        assert!(message.contains(&format!("{file:?} is empty")), "{message}");
        let _ = std::fs::remove_file(&full_name);
    }
}

#[test]
fn with_two_cuda_majors_the_files_of_the_minority_are_named() {
    let name = |library: Library| library.file_name().to_owned();
    let (ops, cnn, adv, heuristic) = (Library::Ops, Library::Cnn, Library::Adv, Library::Heuristic);
    for (graph, with_13, minority) in [
        (12, &[ops, cnn, adv, heuristic][..], format!("{} is built for CUDA 12, but", name(Library::Graph))),
        (13, &[], format!("{} is built for CUDA 12, like {}, but", name(ops), name(cnn))),
        (13, &[cnn], format!("{} is built for CUDA 12, but", name(ops))),
    ] {
        let dir = graph_with(&format!("unsigned long cudnnGetCudartVersion(void) {{ return {graph}000; }}"));
        for library in [ops, cnn, adv, heuristic] {
            let is_13 = with_13.contains(&library) || (graph == 13 && ![ops, cnn].contains(&library));
            FakeLibrary::new(library, JIT).with_ptx(if is_13 { 9 } else { 8 }).build(&dir.file(library));
        }
        let output = run(child(dir.path()), &["cudnnDestroyTensorDescriptor"]);
        let error = output.last_error("cudnnDestroyTensorDescriptor").replace('"', "");
        assert!(error.contains(&minority), "{minority}: {error}");
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn a_real_plugin_of_another_installation_is_rejected_only_if_ld_so_would_load_it() {
    let (Some(jit), Some(newer), Some(older)) = (lib_dir("jit-cu13-9.27.0"), lib_dir("cu13"), lib_dir("cu12-9.0.0"))
    else {
        return;
    };
    let rejected = Some("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH (1002)");
    for (other, expected) in [(&newer, rejected), (&older, Some("92700"))] {
        let alone = TempDir::new();
        let engine = other.join(Library::EnginesPrecompiled.file_name());
        std::os::unix::fs::symlink(engine, alone.file(Library::EnginesPrecompiled)).unwrap();
        for path in [alone.path(), other] {
            let output = run(child(&jit).env("LD_LIBRARY_PATH", path), &["cudnnBackendFinalize", "cudnnGetVersion"]);
            let returned = if expected == rejected { "cudnnBackendFinalize" } else { "cudnnGetVersion" };
            assert_eq!(output.returned(returned), expected, "{path:?} {output:#?}");
        }
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn the_real_graph_library_gets_the_selected_plugins() {
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
    let plan = concat!("plan:", env!("CARGO_MANIFEST_DIR"), "/../cudnn-sys/src/devices/h200.json");
    let output = run(child(&real).env("LD_LIBRARY_PATH", shadow.path()), &[plan, "maps"]);
    assert!(output.returned("plan").unwrap().ends_with(" configurations"), "{output:#?}");
    let real = std::fs::canonicalize(real).unwrap();
    let mapped = mapped(&output);
    assert!(mapped.len() > 3 && mapped.iter().all(|file| file.starts_with(&real)), "{mapped:#?}");
}
