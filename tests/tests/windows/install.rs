//! Tests `cudnn-doctor install` and `uninstall` on Windows: the same renames, under Windows' names.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use support::{Library, TempDir, lib_dir, windows};

const KEPT: &str = "cudnn64_9.kept-by-cudnn-doctor";

/// A program that loads a DLL, reports that, and holds it until the standard input is closed.
const HOLDER: &str = r#"
#include <windows.h>
#include <stdio.h>
int wmain(int count, wchar_t **arguments) {
    if (count < 2 || !LoadLibraryExW(arguments[1], 0, LOAD_WITH_ALTERED_SEARCH_PATH)) return 2;
    puts("loaded");
    fflush(stdout);
    getchar();
    return 0;
}"#;

fn sorted_names(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn the_drop_in_is_installed_and_uninstalled() {
    let Some(release) = lib_dir(windows::RELEASE) else { return };
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

    for expected in ["is in front of cuDNN VERSION", "is already in front of"].map(windows::fill_in_release) {
        let output = run(&["install", &place, "--from", &from]);
        assert!(output.code == Some(0) && output.stdout.contains(&expected), "{output:?}");
        assert_eq!(sorted_names(dir.path()), ["cudnn64_9.dll", KEPT, "cudnn_graph64_9.dll", "cudnn_layers.dll"]);
        assert!(shim() == drop_in);
    }
    for expected in ["is in front of cuDNN VERSION", "there is nothing to remove"].map(windows::fill_in_release) {
        let output = run(&["uninstall", &place]);
        assert!(output.code == Some(0) && output.stdout.contains(&expected), "{output:?}");
        assert_eq!(sorted_names(dir.path()), before);
        assert!(shim() == nvidia);
    }
    // Windows cannot replace a DLL that a program has loaded.
    let holder = dir.path().join("holder.exe");
    windows::compile(HOLDER, &["-municode"], &holder);
    let before = sorted_names(dir.path());
    for (command, is_installed) in [("install", false), ("uninstall", true)] {
        if is_installed {
            assert_eq!(run(&["install", &place, "--from", &from]).code, Some(0));
        }
        let start = (sorted_names(dir.path()), shim());
        let mut running = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/wine"))
            .arg(&holder)
            .arg(format!("{place}\\cudnn64_9.dll"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut loaded = String::new();
        BufReader::new(running.stdout.take().unwrap()).read_line(&mut loaded).unwrap();
        assert_eq!(loaded.trim(), "loaded");
        let options: &[&str] = if is_installed { &[] } else { &["--from", &from] };
        let output = run(&[&[command, place.as_str()], options].concat());
        let end = (sorted_names(dir.path()), shim());
        drop(running.stdin.take());
        running.wait().unwrap();
        assert!(output.code == Some(3) && output.stderr.contains("in use by holder.exe"), "{output:?}");
        assert!(!output.stderr.contains(" run -- ") && end == start, "{output:?}");
    }
    assert_eq!(run(&["uninstall", &place]).code, Some(0));
    assert_eq!(sorted_names(dir.path()), before);

    let output = run(&["run", "--", "cmd"]);
    assert!(output.code == Some(3) && output.stderr.contains("no variable that preloads a library"), "{output:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn layers_are_on_without_variables_until_uninstall() {
    let Some(release) = lib_dir(windows::RELEASE) else { return };
    let (dir, other) = (TempDir::new(), TempDir::new());
    for library in [Library::Shim, Library::Graph] {
        std::fs::copy(release.join(library.windows_name()), dir.path().join(library.windows_name())).unwrap();
    }
    let program = dir.path().join("program.exe");
    windows::client("client.c", &release.join("../include"), &["-lpsapi"], &program);
    let before = sorted_names(dir.path());
    let rankings = other.path().join("app.tuned.json");
    std::fs::write(&rankings, support::RANKINGS).unwrap();
    let doctor = windows::build("cudnn-doctor", "cudnn-doctor", &[]);
    let [place, from, rankings] = [dir.path(), &windows::drop_in(), &rankings].map(windows::path);
    let run = |arguments: &[&str]| windows::child(&doctor).run(arguments);
    // Returns whether `trace` and `tuned` are on. `tuned` reports that the ranking is for a different release.
    let uses = |layers: Option<&str>| {
        let child = windows::child(&program).env("CUDNN_LOGLEVEL_DBG", "2");
        let child = layers.into_iter().fold(child, |child, layers| child.env("CUDNN_LAYERS", layers));
        let output = child.run_successfully(&["cudnnGetVersion", "plain"]);
        ["  cudnnGetVersion", "none of 1 rankings is for cuDNN"].map(|text| output.stderr.contains(text))
    };

    let refused = run(&["install", &place, "--from", &from, "--layers", "tuned"]);
    assert!(refused.code == Some(3) && refused.stderr.contains("CUDNN_TUNED is not set"), "{refused:?}");
    assert_eq!(sorted_names(dir.path()), before);
    let options = ["--layers", "tuned,trace", "--tuned", &rankings];
    let output = run(&[&["install", &place, "--from", &from], &options[..]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    for name in ["cudnn_layers.dll", "cudnn_layers.list", "cudnn_layers.tuned.json"] {
        assert!(dir.path().join(name).is_file(), "{name}: {output:?}");
    }
    assert_eq!((uses(None), uses(Some(","))), ([true, true], [false, false]));
    assert_eq!(run(&["uninstall", &place]).code, Some(0));
    assert_eq!(sorted_names(dir.path()), before);
}
