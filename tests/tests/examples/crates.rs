//! Runs the examples of all crates except cudnn-backend, with a real cuDNN and without one.

use std::path::Path;

use support::{Child, ChildOutput, PythonEnvironment, TempDir, dynamic_entries, example, lib_dir};

use crate::linked;

const NOWHERE: &str = "/nowhere";

fn run(package: &str, name: &str, cudnn: impl AsRef<Path>, arguments: &[&str]) -> ChildOutput {
    Child::bare(example(package, name)).env("CUDNN_LOADER_DIR", cudnn.as_ref()).run(arguments)
}

/// Checks that an example fails without cuDNN, and that stderr contains the reason.
fn check_without_cudnn(package: &str, name: &str, arguments: &[&str], reason: &str) {
    let output = run(package, name, NOWHERE, arguments);
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(output.stderr.contains(reason), "{output:#?}");
}

const NO_CUDNN: &str = "no usable cuDNN 9 found: \"/nowhere\"";

#[test]
fn cpu_fallback_uses_the_cpu_and_prints_the_reason() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let reported = |cudnn: &Path, minimum: &str| {
        let output = run("cudnn-loader", "cpu_fallback", cudnn, &[minimum]);
        let relu = "relu: [0.0, 0.0, 0.0, 3.0]\n";
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
        output.stdout.strip_suffix(relu).unwrap().to_owned()
    };
    let enough = reported(&real, "9.19");
    assert!(
        enough.starts_with("cuDNN 9.19.0 ") || enough.starts_with("CPU: cudnnCreate returned CUDNN_STATUS_"),
        "{enough}"
    );
    let too_old = reported(&real, "9.20");
    assert!(too_old.starts_with("CPU: ") && too_old.contains("9.19.0, but 9.20.0 or newer is required"), "{too_old}");
    let missing = reported(Path::new(NOWHERE), "9.1");
    assert!(missing.starts_with("CPU: ") && missing.contains(NO_CUDNN), "{missing}");
}

#[test]
fn requirements_reports_an_installation_that_is_too_old() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let output = run("cudnn-loader", "requirements", &real, &["9.19"]);
    assert!(output.code == Some(0) && output.stdout.ends_with("cudnnGetVersion = 91900\n"), "{output:#?}");
    let output = run("cudnn-loader", "requirements", &real, &["9.20"]);
    assert!(output.code == Some(1) && output.stderr.contains("9.20.0 or newer is required"), "{output:#?}");
    check_without_cudnn("cudnn-loader", "requirements", &[], NO_CUDNN);
}

#[test]
fn log_to_stderr_shows_the_search_and_the_reason_of_a_failure() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let output = run("cudnn-loader", "log_to_stderr", &real, &[]);
    assert!(output.stdout.contains("cudnnBackendFinalize returned CUDNN_STATUS_BAD_PARAM"), "{output:#?}");
    for logged in ["cudnn_loader::select(", "cudnnBackendFinalize"] {
        assert!(output.stderr.contains(logged), "{logged}: {output:#?}");
    }
    check_without_cudnn("cudnn-loader", "log_to_stderr", &["1"], NO_CUDNN);
}

#[test]
fn preload_in_background_prints_the_steps() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let output = run("cudnn-loader", "preload_in_background", &real, &[]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
    assert!(output.stdout.contains("load libcudnn_graph.so.9"), "{output:#?}");
    check_without_cudnn("cudnn-loader", "preload_in_background", &[], NO_CUDNN);
}

#[test]
fn explain_ld_so_shows_the_rule_for_each_library() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let graph = real.join("libcudnn_graph.so.9");
    let output = Child::bare(example("cudnn-probe", "explain_ld_so")).run(&[graph.to_str().unwrap()]);
    assert!(output.stdout.contains("\"libc.so.6\": "), "{output:#?}");
    check_without_cudnn("cudnn-probe", "explain_ld_so", &[NOWHERE], "\"/nowhere\" ");
}

#[test]
fn list_frameworks_reports_the_frameworks_of_an_environment() {
    let dir = TempDir::new();
    PythonEnvironment::venv(dir.path());
    let list = || run("cudnn-frameworks", "list_frameworks", NOWHERE, &[dir.path().to_str().unwrap()]);
    let empty = list();
    assert_eq!((empty.code, empty.stderr.as_str()), (Some(1), "no framework found\n"), "{empty:#?}");
    PythonEnvironment::at(dir.path(), "lib/python3.12/site-packages").package("torch", "2.8.0");
    let output = list();
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
    assert!(output.stdout.starts_with("PyTorch 2.8.0\n"), "{output:#?}");
}

#[test]
fn fetch_release_prints_the_directory_of_the_libraries() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let fetch = |arguments: &[&str]| {
        let cache = cudnn_fetch::cache_dir().unwrap();
        Child::bare(example("cudnn-fetch", "fetch_release")).env("CUDNN_FETCH_CACHE", cache).run(arguments)
    };
    assert!(fetch(&[]).stdout.contains("jit-cu12-9.19.0: nvidia-cudnn-jit-cu12 9.19.0."), "{:#?}", fetch(&[]));
    if !support::is_emulated("fetch_release_prints_the_directory_of_the_libraries", "it is the release of the host") {
        assert_eq!(fetch(&["jit-cu12-9.19.0"]).stdout.trim_end(), real.to_str().unwrap());
    }
    let unknown = fetch(&["cu12-9.99.0"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("cu12-9.28.0"), "{unknown:#?}");
}

#[test]
fn functions_since_lists_the_functions_of_newer_releases() {
    let list = |oldest: &str| run("cudnn-sys", "functions_since", NOWHERE, &[oldest]);
    let line = "cudnnGetExecutionPlanWorkspaceSize in graph requires cuDNN ";
    assert!(list("9.0").stdout.contains(line), "{:#?}", list("9.0"));
    assert_eq!((list("99.0").code, list("99.0").stdout.as_str()), (Some(0), ""));
    assert_eq!(list("nine").code, Some(1));
}

#[test]
fn create_handle_is_linked_to_cudnn() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let arguments = ["--package", "cudnn-sys", "--features", "link-graph", "--example", "create_handle"];
    let program = linked("create_handle", &arguments, &real);
    assert!(dynamic_entries(&program, "NEEDED").contains(&"libcudnn_graph.so.9".to_owned()));
    let output = Child::bare(&program).env("LD_LIBRARY_PATH", &real).run(&[]);
    assert!(output.stdout.starts_with("cuDNN 91900\n"), "{output:#?}");
    let has_failed = output.code == Some(1) && output.stderr.contains("cudnnCreate returned CUDNN_STATUS_");
    assert!(has_failed || output.stdout.ends_with("created a handle\n"), "{output:#?}");
}
