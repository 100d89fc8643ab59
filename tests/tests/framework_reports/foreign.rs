//! Adds libraries from a different release or for a different CUDA version to a framework's cuDNN or its dependencies.
//! Both `check` and `frameworks` must detect them.

use std::path::Path;

use cudnn_probe::release_facts::has_library;
use support::{FakeLibrary, Library, Version};

use crate::world::*;

const NEWER: Version = Version::new(9, 28, 0);

fn put(library: Library, version: Version, ptx: u16, dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    let file = dir.join(library.file_name());
    let _ = std::fs::remove_file(&file);
    FakeLibrary::new(library, version).with_ptx(ptx).build(&file);
}

fn truncate(file: &Path) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, b"\x7fELF\x02\x01\x01").unwrap();
}

/// Adds a foreign file to PyTorch's cuDNN in this directory, as an environment could.
type Fill = fn(&World, &Path);

/// A description, the setup, the codes of `check` and `frameworks`, and fragments of the output of `frameworks`.
type Case = (&'static str, Fill, &'static str, &'static str, &'static [&'static str]);

/// The files are in the directory of PyTorch's cuDNN.
const IN_ITS_DIRECTORY: [Case; 8] = [
    (
        "graph from a different release",
        |_, dir| put(Library::Graph, NEWER, 8, dir),
        "C014",
        "C072",
        &["libcudnn_ops.so.9 is cuDNN 9.10.2"],
    ),
    (
        "ops from a different release",
        |_, dir| put(Library::Ops, NEWER, 8, dir),
        "C014",
        "C072",
        &["libcudnn_ops.so.9 is cuDNN 9.28.0"],
    ),
    ("a newer shim", |_, dir| put(Library::Shim, NEWER, 8, dir), "C014", "C072", &["is of cuDNN 9.28.0 or newer"]),
    (
        "an older shim",
        |_, dir| put(Library::Shim, Version::new(9, 0, 0), 8, dir),
        "C014",
        "C072",
        &["is of a cuDNN before 9.5.0"],
    ),
    (
        "cnn for a different CUDA version",
        |_, dir| put(Library::Cnn, V9_10_2, 9, dir),
        "C015",
        "C072",
        &["is built for CUDA 13", "the libraries next to it are for CUDA 12"],
    ),
    (
        "graph for a different CUDA version",
        |_, dir| put(Library::Graph, V9_10_2, 9, dir),
        "C015",
        "C072",
        &["is built for CUDA 13"],
    ),
    (
        "a file that cuDNN opens first",
        |_, dir| FakeLibrary::new(Library::Graph, V9_1_0).with_ptx(8).build(&dir.join("libcudnn_graph.so.9.10.2")),
        "C014",
        "C072",
        &["libcudnn_graph.so.9.10.2 is cuDNN 9.1.0", "rm "],
    ),
    (
        "another file than the package's",
        |world, dir| {
            let record = world.venv.import_dir().join("nvidia_cudnn_cu12-9.10.2.21.dist-info/RECORD");
            let name = Library::EnginesPrecompiled.file_name();
            let line = format!("nvidia/cudnn/lib/{name},,{}\n", std::fs::metadata(dir.join(name)).unwrap().len());
            std::fs::write(record, line).unwrap();
            put(Library::EnginesPrecompiled, NEWER, 8, dir);
            let file = std::fs::OpenOptions::new().append(true).open(dir.join(name)).unwrap();
            file.set_len(file.metadata().unwrap().len() + 1).unwrap();
        },
        "C024",
        "C072",
        &["has changed since its package was installed", "libcudnn_engines_precompiled.so.9 has"],
    ),
];

/// The files are in another directory, which the doctor's command removes from a variable.
const FROM_ELSEWHERE: [Case; 7] = [
    (
        "foreign engines first on the search path",
        |world, _| search(world, |dir| put(Library::EnginesPrecompiled, NEWER, 8, dir)),
        "C022",
        "C072",
        &["libcudnn_engines_precompiled.so.9 would be loaded from", "where the release is unknown"],
    ),
    (
        "cnn for a different CUDA version first on the search path",
        |world, _| search(world, |dir| put(Library::Cnn, V9_10_2, 9, dir)),
        "C022",
        "C072",
        &["libcudnn_cnn.so.9 would be loaded from"],
    ),
    (
        "ops from a different release first on the search path",
        |world, _| search(world, |dir| put(Library::Ops, V9_1_0, 8, dir)),
        "C022",
        "C072",
        &["would mix cuDNN 9.10.2 (libcudnn_graph.so.9) and 9.1.0 (libcudnn_ops.so.9)"],
    ),
    (
        "graph that is loaded before",
        |world, _| {
            let other = world.root.path().join("other");
            put(Library::Graph, NEWER, 8, &other);
            world.set("LD_PRELOAD", other.join("libcudnn_graph.so.9"));
        },
        "C022",
        "C072",
        &[
            "would mix cuDNN 9.28.0 (libcudnn_graph.so.9) and 9.10.2",
            "start it without this variable",
            "unset LD_PRELOAD",
        ],
    ),
    (
        "a cuDNN for a different CUDA version first on the search path",
        |world, _| {
            search(world, |dir| {
                let all = Library::ALL.iter().filter(|library| has_library(V9_10_2, **library));
                all.for_each(|library| put(*library, V9_10_2, 9, dir));
            });
        },
        "C022",
        "C071",
        &["would load a cuDNN for CUDA 13"],
    ),
    (
        "a damaged cuBLASLt",
        |world, _| search(world, |dir| truncate(&dir.join("libcublasLt.so.12"))),
        "C030",
        "C074",
        &["would load a damaged library", "libcublasLt.so.12 is truncated", "found by: LD_LIBRARY_PATH"],
    ),
    (
        "a damaged NVRTC",
        |world, _| search(world, |dir| truncate(&dir.join("libnvrtc.so.12"))),
        "C031",
        "C074",
        &["would load a damaged library", "libnvrtc.so.12 is truncated"],
    ),
];

/// Adds another directory to the front of ld.so's search path, and fills it.
fn search(world: &World, fill: impl FnOnce(&Path)) {
    let other = world.root.path().join("other");
    fill(&other);
    world.set("LD_LIBRARY_PATH", other);
}

fn filled(case: &Case) -> World {
    let world = World::new();
    complete_torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
    (case.1)(&world, &world.venv.import_dir().join("nvidia/cudnn/lib"));
    world
}

#[test]
fn check_and_frameworks_see_the_same_foreign_files() {
    for case in IN_ITS_DIRECTORY.iter().chain(&FROM_ELSEWHERE) {
        let (name, _, code_of_check, code, fragments) = case;
        let world = filled(case);
        let (check_findings, _) = world.check(&[]);
        assert!(check_findings.iter().any(|finding| finding["code"] == *code_of_check), "{name}: {check_findings:#?}");
        has(&world, &[(*code, *fragments)]);
    }
}

/// The environment of the process leads to the other directory, so the commands change the environment.
#[test]
fn the_suggested_commands_remove_a_foreign_cudnn() {
    for case in FROM_ELSEWHERE.iter().filter(|case| case.3 == "C072") {
        let world = filled(case);
        let lines = commands(&world, case.3);
        assert!(!lines.is_empty(), "{}", case.0);
        assert_eq!(codes_after(&world, &lines), Vec::<String>::new(), "{}: {lines:?}", case.0);
    }
}
