//! Checks the examples of the backend API, and plans with real cuDNN and without a GPU.

use std::path::Path;

use support::{Child, ChildOutput, TempDir, dynamic_entries, lib_dir};

use crate::linked;

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
    // Ten for each of the first two modes, and the fallback's.
    assert!(plans.len() > 20, "{output:#?}");
    assert!(plans.iter().any(|plan| plan.contains("25766160 bytes: engine 1 ")), "{output:#?}");
    assert!(plans.iter().any(|plan| plan.contains("TILE_SIZE=") && plan.contains("TENSOR_CORE")), "{output:#?}");
    let Some(older) = lib_dir("cu12-9.0.0") else { return };
    let output = run("plan_without_gpu", &older);
    assert!(output.code == Some(1) && output.stderr.contains("but 9.8.0 or newer is required"), "{output:#?}");
}

#[test]
fn the_same_convolution_is_linked_from_the_same_source() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let arguments = ["--package", "cudnn-backend", "--examples", "--no-default-features", "--features", "gpu,link"];
    let program = linked("backend_convolution", &arguments, &real);
    let mut needed = dynamic_entries(&program, "NEEDED");
    needed.retain(|name| name.contains("libcudnn"));
    assert_eq!(needed, ["libcudnn_graph.so.9"]);
    let output = Child::bare(&program).env("LD_LIBRARY_PATH", &real).run_successfully(&[]);
    assert!(output.stdout.contains("No GPU found (") || output.stdout.contains("correct"), "{output:#?}");
}
