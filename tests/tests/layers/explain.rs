//! Tests the layer `explain`, which names the cause if no plan of a graph works. The program must not see a difference.

use support::{Child, ChildOutput, PlanningLibraries, Subject, TempDir, is_full};

use crate::planning::{Planning, random_programs};
use crate::plans::PLANNER;

pub(super) struct Explaining {
    /// Up to 9.10.2, cuDNN returns a more specific last error once any callback was set.
    changes_texts: bool,
    dir: TempDir,
    cudnn: std::path::PathBuf,
    libraries: PlanningLibraries,
}

impl Explaining {
    pub(super) fn new(test: &str, release: &str) -> Option<Self> {
        let (libraries, cudnn) = PlanningLibraries::for_release(test, release)?;
        let dir = TempDir::new();
        // Programs may pass the description with its NUL.
        std::fs::write(dir.path().join("h200.json"), format!("{}\0", cudnn_backend::device::H200.trim_end())).unwrap();
        Some(Explaining { changes_texts: release.ends_with("9.10.2"), dir, cudnn, libraries })
    }

    fn child(&self) -> Child {
        Child::new(PLANNER, Subject::Loader, &self.cudnn).env("LD_LIBRARY_PATH", &self.libraries.path)
    }

    fn run_as(&self, child: Child, layers: &str, graphs: &[&str]) -> ChildOutput {
        let device = self.dir.path().join("h200.json").display().to_string();
        child.run_successfully(&[&[layers, "explain", &device], graphs].concat())
    }

    /// Runs the program with and without the layer, and returns the reports.
    pub(super) fn reports(&self, graphs: &[&str]) -> Vec<String> {
        let without = self.run_as(self.child(), "none", graphs);
        let with = self.run_as(self.child(), "explain", graphs);
        if self.changes_texts {
            let lines = |output: &str| {
                output.lines().map(|line| line.split(" (2000) ").next().unwrap().to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(lines(&without.stdout), lines(&with.stdout));
        } else {
            assert_eq!(without.stdout, with.stdout);
        }
        assert_eq!(without.stderr, "");
        reports(&with.stderr)
    }

    /// Like [`reports`](Self::reports), on a machine without NVRTC.
    pub(super) fn reports_without_nvrtc(&self, graphs: &[&str]) -> Vec<String> {
        let dirs = self.libraries.path.split(':').filter(|dir| !dir.contains("nvrtc"));
        let path = dirs.collect::<Vec<_>>().join(":");
        let output = self.run_as(self.child().env("LD_LIBRARY_PATH", &path), "explain", graphs);
        reports(&output.stderr)
    }
}

fn reports(stderr: &str) -> Vec<String> {
    let reports = stderr.split("cudnn-explain: ").filter(|report| !report.is_empty());
    reports.map(str::to_owned).collect()
}

pub(super) fn first_lines(report: &str) -> String {
    report.lines().take(3).collect::<Vec<_>>().join("\n")
}

/// Asserts that the reports about these graphs name the cause and a change that makes the graph supported.
pub(super) fn assert_names_causes(explaining: &Explaining) {
    let reports = explaining.reports(&["mixed-types", "broadcast", "float-filter", "works", "mixed-types"]);
    let [mixed, broadcast, filter] = reports.as_slice() else { panic!("{reports:#?}") };
    for (report, label, cause, change) in [
        (mixed, "matmul a[4,64,64] half b[4,64,64] bfloat16 -> c[4,64,64] half", "DATA_TYPE", "b (tensor 2) is half"),
        (broadcast, "add x[4,64,64] b[1,3,64] float", "none of", "b (tensor 2) has the extents [1, 1, 64]"),
        (filter, "conv_fwd x[4,16,14,14] half w[32,16,3,3] float", "DATA_TYPE", "w (tensor 2) is half"),
    ] {
        let mut lines = report.lines();
        let (first, second) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(first.starts_with("no engine supports ") && first.contains(label), "{report}");
        assert!(second.starts_with("  cause: ") && second.contains(cause), "{report}");
        let changes: Vec<&str> = lines.take_while(|line| !line.starts_with("  graph:")).collect();
        assert!(changes[0].starts_with("  supported if: "), "{report}");
        assert!(changes.iter().any(|line| line.contains(change)), "{report}");
        assert!(report.contains("  heuristics mode_a: 0 proposals"), "{report}");
    }
    assert!(mixed.contains("  1. matmul  a=1 [4,64,64] half, b=2 [4,64,64] bfloat16 -> c=3 [4,64,64] half"), "{mixed}");
}

#[test]
fn the_cause_and_a_supported_change_are_named() {
    let test = "the_cause_and_a_supported_change_are_named";
    let Some(explaining) = Explaining::new(test, "jit-cu12-9.19.0") else { return };
    assert_names_causes(&explaining);
    let reports = explaining.reports(&["integers"]);
    let [report] = reports.as_slice() else { panic!("{reports:#?}") };
    assert!(report.starts_with("all 2 plans failed for conv_fwd"), "{report}");
    assert!(first_lines(report).contains("COMPILATION_FAILED"), "{report}");
    assert!(report.contains("2 plans of the program failed with INTERNAL_ERROR_COMPILATION_FAILED"), "{report}");
    assert!(report.contains("supported if: all operations compute in int32"), "{report}");
    // The change concerns a tensor of the first operation.
    let reports = explaining.reports(&["fused-mixed-types"]);
    let [report] = reports.as_slice() else { panic!("{reports:#?}") };
    assert!(report.contains("supported if: b (tensor 2) is half instead of bfloat16"), "{report}");
}

/// PyTorch describes a graph for each mode, destroys it before it tries the plans, and ignores some proposals.
#[test]
fn graphs_that_are_described_again_are_one_graph() {
    let test = "graphs_that_are_described_again_are_one_graph";
    let Some(explaining) = Explaining::new(test, "jit-cu12-9.19.0") else { return };
    assert_eq!(explaining.reports(&["retry:works"]), [""; 0]);
    let reports = explaining.reports(&["retry:integers", "retry:integers"]);
    let [report] = reports.as_slice() else { panic!("{reports:#?}") };
    assert!(report.starts_with("the only plan failed for conv_fwd"), "{report}");
    assert!(report.contains("mode_a: 1 proposal\n") && report.contains("mode_fallback: 1 proposal\n"), "{report}");
    assert!(!report.contains("the program ended"), "{report}");
    let reports = explaining.reports(&["retry:mixed-types"]);
    assert!(matches!(reports.as_slice(), [report] if report.starts_with("no engine supports")), "{reports:#?}");
}

#[test]
fn graphs_without_an_end_are_reported_at_exit() {
    let test = "graphs_without_an_end_are_reported_at_exit";
    let Some(explaining) = Explaining::new(test, "jit-cu12-9.19.0") else { return };
    let reports = explaining.reports(&["leak:mixed-types", "leak:works"]);
    let [report] = reports.as_slice() else { panic!("{reports:#?}") };
    assert!(report.starts_with("the program found no engine") && report.contains("the program ended"), "{report}");
    assert!(report.contains("heuristics mode_a: 0 proposals"), "{report}");
}

#[test]
fn failed_executions_are_reported() {
    let Some(explaining) = Explaining::new("failed_executions_are_reported", "jit-cu12-9.19.0") else { return };
    let reports = explaining.reports(&["execute:works"]);
    let [report] = reports.as_slice() else { panic!("{reports:#?}") };
    assert!(report.starts_with("all executions failed for conv_fwd"), "{report}");
    let cause = report.lines().nth(1).unwrap();
    assert!(cause.contains("cause: executions failed: BAD_PARAM") && cause.ends_with(" (1 time)"), "{report}");
}

#[test]
fn a_missing_library_is_named_first() {
    let Some(explaining) = Explaining::new("a_missing_library_is_named_first", "jit-cu12-9.19.0") else { return };
    let reports = explaining.reports_without_nvrtc(&["works"]);
    let [report] = reports.as_slice() else { panic!("{reports:#?}") };
    assert!(first_lines(report).contains("engines: libnvrtc.so.12 was not found"), "{report}");
    assert!(!report.contains("supported if"), "{report}");
}

#[test]
fn a_rule_that_blocks_all_engines_is_the_cause() {
    let test = "a_rule_that_blocks_all_engines_is_the_cause";
    let Some(explaining) = Explaining::new(test, "jit-cu12-9.19.0") else { return };
    let rules = explaining.dir.path().join("rules.json");
    let rule = r#"{"errata":1,"rules":[{"name":"all","reason":"a test blocks it","operations":["conv_fwd"]}]}"#;
    std::fs::write(&rules, rule).unwrap();
    let child = explaining.child().env("CUDNN_ERRATA", rules.display().to_string());
    let output = explaining.run_as(child, "explain,errata", &["works"]);
    let reports = reports(&output.stderr);
    let report = reports.iter().find(|report| report.starts_with("all ")).unwrap();
    assert!(first_lines(report).contains("blocked by the erratum all: a test blocks it"), "{report}");
    // The engines have the same reason.
    assert_eq!(report.matches("blocked by the erratum").count(), 2, "{report}");
}

#[test]
fn the_layer_plans_ignores_plans_that_are_only_tried() {
    let test = "the_layer_plans_ignores_plans_that_are_only_tried";
    let Some(explaining) = Explaining::new(test, "jit-cu12-9.19.0") else { return };
    let [without, with] = ["explain,trace", "explain,plans,trace"].map(|layers| {
        let lines = explaining.dir.path().join(layers);
        let child = explaining.child().env("CUDNN_PLANS_DIR", explaining.dir.path().join("plans"));
        explaining.run_as(child.env("CUDNN_TRACE_LINES", &lines), layers, &["mixed-types"]);
        std::fs::read_to_string(lines).unwrap().matches("cudnnBackendGetAttribute").count()
    });
    assert!(without > 0);
    assert_eq!(with, without);
}

/// The program's callback stays the same and receives no messages about the layer's calls, also in other threads.
#[test]
fn the_callback_of_the_program_notices_nothing() {
    let test = "the_callback_of_the_program_notices_nothing";
    let Some(explaining) = Explaining::new(test, "jit-cu12-9.19.0") else { return };
    let failing = ["mixed-types", "callback", "broadcast", "callback"];
    for graphs in [
        ["callback"].into_iter().chain(failing).collect::<Vec<_>>(),
        ["set-callback"].into_iter().chain(failing).collect(),
        failing.into_iter().chain(["set-callback"]).chain(failing).collect(),
    ] {
        assert_eq!(explaining.reports(&graphs).len(), 2);
    }
    // The callback sets another one, which causes a message.
    assert_eq!(explaining.reports(&["replace-callback", "mixed-types", "callback"]).len(), 1);
    let in_threads = ["set-callback", "threads", "mixed-types", "broadcast", "float-filter", "works", "mixed-types"];
    assert_eq!(explaining.reports(&in_threads).len(), 3);
}

#[test]
fn reports_go_to_the_selected_file() {
    let Some(explaining) = Explaining::new("reports_go_to_the_selected_file", "jit-cu12-9.19.0") else { return };
    let file = explaining.dir.path().join("reports.txt");
    let child = explaining.child().env("CUDNN_EXPLAIN_OUTPUT", file.display().to_string());
    let output = explaining.run_as(child, "explain", &["mixed-types"]);
    assert_eq!(output.stderr, "");
    assert!(std::fs::read_to_string(file).unwrap().starts_with("cudnn-explain: no engine supports matmul"));
    let output = explaining.run_as(explaining.child().env("CUDNN_EXPLAIN", "yes"), "explain", &["mixed-types"]);
    assert!(output.stderr.contains(r#"CUDNN_EXPLAIN="yes" is neither `failures` nor `used`"#), "{output:#?}");
}

#[test]
fn random_programs_see_no_difference_and_their_engines_are_shown() {
    let test = "random_programs_see_no_difference_and_their_engines_are_shown";
    if support::is_emulated(test, "an emulator is slow") {
        return;
    }
    let stand_in = Planning::stand_in();
    let lines = stand_in.dir.path().join("lines.txt");
    let run = |layers: &str, reports: &str, args: &[&str]| {
        let child = stand_in.child().env("CUDNN_EXPLAIN", reports).env("CUDNN_TRACE_LINES", &lines);
        child.run_successfully(&[&[layers], args].concat())
    };
    let [single, threads] = random_programs();
    let programs = [single, threads, &["variants"], &["throw"], &["ask-back"], &["last-error"]];
    let combinations = [("explain", "used"), ("trace,explain,validate,errata,plans", "failures")];
    // An ordinary run tries each program with one of them.
    let of_program = |number: usize| if is_full() { &combinations[..] } else { &combinations[number % 2..][..1] };
    let cases =
        programs.iter().enumerate().flat_map(|(number, args)| of_program(number).iter().map(move |it| (args, it)));
    for (args, (layers, reports)) in cases {
        let (without, with) = (run("none", "", args).stdout, run(layers, reports, args).stdout);
        let mut lines = without.lines().zip(with.lines());
        let difference = lines.find(|(without, with)| without != with);
        assert!(without == with, "{layers} {reports} {args:?}: {difference:#?}");
    }
    let used = run("explain", "used", single).stderr;
    let line = used.lines().find(|line| line.contains("; engine ")).unwrap_or_else(|| panic!("{used}"));
    assert!(line.starts_with("cudnn-explain: used: ") && line.contains("; built in "), "{line}");
    // A trace shows the same label.
    let label = line.trim_start_matches("cudnn-explain: used: ").split("; built in ").next().unwrap();
    run("trace,explain", "used", single);
    let trace = std::fs::read_to_string(lines).unwrap();
    assert!(trace.lines().any(|line| line.contains("cudnnBackendExecute") && line.ends_with(label)), "{label}");
}
