//! The engine and heuristics libraries that `libcudnn_graph.so.9` opens itself: they come from the selected
//! installation.

use cudnn_loader::Version;
use cudnn_probe::Library;
#[cfg(feature = "full-releases")]
use support::lib_dir;
use support::{FakeLibrary, TempDir};

#[cfg(feature = "full-releases")]
use super::mapped;
use super::{JIT, child, graph_with, run};

#[test]
fn plugins_come_from_the_selected_directory_even_if_the_library_path_names_another() {
    // A graph library that opens a plugin by its bare name, as the real one does, and prints the path that it got.
    let dir = graph_with(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n
        int cudnnDestroy(void *handle) {
            Dl_info info;
            // As the real one does: an already loaded short name, then four names in turn.
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
        let output = run(child(dir.path()).env("LD_LIBRARY_PATH", path), &["cudnnDestroy"]);
        assert!(output.stderr.contains(&text), "{path:?}: {output:#?}");
    }
}

#[test]
fn a_plugin_of_another_cuda_major_is_rejected_even_if_it_comes_from_elsewhere() {
    // The graph library reports CUDA 12.9; the GPU code of the plugin is for CUDA 13.
    let dir = graph_with("unsigned long cudnnGetCudartVersion(void) { return 12090; }");
    let elsewhere = TempDir::new();
    FakeLibrary::new(Library::EnginesPrecompiled, JIT).with_ptx(9).build(&elsewhere.file(Library::EnginesPrecompiled));
    let output = run(child(dir.path()).env("LD_LIBRARY_PATH", elsewhere.path()), &["cudnnDestroy"]);
    let mismatch = Some("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH (1002)");
    assert_eq!(output.returned("cudnnDestroy"), mismatch, "{output:#?}");
    assert!(
        output.last_error("cudnnDestroy").contains("is built for CUDA 13, but the libcudnn_graph.so.9 beside it"),
        "{output:#?}"
    );
    // cuDNN would not load a plugin of another minor release, so that one is no reason to reject the installation.
    FakeLibrary::new(Library::Graph, Version::new(9, 14, 0)).build(&elsewhere.file(Library::Graph));
    let output = run(child(dir.path()).env("LD_LIBRARY_PATH", elsewhere.path()), &["cudnnDestroy"]);
    assert_eq!(output.returned("cudnnDestroy"), Some("CUDNN_STATUS_SUCCESS (0)"), "{output:#?}");
}

#[cfg(feature = "full-releases")]
#[test]
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
    let plan = concat!("plan:", env!("CARGO_MANIFEST_DIR"), "/../cudnn-backend/devices/h200.json");
    let output = run(child(&real).env("LD_LIBRARY_PATH", shadow.path()), &[plan, "maps"]);
    assert!(output.returned("plan").unwrap().ends_with(" configurations"), "{output:#?}");
    let real = std::fs::canonicalize(real).unwrap();
    let mapped = mapped(&output);
    assert!(mapped.len() > 3 && mapped.iter().all(|file| file.starts_with(&real)), "{mapped:#?}");
}
