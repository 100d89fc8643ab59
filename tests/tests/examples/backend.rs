//! Checks the examples of the backend API: their output without a GPU, planning on real cuDNN without a GPU, and the
//! documented mistakes (docs/data/backend-mistakes.json) against cuDNN's current behavior.

use std::collections::BTreeMap;
use std::path::Path;

use support::{Child, ChildOutput, TempDir, dynamic_entries, lib_dir, root};

use crate::linked;

/// Runs an example with the cuDNN in this directory.
fn run(example: &str, cudnn: &Path) -> ChildOutput {
    Child::bare(support::example("cudnn-backend", example)).env("CUDNN_LOADER_DIR", cudnn).run(&[])
}

#[test]
fn every_example_prints_a_plain_message_without_a_gpu() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    for example in ["backend_convolution", "fused_convolution"] {
        let output = run(example, &real);
        assert!(
            output.stdout.contains("correct") || output.stdout.contains("No GPU found ("),
            "{example}: {output:#?}"
        );
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{example}: {output:#?}");
    }
}

#[test]
fn an_example_without_cudnn_prints_what_to_do() {
    let nowhere = TempDir::new();
    let output = run("plan_without_gpu", nowhere.path());
    assert!(output.code == Some(1) && output.stderr.contains("help: "), "{output:#?}");
}

#[test]
fn planning_reports_unsupported_features_of_a_release() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let output = run("plan_without_gpu", &real);
    assert!(output.stdout.contains("CUDNN_HEUR_MODE_A (3): 0 configurations"), "{output:#?}");
    assert!(output.stdout.contains("every engine: "), "{output:#?}");
    // NVRTC, which compiles the engines, may be installed on this machine.
    assert!(output.code == Some(0) || output.stdout.contains("RUNTIME_PREREQUISITE_MISSING"), "{output:#?}");
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn engines_plans_and_workspaces_are_available_without_a_gpu() {
    let Some(real) = lib_dir("cu12-9.10.2") else { return };
    let output = run("plan_without_gpu", &real);
    assert_eq!(output.code, Some(0), "{output:#?}");
    let configurations = |mode: &str| -> usize {
        let line = output.stdout.lines().find_map(|line| line.strip_prefix(mode)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    assert!(configurations("CUDNN_HEUR_MODE_A") > 20 && configurations("CUDNN_HEUR_MODE_FALLBACK") > 1, "{output:#?}");
    let plans: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with("  workspace ")).collect();
    // Ten for either of the first two modes, and the fallback's.
    assert!(plans.len() > 20, "{output:#?}");
    assert!(plans.iter().any(|plan| plan.contains("25766160 bytes: engine 1 ")), "{output:#?}");
    assert!(plans.iter().any(|plan| plan.contains("TILE_SIZE=") && plan.contains("TENSOR_CORE")), "{output:#?}");
    let Some(older) = lib_dir("cu12-9.0.0") else { return };
    let output = run("plan_without_gpu", &older);
    assert!(output.code == Some(1) && output.stderr.contains("but 9.8.0 or newer is required"), "{output:#?}");
}

/// Returns the rows of the first table of mistakes in a Markdown text: the mistake and the other cells.
fn mistakes(text: &str) -> BTreeMap<String, Vec<String>> {
    let table = text.lines().skip_while(|line| !line.starts_with("| Mistake | Rejected by"));
    let row = |line: &str| {
        // A backslash escapes `|` within a cell.
        let line = line.replace("\\|", "\u{1}");
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{1}', "|"));
        Some((cells.next()?, cells.collect()))
    };
    table.skip(2).take_while(|line| line.starts_with('|')).filter_map(row).collect()
}

/// Returns the documented mistakes: the mistake and the other cells.
fn documented() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(root().join("docs/data/backend-mistakes.json")).unwrap();
    let rows: Vec<Vec<String>> = serde_json::from_str(&text).unwrap();
    rows.into_iter().map(|mut row| (row.remove(0), row)).collect()
}

/// Compares the documented mistakes with this release's reports, except for some. The documented release must match in
/// every cell, another release in the status and in the logged reason.
fn check_guide(id: &str, exceptions: &[&str]) {
    let Some(real) = lib_dir(id) else { return };
    let guide = documented();
    let output = run("backend_mistakes", &real);
    let reported = mistakes(&output.stdout);
    assert_eq!(guide.keys().collect::<Vec<_>>(), reported.keys().collect::<Vec<_>>(), "{id}: {output:#?}");
    let mut checked = 0;
    for (mistake, cells) in &reported {
        let expected = &guide[mistake];
        // The guide shows the result of a machine with cuBLASLt.
        if cells[0].starts_with("not tried") || exceptions.contains(&mistake.as_str()) {
            continue;
        }
        assert_eq!(cells[..2], expected[..2], "{id}: {mistake}");
        // The text about an engine differs between JIT-only and full releases.
        if mistake != "an engine index that is too large" {
            assert_eq!(cells[3], expected[3], "{id}: {mistake}");
            assert!(!id.contains("9.19.0") || cells[2] == expected[2], "{id}: {mistake}: {cells:?} {expected:?}");
        }
        checked += 1;
    }
    assert!(checked > 25, "{id}: {checked}");
}

#[test]
fn the_guides_table_matches_the_reports_of_its_release() {
    check_guide("jit-cu12-9.19.0", &[]);
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn other_releases_log_the_same_reasons_with_other_error_texts() {
    check_guide("cu12-9.10.2", &[]);
    // This release logs no reason for some mistakes, and cannot describe devices.
    check_guide(
        "cu12-9.0.0",
        &[
            "an attribute for a different kind of descriptor",
            "an attribute set after `cudnnBackendFinalize`",
            "an attribute read before `cudnnBackendFinalize`",
            "`SPATIAL_DIMS` as int32",
            "an engine index that is too large",
            "a device description that is not JSON",
            "a bias of the wrong shape",
        ],
    );
    let Some(real) = lib_dir("cu12-9.10.2") else { return };
    let reported = mistakes(&run("backend_mistakes", &real).stdout);
    assert_eq!(reported["y has the wrong spatial size"][2], "`ptrDesc->finalize()`");
}

#[test]
fn the_same_convolution_is_linked_from_the_same_source() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let arguments = ["--package", "cudnn-backend", "--examples", "--no-default-features", "--features", "gpu,link"];
    let program = linked("backend_convolution", &arguments, &real);
    let mut needed = dynamic_entries(&program, "NEEDED");
    needed.retain(|name| name.contains("libcudnn"));
    assert_eq!(needed, ["libcudnn_graph.so.9"]);
    let output = Child::bare(&program).env("LD_LIBRARY_PATH", &real).run(&[]);
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert!(output.stdout.contains("No GPU found (") || output.stdout.contains("correct"), "{output:#?}");
}
