//! Tests release-specific behavior without a GPU, with an old release, a middle one and the newest pinned one.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use support::{Child, ChildOutput, PlanningLibraries, TempDir};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");
const PLANNER: &str = env!("CARGO_BIN_EXE_planner");

/// A real release, with all dependencies for compiling a plan for a described H200.
struct Release {
    id: &'static str,
    dir: PathBuf,
    /// An engine that compiles the planner's convolution at run time.
    engine: &'static str,
    libraries: PlanningLibraries,
    device: PathBuf,
    work: TempDir,
}

/// Returns the releases. If the driver library is unavailable, prints the reason and returns an empty list.
fn releases(test: &str) -> Vec<Release> {
    let newest = support::full_releases().max_by_key(|release| release.cudnn_version()).unwrap();
    let row = |(id, engine)| {
        let work = TempDir::new();
        let device = work.path().join("h200.json");
        std::fs::write(&device, cudnn_backend::device::H200).unwrap();
        let (libraries, dir) = PlanningLibraries::for_release(test, id)?;
        Some(Release { id, dir, engine, libraries, device, work })
    };
    [("cu12-9.10.2", "71"), ("jit-cu12-9.19.0", "7"), (newest.id, "71")].into_iter().filter_map(row).collect()
}

impl Release {
    fn child(&self, program: impl AsRef<std::ffi::OsStr>) -> Child {
        Child::bare(program).env("CUDNN_LOADER_DIR", &self.dir).env("LD_LIBRARY_PATH", &self.libraries.path)
    }

    fn plan(&self, layers: &str) -> ChildOutput {
        let child = self
            .child(PLANNER)
            .env("CUDNN_PLANS_DIR", self.work.path().join("plans"))
            .env("CUDNN_LOGLEVEL_DBG", "3")
            .env("CUDNN_TRACE", self.work.path().join("trace.json"));
        let output = child.run(&[layers, "real", self.engine, self.device.to_str().unwrap()]);
        assert_eq!(output.code, Some(0), "{}: {output:#?}", self.id);
        assert!(!output.stdout.contains("failed"), "{}: {output:#?}", self.id);
        output
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn each_release_plans_for_a_described_device() {
    for release in releases("each_release_plans_for_a_described_device") {
        let output = release.child(support::example("cudnn-backend", "plan_without_gpu")).run(&[]);
        assert_eq!(output.code, Some(0), "{}: {output:#?}", release.id);
        let plans = output.stdout.lines().filter(|line| line.starts_with("  workspace ")).count();
        assert!(plans > 5, "{}: {output:#?}", release.id);
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn plans_of_every_release_are_cached_and_restored() {
    for release in releases("plans_of_every_release_are_cached_and_restored") {
        let without = release.plan("none");
        assert_eq!(without.stdout.lines().count(), 3, "{}: {without:#?}", release.id);
        for (start, expected) in [("cold", "plan built in "), ("warm", "plan restored in ")] {
            let output = release.plan("plans");
            assert_eq!(output.stderr.matches(expected).count(), 3, "{}, {start}: {output:#?}", release.id);
        }
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn traces_of_every_release_contain_the_plans() {
    for release in releases("traces_of_every_release_contain_the_plans") {
        release.plan("trace");
        let text = std::fs::read(release.work.path().join("trace.json")).unwrap();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        let named = |name: &str| trace.as_array().unwrap().iter().filter(|event| event["name"] == name).count();
        assert!(named("cudnnBackendFinalize") > 20, "{}: {}", release.id, String::from_utf8_lossy(&text));
        assert!(String::from_utf8_lossy(&text).contains("convolution"), "{}", release.id);
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn verbose_errors_name_the_reason_in_every_release() {
    for release in releases("verbose_errors_name_the_reason_in_every_release") {
        let child = release.child(DRIVER).env("CUDNN_LOADER_VERBOSE_ERRORS", "1");
        let output = child.run(&["finalize:1", "error-string:2000"]);
        let text = output.returned("error-string").unwrap_or_default();
        assert!(
            text.starts_with("CUDNN_STATUS_BAD_PARAM: ") && text.contains("finalize"),
            "{}: {output:#?}",
            release.id
        );
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn the_doctor_loads_each_release() {
    for release in releases("the_doctor_loads_each_release") {
        let mut doctor = Command::new(support::doctor());
        doctor.args(["check", "--json", "--verify"]).env_clear().env("CUDNN_LOADER_DIR", &release.dir);
        let output = doctor.env("LD_LIBRARY_PATH", &release.libraries.path).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let codes: Vec<&str> =
            report["findings"].as_array().unwrap().iter().filter_map(|finding| finding["code"].as_str()).collect();
        assert!(!codes.iter().any(|code| code.starts_with("C05")), "{}: {report:#}", release.id);
    }
}
