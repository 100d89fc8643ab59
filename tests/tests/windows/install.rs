//! `cudnn-doctor install` and `uninstall` on Windows: the same renames, under Windows' names.

use std::path::Path;

use support::{Library, TempDir, lib_dir, windows};

const KEPT: &str = "cudnn64_9.kept-by-cudnn-doctor";

fn sorted_names(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn the_drop_in_is_put_in_front_and_taken_away() {
    let Some(release) = lib_dir("windows-cu13-9.28.0") else { return };
    let dir = TempDir::new();
    for library in [Library::Shim, Library::Graph] {
        std::fs::copy(release.join(library.windows_name()), dir.path().join(library.windows_name())).unwrap();
    }
    let before = sorted_names(dir.path());
    let shim = || std::fs::read(dir.path().join("cudnn64_9.dll")).unwrap();
    let nvidia = shim();
    let drop_in = std::fs::read(windows::drop_in().join("bin/cudnn64_9.dll")).unwrap();
    let doctor = windows::build("cudnn-doctor", "cudnn-doctor", &[]);
    let (place, from) = (windows::path(dir.path()), windows::path(&windows::drop_in()));
    let run = |arguments: &[&str]| windows::child(&doctor).run(arguments);

    for expected in ["is in front of cuDNN 9.28.0", "is already in front of"] {
        let output = run(&["install", &place, "--from", &from]);
        assert!(output.code == Some(0) && output.stdout.contains(expected), "{output:?}");
        assert_eq!(sorted_names(dir.path()), ["cudnn64_9.dll", KEPT, "cudnn_graph64_9.dll", "cudnn_layers.dll"]);
        assert!(shim() == drop_in);
    }
    for expected in ["is in front of cuDNN 9.28.0", "nothing is left of it"] {
        let output = run(&["uninstall", &place]);
        assert!(output.code == Some(0) && output.stdout.contains(expected), "{output:?}");
        assert_eq!(sorted_names(dir.path()), before);
        assert!(shim() == nvidia);
    }
    let output = run(&["run", "--", "cmd"]);
    assert!(output.code == Some(3) && output.stderr.contains("no variable puts a library in front"), "{output:?}");
}
