//! Tests preloading, which loads libraries before the first call.

use std::path::Path;

use cudnn_loader::DIR_VARIABLE;
use cudnn_probe::Library;
use support::{Child, ChildOutput, PlanningLibraries, TempDir, compile, lib_dir, not_run};

use super::{DRIVER, child, complete_jit, graph_with, mapped, run};

#[test]
fn a_preload_loads_installed_libraries_and_registers_the_engines_without_a_device() {
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

/// Checks that these releases accept the device description that registers their engines.
fn check_described(test: &str, releases: &[&str]) {
    let Some(libraries) = PlanningLibraries::with_nvrtc(test) else { return };
    for id in releases {
        let Some(real) = lib_dir(id) else { return };
        let output = run(child(&real).env("LD_LIBRARY_PATH", &libraries.path), &["preload:engines"]);
        let engines = steps(&output).into_iter().find(|(step, _)| step == "register engines").unwrap();
        assert_eq!(engines.1, "done", "{id}: {output:#?}");
        assert_eq!(output.returned("preload"), Some("done"), "{id}: {output:#?}");
    }
}

/// Includes releases from before and after the format of the device description changed.
#[test]
fn every_release_accepts_the_device_description_that_registers_its_engines() {
    let test = "every_release_accepts_the_device_description_that_registers_its_engines";
    check_described(test, &["jit-cu12-9.19.0", "jit-cu13-9.27.0"]);
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn every_full_release_accepts_the_device_description_that_registers_its_engines() {
    let test = "every_full_release_accepts_the_device_description_that_registers_its_engines";
    check_described(test, &["cu12-9.10.2", "cu12", "cu13"]);
}

#[test]
fn an_unexpected_status_of_the_registration_of_engines_is_reported() {
    // Descriptors are identified by the number of their kind, where 4 is heuristics.
    let code = |faulty: &str| {
        format!(
            "int cudnnBackendCreateDescriptor(long kind, long *descriptor) {{ *descriptor = kind; return 0; }}
             int cudnnBackendGetAttribute(void *d, int name, int type, long max, long *count, void *to)
             {{ *count = 1; return 0; }}
             int cudnnBackendFinalize(long kind) {{ {faulty} return 0; }}"
        )
    };
    for (faulty, outcome) in [
        ("", "done"),
        // The description of a device, and the heuristics.
        ("if (kind == 38) return 2000;", "failed: CUDNN_STATUS_BAD_PARAM (2000): "),
        ("if (kind == 4) return 4000;", "failed: CUDNN_STATUS_INTERNAL_ERROR (4000): "),
        // Engines that do not support the convolution.
        ("if (kind == 4) return 3008;", "skipped: "),
        ("if (kind == 4) return 1008;", "skipped: libcuda.so.1 was not found: "),
    ] {
        let dir = graph_with(&code(faulty));
        let output = run(child(dir.path()), &["preload:engines"]);
        let engines = steps(&output).into_iter().find(|(step, _)| step == "register engines").unwrap();
        let is_driver_failure = engines.1.starts_with("failed: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED");
        let has_driver = Path::new("/proc/driver/nvidia/version").exists();
        assert!(engines.1.starts_with(outcome) || (is_driver_failure && has_driver), "{faulty}: {output:#?}");
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
        not_run(test, "the part without a driver: a driver is installed");
    } else {
        let output = run(child(&real), &["preload:context,engines", "cudnnGetVersion"]);
        let arg = output.returned("preload").unwrap_or_default();
        assert!(arg.starts_with("failed at start the driver") && arg.contains("libcuda.so.1"), "{output:#?}");
        assert_eq!(output.returned("cudnnGetVersion"), Some("91900"));
    }
    let output = run(Child::bare(DRIVER).env(DIR_VARIABLE, "/nowhere"), &["preload:engines"]);
    assert!(output.returned("preload").unwrap_or_default().starts_with("failed at select cuDNN"), "{output:#?}");
}

/// Before 9.8, cuDNN cannot plan without a device. Without cuBLASLt, it would abort the process.
#[test]
#[ignore = "downloads full releases of cuDNN"]
fn engines_are_skipped_where_registering_them_is_impossible_or_unsafe() {
    for (id, outcome) in [
        ("cu12-9.0.0", "skipped: cuDNN 9.0.0 cannot register engines without a context"),
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

/// A driver with three devices. The words in `FAKE_DRIVER` select faults, and whether threads have a context.
const FAKE_DRIVER: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    static int is(const char *word) { return strstr(getenv("FAKE_DRIVER"), word) != 0; }
    int cuInit(unsigned flags) { return is("no-gpu") ? 100 : 0; }
    int cuDeviceGetCount(int *count) { *count = 3; return is("uncounted") ? 3 : 0; }
    int cuCtxGetCurrent(void **context) { *context = is("current") ? context : 0; return is("unasked") ? 3 : 0; }
    int cuCtxGetDevice(int *device) { *device = 2; return is("nameless") ? 201 : 0; }
    #ifndef TOO_OLD
    int cuDevicePrimaryCtxRetain(void **context, int device) {
        if (device == 1 && is("lost")) return 46;
        dprintf(2, "created %d\n", device);
        *context = context;
        return 0;
    }
    #endif
"#;

#[test]
fn contexts_are_created_for_the_requested_devices() {
    let dir = graph_with("");
    let (driver, too_old) = (TempDir::new(), TempDir::new());
    for (dir, flag) in [(&driver, "-w"), (&too_old, "-DTOO_OLD")] {
        let file = dir.path().join("libcuda.so.1");
        compile(FAKE_DRIVER, &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", flag], &file);
    }
    let open = format!("open:{}", driver.path().join("libcuda.so.1").display());
    // Whether the driver is loaded, its behavior, the devices, the devices with a context, and the result.
    let cases: [(bool, &str, &str, &[&str], &str); 12] = [
        (false, "", "context", &["0"], "done"),
        // The driver is not called unless the program has loaded it.
        (false, "current", "context", &["0"], "done"),
        (true, "", "context", &["0"], "done"),
        (true, "current", "context", &["2"], "done"),
        (true, "current unasked", "context", &["0"], "done"),
        (true, "current nameless", "context", &["0"], "done"),
        (false, "", "all-devices", &["0", "1", "2"], "done"),
        (false, "", "device=2,device=1", &["1", "2"], "done"),
        (
            false,
            "lost",
            "all-devices",
            &["0", "2"],
            "failed at create the context of device 1: failed: NOT_INITIALIZED: cuDevicePrimaryCtxRetain: CUresult 46",
        ),
        (false, "no-gpu", "context", &[], "failed at start the driver: failed: NOT_INITIALIZED: cuInit: CUresult 100"),
        (
            false,
            "uncounted",
            "all-devices",
            &[],
            "failed at start the driver: failed: NOT_INITIALIZED: cuDeviceGetCount: CUresult 3",
        ),
        (
            false,
            "too-old",
            "context",
            &[],
            "failed at create the context of device 0: failed: NOT_INITIALIZED: libcuda.so.1: does not export cuDevicePrimaryCtxRetain",
        ),
    ];
    for (is_loaded, fake, devices, contexts, outcome) in cases {
        let path = if fake == "too-old" { too_old.path() } else { driver.path() };
        let child = child(dir.path()).env("LD_LIBRARY_PATH", path).env("FAKE_DRIVER", fake);
        let preload = format!("preload:{devices}");
        let args: Vec<&str> = is_loaded.then_some(open.as_str()).into_iter().chain([preload.as_str()]).collect();
        let output = run(child, &args);
        let case = format!("{is_loaded} {fake} {devices}: {output:#?}");
        let outcome = outcome.replace("NOT_INITIALIZED", "CUDNN_STATUS_NOT_INITIALIZED (1001)");
        assert_eq!(output.returned("preload"), Some(&*outcome), "{case}");
        let steps = steps(&output);
        let done: Vec<&str> = steps.iter().filter(|(_, outcome)| outcome == "done").map(|(step, _)| &**step).collect();
        let mut created: Vec<&str> =
            done.iter().filter_map(|step| step.strip_prefix("create the context of device ")).collect();
        created.sort_unstable();
        assert_eq!(created, contexts, "{case}");
        for device in contexts {
            assert!(output.stderr.contains(&format!("created {device}\n")), "{case}");
        }
        assert_eq!(output.stderr.lines().count(), contexts.len(), "{case}");
    }
}

/// Returns the steps of a preload that the child printed, with their results.
fn steps(output: &ChildOutput) -> Vec<(String, String)> {
    let step = |line: &str| {
        let (step, outcome) = line.strip_prefix("step ")?.split_once(" = ")?;
        Some((step.to_owned(), outcome.to_owned()))
    };
    output.stdout.lines().filter_map(step).collect()
}
