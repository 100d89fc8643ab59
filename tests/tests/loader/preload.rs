//! Preloading: loading libraries before the first call.

use std::path::Path;

use cudnn_loader::DIR_VARIABLE;
use cudnn_probe::Library;
use support::{Child, ChildOutput, lib_dir, not_run};

use super::{DRIVER, child, complete_jit, mapped, run};

#[test]
fn a_preload_loads_what_is_installed_and_registers_the_engines_without_a_device() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    for options in ["preload:engines", "preload:engines,background", "preload:engines,twice"] {
        let output = run(child(&real), &[options, "maps", "cudnnGetVersion"]);
        let steps = steps(&output);
        let of = |name: &str| -> Vec<&str> {
            steps.iter().filter(|(step, _)| step == name).map(|(_, outcome)| outcome.as_str()).collect()
        };
        let count = if options.contains("twice") { 2 } else { 1 };
        for step in ["select cuDNN", "load libcudnn_graph.so.9", "register engines"] {
            assert_eq!(of(step), vec!["done"; count], "{output:#?}");
        }
        assert!(of("load libcudnn_ops.so.9").iter().all(|outcome| outcome.starts_with("skipped")), "{output:#?}");
        let engines = mapped(&output).iter().any(|file| file.ends_with("libcudnn_engines_runtime_compiled.so.9"));
        assert!(engines, "{output:#?}");
        assert_eq!(output.returned("cudnnGetVersion"), Some("91900"));
    }
}

#[test]
fn a_preload_that_fails_names_the_step_and_leaves_the_rest_usable() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let dir = complete_jit(&real);
    std::fs::write(dir.cleared(Library::Cnn), "not a library").unwrap();
    let args = ["preload:", "cudnnDestroyTensorDescriptor", "cudnnDestroyConvolutionDescriptor"];
    let output = run(child(dir.path()), &args);
    let arg = output.returned("preload").unwrap_or_default();
    assert!(arg.starts_with("failed at load libcudnn_cnn.so.9"), "{output:#?}");
    assert_eq!(output.returned("cudnnDestroyTensorDescriptor"), Some("CUDNN_STATUS_SUCCESS (0)"), "{output:#?}");
    assert!(output.last_error("cudnnDestroyConvolutionDescriptor").contains("is not an ELF file"), "{output:#?}");

    if Path::new("/proc/driver/nvidia/version").exists() {
        let test = "a_preload_that_fails_names_the_step_and_leaves_the_rest_usable";
        not_run(test, "the part without a driver: this machine has one");
    } else {
        let output = run(child(&real), &["preload:context,engines", "cudnnGetVersion"]);
        let arg = output.returned("preload").unwrap_or_default();
        assert!(arg.starts_with("failed at start the driver") && arg.contains("libcuda.so.1"), "{output:#?}");
        assert_eq!(output.returned("cudnnGetVersion"), Some("91900"));
    }
    let output = run(Child::bare(DRIVER).env(DIR_VARIABLE, "/nowhere"), &["preload:engines"]);
    assert!(output.returned("preload").unwrap_or_default().starts_with("failed at select cuDNN"), "{output:#?}");
}

/// Before 9.8, cuDNN cannot plan without a device; without cuBLASLt it would abort the process.
#[cfg(feature = "full-releases")]
#[test]
fn engines_are_skipped_where_registering_them_is_impossible_or_unsafe() {
    for (id, outcome) in [
        ("cu12-9.0.0", "skipped: cuDNN 9.0.0 needs a context"),
        ("cu12-9.10.2", "done"),
        ("cu12-9.28.0", "skipped: ld.so does not find libcublasLt.so.12"),
    ] {
        let Some(real) = lib_dir(id) else { return };
        let output = run(child(&real), &["preload:engines"]);
        let engines = steps(&output).into_iter().find(|(step, _)| step == "register engines").unwrap();
        assert!(engines.1.starts_with(outcome), "{id}: {output:#?}");
        assert_eq!(output.returned("preload"), Some("done"), "{id}: {output:#?}");
    }
}

/// The steps of a preload that the child printed, with their outcomes.
fn steps(output: &ChildOutput) -> Vec<(String, String)> {
    let step = |line: &str| {
        let (step, outcome) = line.strip_prefix("step ")?.split_once(" = ")?;
        Some((step.to_owned(), outcome.to_owned()))
    };
    output.stdout.lines().filter_map(step).collect()
}
