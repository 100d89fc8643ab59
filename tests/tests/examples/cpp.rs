//! Follows the page "The backend API from C++": builds the program, plans for a device, and makes its mistakes.

use std::path::Path;
use std::process::Command;

use support::{Child, PlanningLibraries, TempDir, drop_in, lab, lib_dir, root};

const PAGE: &str = include_str!("../../../docs/backend-cpp.md");

fn blocks(language: &str) -> Vec<&'static str> {
    let start = format!("```{language}\n");
    PAGE.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Runs a command of the page in a directory, with existing directories for the placeholders.
fn run(line: &str, dir: &Path, cudnn: &Path, libraries: &str) -> String {
    let lib = drop_in().join("lib").display().to_string();
    let headers = lib_dir("jit-cu13-9.27.0").unwrap().join("../include").display().to_string();
    let line =
        line.replace("CUDNN ", &format!("{headers} ")).replace("CUDA ", &format!("{}/headers/cuda ", root().display()));
    let line = line.replace("-L LIB", &format!("-L {lib}")).replace("-rpath,LIB", &format!("-rpath,{lib}"));
    let line = line.replace("cudnn-lab", lab().to_str().unwrap());
    let child = Child::bare("/bin/sh").env("CUDNN_LOADER_DIR", cudnn).env("LD_LIBRARY_PATH", libraries);
    let child = child.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let output = child.run(&["-c", &format!("cd {}; {line}", dir.display())]);
    format!("{}{}", output.stdout, output.stderr)
}

#[test]
fn the_program_plans_and_its_mistakes_are_named() {
    let test = "the_program_plans_and_its_mistakes_are_named";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    if Command::new("g++").arg("--version").output().is_err() || lib_dir("jit-cu13-9.27.0").is_none() {
        return support::not_run(test, "there is no g++");
    }
    let dir = TempDir::new();
    let run = |line: &str| run(line, dir.path(), &cudnn, &libraries.path);
    let source = blocks("cpp").concat();
    let write = |source: &str| std::fs::write(dir.path().join("backend.cpp"), source).unwrap();
    let [commands, validate] = blocks("sh")[..] else { panic!("{PAGE}") };
    let [planned, messages @ ..] = &blocks("text")[..] else { panic!("{PAGE}") };
    write(&source);
    let outputs: String = commands.lines().map(&run).collect();
    assert_eq!(outputs, *planned);

    let build = commands.lines().next().unwrap();
    let mistakes = blocks("diff");
    assert_eq!((mistakes.len(), messages.len()), (3, 3));
    for (mistake, message) in mistakes.iter().zip(messages) {
        let (removed, added) = mistake.trim_start_matches('-').split_once("\n+").unwrap();
        assert_eq!(source.matches(removed).count(), 1, "{removed}");
        write(&source.replace(removed, added.trim_end()));
        assert_eq!(run(build), "");
        let operation = if removed.contains(" y = ") { "convolution" } else { "matmul" };
        let output = run(&validate.trim().replace("matmul", operation));
        assert!(output.lines().any(|line| line == message.trim_end()), "{message}: {output}");
    }
}
