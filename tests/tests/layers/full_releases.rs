//! Tests the layers with full releases of cuDNN, and with programs that take a minute to compile.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_store::captures::{Capture, PlanRecord, Record, Status};
use cudnn_store::choices::{Capability, Choice, Device, EngineProblem, Ranking, Release};
use support::{Child, ChildOutput, PlanningLibraries, Subject, TempDir, lib_dir};

use crate::capture::{Capturing, assert_captures, assert_counts_calls};
use crate::errata::Blocking;
use crate::explain::{Explaining, assert_names_causes, first_lines};
use crate::planning::Planning;
use crate::plans::{FRONTEND, PLANNER, Real, assert_order_does_not_count, assert_variables_are_known, count};
use crate::tuned::{assert_filters_apply, assert_order};
use crate::validate::{messages, real_mistakes};

fn newest_id() -> &'static str {
    support::full_releases().max_by_key(|release| release.cudnn_version()).unwrap().id
}

fn newest() -> Option<PathBuf> {
    lib_dir(newest_id())
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn the_order_of_a_device_description_does_not_matter_in_the_newest_release() {
    let test = "the_order_of_a_device_description_does_not_matter_in_the_newest_release";
    let Some(real) = Real::with(test, newest_id(), "71") else { return };
    assert_order_does_not_count(&real);
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn variables_read_by_full_releases_are_known() {
    let Some(libraries) = PlanningLibraries::with_nvrtc("variables_read_by_full_releases_are_known") else { return };
    for cudnn in [lib_dir("cu12-9.10.2"), newest()].into_iter().flatten() {
        assert_variables_are_known(&cudnn, &libraries.path, cudnn_backend::device::H200, "71");
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn programs_for_captures_of_older_releases_plan_with_the_newest() {
    let test = "programs_for_captures_of_older_releases_plan_with_the_newest";
    crate::emit::assert_plans_with(test, newest_id());
}

/// cuDNN added the function in 9.23.
#[test]
#[ignore = "downloads full releases of cuDNN"]
fn a_real_cudnn_receives_all_arguments_of_its_newest_functions() {
    let test = "a_real_cudnn_receives_all_arguments_of_its_newest_functions";
    let (Some(libraries), Some(cudnn)) = (PlanningLibraries::with_nvrtc(test), newest()) else { return };
    let store = TempDir::new();
    for layers in ["none", "trace", "plans", "plans,trace", "trace,plans"] {
        let child = Child::new(PLANNER, Subject::Loader, &cudnn).env("LD_LIBRARY_PATH", &libraries.path);
        let output = child.env("CUDNN_PLANS_DIR", store.path()).run(&[layers, "workspace"]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), "2000 12345\n"), "{layers}: {output:#?}");
    }
}

struct Frontend {
    program: PathBuf,
    path: OsString,
}

impl Frontend {
    /// Compiles the program, which takes a minute. It also runs with older releases.
    fn compile(newest: &Real) -> Option<Self> {
        let (frontend, runtime) = (FRONTEND.unpacked()?, support::release("cuda-runtime-cu12")?);
        let (runtime, clients) =
            (runtime.join("nvidia/cuda_runtime"), Path::new(env!("CARGO_MANIFEST_DIR")).join("clients"));
        // NVRTC follows the driver library, and cuBLASLt follows NVRTC.
        let (driver, others) = newest.libraries.path.split_once(':').unwrap();
        let (nvrtc, cublas) = others.split_once(':').unwrap();
        let program = newest.dir.path().join("frontend");
        let mut compiler = support::cpp_compiler();
        compiler.args(["-std=c++17", "-w", "-o"]).arg(&program).arg(clients.join("frontend.cpp"));
        for include in [
            clients.join("frontend"),
            frontend.join("include"),
            newest.cudnn.join("../include"),
            Path::new(nvrtc).join("../include"),
            runtime.join("include"),
        ] {
            compiler.arg("-I").arg(include);
        }
        let libraries = [
            (support::drop_in().join("lib"), "libcudnn.so.9"),
            (PathBuf::from(driver), "libcuda.so.1"),
            (PathBuf::from(nvrtc), "libnvrtc.so.12"),
            (runtime.join("lib"), "libcudart.so.12"),
        ];
        for (dir, library) in &libraries {
            compiler.arg("-L").arg(dir).arg(format!("-l:{library}"));
        }
        support::run_compiler(compiler.arg("-ldl"));
        let path = libraries.iter().map(|(dir, _)| dir.as_path()).chain([Path::new(cublas)]);
        Some(Frontend { program, path: std::env::join_paths(path).unwrap() })
    }

    fn run(&self, real: &Real, layers: &str, variables: &[(&str, &Path)]) -> ChildOutput {
        let mut command = Command::new(&self.program);
        command.arg(&real.devices[0]).env("LD_LIBRARY_PATH", &self.path).env("CUDNN_LOADER_DIR", &real.cudnn);
        let output = command.env("CUDNN_LAYERS", layers).envs(variables.iter().copied()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let output = ChildOutput { signal: None, code: output.status.code(), stdout, stderr };
        let planned = output.stdout.lines().filter(|line| line.contains(", workspace")).count();
        assert_eq!(planned, 15, "{layers}: {output:#?}");
        output
    }
}

/// Runs with cuDNN 9.19 and with the newest release, whose headers take a minute to compile.
#[test]
#[ignore = "downloads full releases of cuDNN"]
fn plans_of_the_frontend_are_cached() {
    let test = "plans_of_the_frontend_are_cached";
    let (Some(newest), Some(older)) = (Real::with(test, newest_id(), "71"), Real::new(test)) else { return };
    let Some(frontend) = Frontend::compile(&newest) else { return };
    // With the newest release, two plans have no compiled code.
    for ((real, kept, refused), start) in
        [(&newest, 13, 0), (&older, 15, 0)].into_iter().flat_map(|case| ["cold", "warm"].map(|start| (case, start)))
    {
        let expected = if start == "cold" { (kept, 0) } else { (0, kept) };
        let store = real.dir.path().join("plans");
        let variables = [("CUDNN_LOGLEVEL_DBG", Path::new("3")), ("CUDNN_PLANS_DIR", &store)];
        let output = frontend.run(real, "validate,plans", &variables);
        assert_eq!(messages(&output), Vec::<String>::new(), "{start}: {output:#?}");
        assert_eq!((count(&output, "built in"), count(&output, "restored in")), expected, "{start}: {output:#?}");
        assert_eq!(count(&output, "not cached"), refused, "{start}: {output:#?}");
    }
}

/// The frontend builds plans of recommended engines, also for attention.
#[test]
#[ignore = "downloads full releases of cuDNN"]
fn programs_of_the_frontend_use_tuned_engines() {
    let test = "programs_of_the_frontend_use_tuned_engines";
    let (Some(newest), Some(older)) = (Real::with(test, newest_id(), "71"), Real::new(test)) else { return };
    let Some(frontend) = Frontend::compile(&newest) else { return };
    for real in [&newest, &older] {
        let [file, rankings] = ["app.cudnncap", "app.tuned.json"].map(|name| real.dir.path().join(name));
        let planned = |layers| {
            let _ = std::fs::remove_file(&file);
            frontend.run(real, layers, &[("CUDNN_CAPTURE", &file), ("CUDNN_TUNED", &rankings)]);
            PlannedGraphs::read(&file)
        };
        // Without a ranking, the heuristics choose. If their choices are wrong, the program uses the next engines.
        let untuned = planned("capture");
        let wrong = |choice| Choice { problem: Some(EngineProblem::Wrong("-".to_owned())), ..choice };
        std::fs::write(&rankings, untuned.rankings(wrong)).unwrap();
        let next = planned("capture,tuned");
        let changed: Vec<&String> = next.changed(&untuned).collect();
        assert!(changed.iter().any(|label| label.contains("sdpa")) && changed.len() > 5, "{changed:?}");
        // A ranking recommends these engines.
        std::fs::write(&rankings, next.rankings(|choice| choice)).unwrap();
        let tuned = planned("capture,tuned");
        assert_eq!(tuned.changed(&next).collect::<Vec<_>>(), Vec::<&String>::new());
        let is_first = |plan: &PlanRecord| plan.proposal.is_some_and(|(place, _)| place == 1);
        assert!(tuned.plans.values().all(|(_, plan)| is_first(plan)), "{:?}", tuned.plans);
    }
}

/// The newest release proposes 40 engines, some of which are nondeterministic or need a workspace.
#[test]
#[ignore = "downloads full releases of cuDNN"]
fn the_newest_release_proposes_tuned_engines_first() {
    let test = "the_newest_release_proposes_tuned_engines_first";
    assert_order(test, newest_id());
    assert_filters_apply(test, newest_id());
}

struct PlannedGraphs {
    cudnn: Release,
    plans: BTreeMap<String, (String, PlanRecord)>,
}

impl PlannedGraphs {
    fn read(file: &Path) -> Self {
        let capture = Capture::read(file).unwrap();
        let (mut cudnn, mut labels, mut plans) = (0, BTreeMap::new(), BTreeMap::new());
        for record in capture.records {
            match record {
                Record::Start(start) => cudnn = start.cudnn as u32,
                Record::Graph(graph) => drop(labels.insert(graph.graph, graph.label)),
                Record::Plan(plan) if plan.status == Status::SUCCESS => {
                    plans.insert(plan.graph.clone(), (labels[&plan.graph].clone(), plan));
                }
                _ => {}
            }
        }
        PlannedGraphs { cudnn: Release::from_number(cudnn), plans }
    }

    fn rankings(&self, choice: impl Fn(Choice) -> Choice) -> String {
        let ranking = |(graph, (label, plan)): (&String, &(String, PlanRecord))| {
            let engine = plan.engine.clone().unwrap();
            let planned = Choice { engine: engine.index, knobs: engine.knobs, ..Choice::default() };
            Ranking {
                cudnn: self.cudnn,
                device: Device { name: "NVIDIA H200".to_owned(), compute_capability: Capability::from_tenths(90) },
                graph: graph.clone(),
                label: label.clone(),
                executions: 1,
                default: None,
                engines: vec![choice(planned)],
                proposals: Default::default(),
            }
        };
        crate::tuned::file(self.plans.iter().map(ranking))
    }

    fn changed<'a>(&'a self, other: &'a PlannedGraphs) -> impl Iterator<Item = &'a String> {
        let is_changed =
            |(graph, (_, plan)): &(&String, &(String, PlanRecord))| plan.engine != other.plans[*graph].1.engine;
        self.plans.iter().filter(is_changed).map(|(_, (label, _))| label)
    }
}

/// The shipped rules block the affected plans of 9.10.2, and no plan of the newest release.
#[test]
#[ignore = "downloads full releases of cuDNN"]
fn known_errata_are_blocked_in_the_affected_releases() {
    let test = "known_errata_are_blocked_in_the_affected_releases";
    let Some(affected) = Blocking::real(test, "cu12-9.10.2") else { return };
    let (before, after) = (affected.run("none", "").stdout, affected.run("errata", "known").stdout);
    let mut blocked = HashSet::new();
    for (before, after) in before.lines().zip(after.lines()) {
        let rule = after.split_once("blocked by the erratum ").map(|(_, rule)| rule.split(':').next().unwrap());
        blocked.extend(rule);
        let is_3d = after.starts_with("3-d");
        match rule {
            Some("conv3d-bfloat16-wrong") => assert!(is_3d && after.contains("BFLOAT16"), "{after}"),
            // Only engines that use tensor cores compute in TF32.
            Some("conv3d-tf32-wrong") => assert!(is_3d && after.contains("FLOAT (0)"), "{after}"),
            _ => assert_eq!(before, after),
        }
        assert!(rule.is_some() || !(is_3d && after.contains("BFLOAT16")), "{after}");
    }
    assert_eq!(blocked.len(), 2, "{after}");
    let Some(newest) = Blocking::real(test, newest_id()) else { return };
    assert_eq!(newest.run("errata", "known").stdout, newest.run("none", "").stdout);
}

/// Full releases have some 80 engines for a convolution, and use cuBLASLt.
#[test]
#[ignore = "downloads full releases of cuDNN"]
fn causes_are_named_with_full_releases() {
    let test = "causes_are_named_with_full_releases";
    for release in ["cu12-9.10.2", newest_id()] {
        let Some(explaining) = Explaining::new(test, release) else { return };
        assert_names_causes(&explaining);
        if release == "cu12-9.10.2" {
            // Only engines that compile code support this graph. cuDNN 9.28 compiles it without NVRTC.
            let reports = explaining.reports_without_nvrtc(&["fused"]);
            let [report] = reports.as_slice() else { panic!("{reports:#?}") };
            assert!(first_lines(report).contains("engines: libnvrtc.so.12 was not found"), "{report}");
        }
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn captures_of_full_releases_are_complete() {
    let test = "captures_of_full_releases_are_complete";
    for release in ["cu12-9.10.2", newest_id()] {
        let Some(capturing) = Capturing::real(test, release) else { return };
        assert_captures(&capturing);
        assert_counts_calls(&capturing);
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn mistakes_are_named_in_full_releases() {
    let test = "mistakes_are_named_in_full_releases";
    for release in ["cu12-9.10.2", newest_id()] {
        let Some(validating) = Planning::real(test, release) else { return };
        // Newer releases accept a tensor that is not finalized.
        let mut mistakes = real_mistakes();
        mistakes.retain(|(number, _)| *number != 10 || release != newest_id());
        validating.assert_names(&mistakes);
        validating.assert_correct_programs_are_silent();
    }
}
