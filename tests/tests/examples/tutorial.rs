//! Follows the tutorial "Your first layer": saves the files, runs the commands, and compares the output.

use std::path::Path;
use std::process::Command;

use support::{TempDir, doctor, drop_in, lib_dir, root};

const TUTORIAL: &str = include_str!("../../../docs/tutorials/first-layer.md");

struct Block<'a> {
    language: &'a str,
    text: String,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let text = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        blocks.push(Block { language: language.split(',').next().unwrap(), text });
    }
    blocks
}

/// Saves a block in the file that its first line names, optionally with the position in an existing file.
fn save(text: &str, dir: &Path) {
    let (header, code) = text.split_once('\n').unwrap();
    let header = header.trim_start_matches(['#', '/']).trim();
    let (file, place) = header.split_once(", ").unwrap_or((header, ""));
    let file = dir.join(file);
    let content = match place.strip_prefix("above `").and_then(|place| place.strip_suffix('`')) {
        Some(below) => {
            let before = std::fs::read_to_string(&file).unwrap();
            let at = before.find(below).unwrap_or_else(|| panic!("{below} is missing in:\n{before}"));
            let (above, below) = before.split_at(before[..at].rfind('\n').unwrap() + 1);
            format!("{above}{code}{below}")
        }
        None if place == "at the end" => format!("{}\n{code}", std::fs::read_to_string(&file).unwrap()),
        None => {
            assert_eq!(place, "");
            code.to_owned()
        }
    };
    std::fs::write(file, content).unwrap();
}

/// Replaces times, which differ in every run.
fn without_times(output: &str) -> String {
    let is_time = |word: &str, next: Option<&&str>| next == Some(&"ms") && word.parse::<f64>().is_ok();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let shown = words.iter().enumerate().map(|(i, word)| if is_time(word, words.get(i + 1)) { "?" } else { word });
        shown.collect::<Vec<_>>().join(" ")
    };
    output.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_tutorial_works_as_written() {
    if support::is_emulated("the_tutorial_works_as_written", "its layer is built for this machine") {
        return;
    }
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let dir = TempDir::new();
    let bin = dir.path().join("installed/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::copy(doctor(), bin.join("cudnn-doctor")).unwrap();
    std::os::unix::fs::symlink(drop_in().canonicalize().unwrap().join("lib"), dir.path().join("installed/lib"))
        .unwrap();
    std::os::unix::fs::symlink(root().canonicalize().unwrap(), dir.path().join("cudnn-shim")).unwrap();
    let path =
        std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())));

    // Each block runs after the exports of all earlier blocks, because it may use their variables.
    let mut exports = String::new();
    let mut output = String::new();
    for block in blocks(TUTORIAL) {
        match block.language {
            "sh" => {
                let mut shell = Command::new("bash");
                shell.current_dir(dir.path()).env("PATH", path.as_ref().unwrap()).env("CUDNN_LOADER_DIR", &real);
                for variable in ["CARGO_TARGET_DIR", "CUDNN_LAYERS", "CUDNN_LAYER_PATH", "LD_LIBRARY_PATH"] {
                    shell.env_remove(variable);
                }
                shell.env("CARGO_TERM_QUIET", "true");
                let result = shell.args(["-ec", &format!("{exports}exec 2>&1\n{}", block.text)]).output().unwrap();
                output = String::from_utf8(result.stdout).unwrap();
                assert!(result.status.success(), "{}:\n{output}", block.text);
                let is_export = |line: &&str| line.starts_with("export ");
                exports.extend(block.text.lines().filter(is_export).map(|line| format!("{line}\n")));
                if block.text.starts_with("cargo new") {
                    // Use the workspace's versions of all dependencies, so that cargo downloads no others.
                    let lock = dir.path().join("cudnn_layer_timer/Cargo.lock");
                    std::fs::copy(root().join("Cargo.lock"), lock).unwrap();
                }
            }
            "text" => assert_eq!(without_times(&output), without_times(&block.text)),
            _ => save(&block.text, dir.path()),
        }
    }
}
