//! Loading ahead of the first call.

use std::path::Path;

use cudnn_loader::DIR_VARIABLE;
use cudnn_probe::Library;
use support::{Child, ChildOutput, lib_dir};

use super::{DRIVER, child, completed, mapped, run};

#[test]
fn a_preload_loads_what_is_installed_and_registers_the_engines_without_a_device() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    for wishes in ["preload:engines", "preload:engines,background", "preload:engines,twice"] {
        let ended = run(child(&real), &[wishes, "maps", "cudnnGetVersion"]);
        let steps = steps(&ended);
        let of = |name: &str| -> Vec<&str> {
            steps.iter().filter(|(step, _)| step == name).map(|(_, outcome)| outcome.as_str()).collect()
        };
        let count = if wishes.contains("twice") { 2 } else { 1 };
        for step in ["find cuDNN", "load libcudnn_graph.so.9", "register engines"] {
            assert_eq!(of(step), vec!["done"; count], "{ended:#?}");
        }
        assert!(of("load libcudnn_ops.so.9").iter().all(|outcome| outcome.starts_with("left out")), "{ended:#?}");
        let engines = mapped(&ended).iter().any(|file| file.ends_with("libcudnn_engines_runtime_compiled.so.9"));
        assert!(engines, "{ended:#?}");
        assert_eq!(ended.returned("cudnnGetVersion"), Some("91900"));
    }
}

#[test]
fn a_preload_that_fails_names_the_step_and_leaves_the_rest_usable() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let folder = completed(&real);
    std::fs::write(folder.cleared(Library::Cnn), "not a library").unwrap();
    let words = ["preload:", "cudnnDestroyTensorDescriptor", "cudnnDestroyConvolutionDescriptor"];
    let ended = run(child(folder.path()), &words);
    let word = ended.returned("preload").unwrap_or_default();
    assert!(word.starts_with("failed at load libcudnn_cnn.so.9"), "{ended:#?}");
    assert_eq!(ended.returned("cudnnDestroyTensorDescriptor"), Some("CUDNN_STATUS_SUCCESS (0)"), "{ended:#?}");
    assert!(ended.last_error("cudnnDestroyConvolutionDescriptor").contains("is not an ELF file"), "{ended:#?}");

    if !Path::new("/proc/driver/nvidia/version").exists() {
        let ended = run(child(&real), &["preload:context,engines", "cudnnGetVersion"]);
        let word = ended.returned("preload").unwrap_or_default();
        assert!(word.starts_with("failed at start the driver") && word.contains("libcuda.so.1"), "{ended:#?}");
        assert_eq!(ended.returned("cudnnGetVersion"), Some("91900"));
    }
    let ended = run(Child::bare(DRIVER).env(DIR_VARIABLE, "/nowhere"), &["preload:engines"]);
    assert!(ended.returned("preload").unwrap_or_default().starts_with("failed at find cuDNN"), "{ended:#?}");
}

/// Before 9.8 there is no planning without a device; where cuBLASLt is missing, cuDNN would end the process.
#[cfg(feature = "full-releases")]
#[test]
fn engines_are_skipped_where_registering_them_is_impossible_or_unsafe() {
    for (id, outcome) in [
        ("cu12-9.0.0", "left out: this cuDNN is 9.0.0"),
        ("cu12-9.10.2", "done"),
        ("cu12-9.28.0", "left out: libcublasLt.so.12"),
    ] {
        let Some(real) = lib_dir(id) else { return };
        let ended = run(child(&real), &["preload:engines"]);
        let engines = steps(&ended).into_iter().find(|(step, _)| step == "register engines").unwrap();
        assert!(engines.1.starts_with(outcome), "{id}: {ended:#?}");
        assert_eq!(ended.returned("preload"), Some("done"), "{id}: {ended:#?}");
    }
}

/// The steps of a preload that the child printed, with what came of each.
fn steps(ended: &ChildOutput) -> Vec<(String, String)> {
    let step = |line: &str| {
        let (step, outcome) = line.strip_prefix("step ")?.split_once(" = ")?;
        Some((step.to_owned(), outcome.to_owned()))
    };
    ended.stdout.lines().filter_map(step).collect()
}
