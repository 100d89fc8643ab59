//! The examples: what each says where there is no GPU, planning on real cuDNN without one, and the guide's mistakes as cuDNN
//! tells them now.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test says so by panicking"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Child, ChildOutput, lib_dir};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Builds the examples, and runs one with the cuDNN in this folder.
fn run(example: &str, cudnn: &Path) -> ChildOutput {
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["build", "--quiet", "--package", "cudnn-loader", "--example", example])
        // In the profile of the tests, so that it is the program that lies beside theirs.
        .args(["--profile", if cfg!(debug_assertions) { "dev" } else { "release" }])
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let program = Path::new(env!("CARGO_BIN_EXE_driver")).with_file_name("examples").join(example);
    Child::bare(program).env("CUDNN_LOADER_DIR", cudnn).run(&[])
}

#[test]
fn each_ends_with_a_plain_message_where_there_is_no_gpu() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    for example in ["backend_convolution", "fused_convolution", "choose_engine", "receive_log", "backend_mistakes"] {
        let output = run(example, &real);
        let has_gpu = output.stdout.contains("right") || output.stdout.contains(" ran, ");
        assert!(has_gpu || output.stdout.contains("No GPU to "), "{example}: {output:#?}");
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{example}: {output:#?}");
    }
}

#[test]
fn the_loaders_story_is_in_the_log_that_an_example_receives() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let output = run("receive_log", &real);
    for reported in ["info cudnn_loader::pin(version=9.19.0", " cudnnGetVersion\n", "2 cudnn_loader::load"] {
        assert!(output.stdout.contains(reported), "{reported}: {output:#?}");
    }
}

#[test]
fn planning_says_what_a_release_cannot() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let output = run("plan_without_gpu", &real);
    assert!(output.stdout.contains("CUDNN_HEUR_MODE_A (3): 0 configurations"), "{output:#?}");
    assert!(output.stdout.contains("engine by engine: "), "{output:#?}");
    // Its engines are compiled, by a library that may be here.
    assert!(output.code == Some(0) || output.stdout.contains("RUNTIME_PREREQUISITE_MISSING"), "{output:#?}");
}

#[cfg(feature = "full-releases")]
#[test]
fn engines_plans_and_workspaces_come_without_a_gpu() {
    let Some(real) = lib_dir("cu12-9.10.2") else { return };
    let output = run("plan_without_gpu", &real);
    assert_eq!(output.code, Some(0), "{output:#?}");
    let configurations = |mode: &str| -> usize {
        let line = output.stdout.lines().find_map(|line| line.strip_prefix(mode)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    assert!(configurations("CUDNN_HEUR_MODE_A") > 20 && configurations("CUDNN_HEUR_MODE_FALLBACK") > 1, "{output:#?}");
    let plans: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with("  workspace ")).collect();
    // Ten of each of the first two modes, and the fallback's.
    assert!(plans.len() > 20, "{output:#?}");
    assert!(plans.iter().any(|plan| plan.contains("25766160 bytes: engine 1 ")), "{output:#?}");
    assert!(plans.iter().any(|plan| plan.contains("TILE_SIZE=") && plan.contains("TENSOR_CORE")), "{output:#?}");
    let Some(older) = lib_dir("cu12-9.0.0") else { return };
    let output = run("plan_without_gpu", &older);
    assert!(output.code == Some(1) && output.stderr.contains("at least 9.8.0 is asked for"), "{output:#?}");
}

/// The rows of the first table in a text: the mistake, and the other cells.
fn mistakes(text: &str) -> BTreeMap<String, Vec<String>> {
    let table = text.lines().skip_while(|line| !line.starts_with("| Mistake | Refused by"));
    let row = |line: &str| {
        // A `|` within a cell has a backslash before it.
        let line = line.replace("\\|", "\u{1}");
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{1}', "\\|"));
        Some((cells.next()?, cells.collect()))
    };
    table.skip(2).take_while(|line| line.starts_with('|')).filter_map(row).collect()
}

/// Is the guide's table what this release says, but for some? With the texts where it is the guide's release, and otherwise
/// with the status and the reason in the log alone.
fn hold(id: &str, but_for: &[&str]) {
    let Some(real) = lib_dir(id) else { return };
    let guide = mistakes(&std::fs::read_to_string(root().join("docs/backend-convolution.md")).unwrap());
    let output = run("backend_mistakes", &real);
    let text = mistakes(&output.stdout);
    assert_eq!(guide.keys().collect::<Vec<_>>(), text.keys().collect::<Vec<_>>(), "{id}");
    let mut held = 0;
    for (mistake, cells) in &text {
        let reported = &guide[mistake];
        // Where the engines can be asked, the guide says what comes of it.
        if cells[0].starts_with("not tried") || but_for.contains(&mistake.as_str()) {
            continue;
        }
        // What the heuristics and the engines are asked differs between a JIT-only release and a full one.
        let is_of_engines = mistake.contains("an engine by a number");
        assert_eq!(cells[..2], reported[..2], "{id}: {mistake}");
        if !is_of_engines {
            assert_eq!(cells[3], reported[3], "{id}: {mistake}");
            assert!(!id.contains("9.19.0") || cells[2] == reported[2], "{id}: {mistake}: {cells:?} {reported:?}");
        }
        held += 1;
    }
    assert!(held > 25, "{id}: {held}");
}

#[test]
fn the_guides_mistakes_are_told_so() {
    hold("jit-cu12-9.19.0", &[]);
}

#[cfg(feature = "full-releases")]
#[test]
fn another_release_has_the_same_reasons_in_the_log_and_other_texts() {
    hold("cu12-9.10.2", &[]);
    // It gives no reason for some, and knows no devices by description.
    hold(
        "cu12-9.0.0",
        &[
            "an attribute of another kind of descriptor",
            "an attribute set after `cudnnBackendFinalize`",
            "an attribute read before `cudnnBackendFinalize`",
            "`SPATIAL_DIMS` as int32",
            "an engine by a number that is too large",
            "a device described by something else than JSON",
            "a bias that does not fit",
        ],
    );
    let Some(real) = lib_dir("cu12-9.10.2") else { return };
    let text = mistakes(&run("backend_mistakes", &real).stdout);
    assert_eq!(text["y of the wrong size"][2], "`ptrDesc->finalize()`");
}

#[test]
fn the_same_convolution_is_linked_from_the_same_source() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let target = root().join("target/linking");
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["build", "--quiet", "--package", "cudnn-example-linked", "--features", "link-graph", "--target-dir"])
        .arg(&target)
        .env("CUDNN_SYS_LIB_DIR", &real)
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let program = target.join("debug/backend_convolution_linked");
    let needed = Command::new("readelf").arg("-d").arg(&program).output().expect("readelf, of binutils");
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    let cudnn: Vec<&str> = needed.lines().filter(|line| line.contains("libcudnn")).collect();
    assert!(cudnn.len() == 1 && cudnn[0].contains("libcudnn_graph.so.9"), "{needed}");
    let output = Child::bare(&program).env("LD_LIBRARY_PATH", &real).run(&[]);
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert!(output.stdout.contains("No GPU to ") || output.stdout.contains("right"), "{output:#?}");
}
