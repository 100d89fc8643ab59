//! Tests the layer `errata`: it blocks exactly the plans that a rule selects.

use std::path::{Path, PathBuf};

use support::{Child, ChildOutput, Subject, TempDir, lib_dir};

use crate::capture;
use crate::planning::{Planning, random_programs};
use crate::plans::PLANNER;

fn file(dir: &Path, conditions: &[&str]) -> String {
    let rules = conditions
        .iter()
        .enumerate()
        .map(|(number, conditions)| format!(r#"{{"name":"rule-{number}","reason":"a test blocks it",{conditions}}}"#));
    let file = dir.join("rules.json");
    let text = format!(r#"{{"errata":1,"rules":[{}]}}"#, rules.collect::<Vec<_>>().join(","));
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

pub(super) struct Blocking {
    planning: Planning,
}

impl Blocking {
    pub(super) fn real(test: &str, release: &str) -> Option<Self> {
        Some(Blocking { planning: Planning::real(test, release)? })
    }

    /// Uses a stand-in with plans that need 1 to 999 bytes of workspace. The convolutions of a real cuDNN need none.
    fn with_workspace() -> Self {
        let planning = Planning::stand_in();
        let device = r#"{"deviceVer":900,"cudaDeviceId":0,"deviceName":"A GPU"}"#;
        std::fs::write(planning.device(), device).unwrap();
        Blocking { planning }
    }

    pub(super) fn run(&self, layers: &str, rules: &str) -> ChildOutput {
        let child = self.planning.child().env("CUDNN_ERRATA", rules).env("CUDNN_LOGLEVEL_DBG", "2");
        child.env("CUDNN_CAPTURE", self.capture()).run_successfully(&[layers, "errata", &self.planning.device()])
    }

    fn dir(&self) -> &Path {
        self.planning.dir.path()
    }

    fn capture(&self) -> PathBuf {
        self.dir().join("app.cudnncap")
    }

    /// Asserts that a capture contains only refused plans if a rule with these conditions refuses all of them. Returns
    /// the functions of other failures.
    fn failures_beside_refusals(&self, layers: &str, conditions: &str) -> Vec<String> {
        self.run(layers, &file(self.dir(), &[conditions]));
        let records = capture::records(&self.capture());
        let plans = capture::plans(&records);
        let is_refused = |plan: &&cudnn_store::captures::PlanRecord| {
            plan.status.to_string() == "NOT_SUPPORTED"
                && plan.engine.is_some()
                && plan.reason.as_ref().is_some_and(|reason| reason.starts_with("blocked by the erratum rule-0: "))
        };
        assert!(plans.len() > 1 && plans.iter().all(is_refused), "{conditions}, {layers}: {plans:#?}");
        capture::failures(&records).iter().map(|failure| failure.call.clone()).collect()
    }

    /// Asserts that these rules block the plans with lines that contain all of these texts, and change no other line.
    /// The other plans are cached, because cuDNN compiles them for half a second each.
    pub(super) fn assert_blocks(&self, without: &str, rules: &str, texts: &[&str], rule: &str) {
        let with = self.run("errata,plans", rules);
        let (before, after) = (without.lines(), with.stdout.lines());
        let mut blocked = 0;
        for (before, after) in before.zip(after) {
            let is_selected = texts.iter().all(|text| before.contains(text)) && !before.contains("no plan");
            if is_selected {
                // A plan stays blocked if the program finalizes it again.
                let expected = format!("CUDNN_STATUS_NOT_SUPPORTED (3000) blocked by the erratum {rule}: ");
                assert_eq!(after.matches(&expected).count(), 2, "{after}");
                blocked += 1;
            } else {
                assert_eq!(before, after);
            }
        }
        assert_eq!(without.lines().count(), with.stdout.lines().count());
        assert!(blocked > 0, "{without}");
        let warnings = with.stderr.matches("blocked by the erratum").count();
        assert_eq!(warnings, 1, "{with:#?}");
    }
}

#[test]
fn plans_of_a_real_cudnn_are_blocked_by_every_kind_of_condition() {
    let test = "plans_of_a_real_cudnn_are_blocked_by_every_kind_of_condition";
    let Some(planning) = Blocking::real(test, "jit-cu12-9.19.0") else { return };
    let unblocked = planning.run("none", "").stdout;
    let first = unblocked.lines().find_map(|line| line.split_once("engine ")).unwrap().1;
    let (engine, rest) = first.split_once(" {").unwrap();
    let (knob, rest) = rest.split_once([' ', '}']).unwrap();
    let note = rest.split_once("notes ").unwrap().1.split([' ', ':']).next().unwrap();
    let by_engine = format!(r#""engines":[{engine}]"#);
    let (name, value) = knob.split_once('=').unwrap();
    let by_knob = format!(r#""knobs":{{"{name}":{value}}}"#);
    let by_note = format!(r#""numerical_notes":["{}"]"#, note.to_lowercase());
    let engine_name = format!("engine {engine} ");
    for (conditions, texts) in [
        (by_engine.as_str(), [engine_name.as_str(), ""]),
        (&by_knob, [knob, ""]),
        (&by_note, [note, ""]),
        (r#""operations":["conv_fwd"],"tensors":[{"rank":5}]"#, ["3-d", ""]),
        (r#""tensors":[{"types":["bfloat16"],"rank":5}]"#, ["3-d", "BFLOAT16"]),
        (r#""operations":["conv_fwd"],"compute_capability":{"from":"9.0","before":"9.1"}"#, ["", ""]),
        (r#""operations":["conv_fwd"],"cudnn":{"from":"9.19.0","before":"9.19.1"}"#, ["", ""]),
    ] {
        planning.assert_blocks(&unblocked, &file(planning.dir(), &[conditions]), &texts, "rule-0");
    }
    // None of these rules selects a plan.
    let others = [
        r#""operations":["matmul"]"#,
        r#""operations":["conv_fwd"],"cudnn":{"before":"9.19.0"}"#,
        r#""operations":["conv_fwd"],"compute_capability":{"from":"10.0"}"#,
        r#""operations":["conv_fwd"],"knobs":{"TILE_SIZE":12345}"#,
        r#""workspace_above":1000000000000"#,
    ];
    let rules = file(planning.dir(), &others);
    for layers in ["errata", "trace,errata", "errata,plans", "trace,errata,plans"] {
        let output = planning.run(layers, &rules);
        assert_eq!(output.stdout, unblocked, "{layers}");
        assert!(!output.stderr.contains("stays off"), "{layers}: {}", output.stderr);
    }
}

/// The workspace is known only after cuDNN has finalized a plan, which then fails like other blocked plans.
#[test]
fn plans_that_need_too_much_workspace_are_blocked() {
    let planning = Blocking::with_workspace();
    let unblocked = planning.run("none", "").stdout;
    let output = planning.run("errata", &file(planning.dir(), &[r#""workspace_above":0"#])).stdout;
    let plans: Vec<&str> = output.lines().filter(|line| line.contains("engine ")).collect();
    // A program that finalizes the plan again gets the same status and text.
    let is_blocked = |plan: &&str| {
        let (first, again) = plan.split_once("; again: ").unwrap();
        let refusal = first.find("CUDNN_STATUS_NOT_SUPPORTED (3000) blocked by the erratum rule-0: ");
        refusal.is_some_and(|start| first[start..] == *again)
    };
    assert!(!plans.is_empty() && plans.iter().all(is_blocked), "{output}");
    let rules = file(planning.dir(), &[r#""workspace_above":999"#]);
    for layers in ["errata", "errata,plans", "errata,plans"] {
        assert_eq!(planning.run(layers, &rules).stdout, unblocked, "{layers}");
    }
}

/// A capture contains refused plans in the same way, whether the rule depends on the workspace or not.
#[test]
fn refused_plans_are_captured() {
    let stand_in = Blocking::with_workspace();
    let by_operation = r#""operations":["conv_fwd"]"#;
    let all_layers = ["capture,errata", "capture,errata,plans"];
    for conditions in [by_operation, r#""workspace_above":0"#] {
        for layers in all_layers {
            // The engines of the stand-in have no notes.
            let mut failures = stand_in.failures_beside_refusals(layers, conditions);
            failures.retain(|function| function != "cudnnBackendGetAttribute");
            assert_eq!(failures, [""; 0], "{conditions}, {layers}");
        }
    }
    let Some(real) = Blocking::real("refused_plans_are_captured", "jit-cu12-9.19.0") else { return };
    for layers in all_layers {
        assert_eq!(real.failures_beside_refusals(layers, by_operation), [""; 0], "{layers}");
    }
}

#[test]
fn cached_plans_are_blocked() {
    let Some(planning) = Blocking::real("cached_plans_are_blocked", "jit-cu12-9.19.0") else { return };
    planning.run("plans", "");
    let cached = std::fs::read_dir(planning.dir().join("plans")).unwrap().count();
    assert!(cached > 0, "no plan was cached");
    let rules = file(planning.dir(), &[r#""operations":["conv_fwd"]"#]);
    let output = planning.run("errata,plans", &rules).stdout;
    assert!(!output.contains("SUCCESS"), "{output}");
    // In the other order, no plan is cached.
    let output = planning.run("plans,errata", &rules).stdout;
    assert!(!output.contains("SUCCESS"), "{output}");
}

/// Error texts of the program are also compared.
#[test]
fn random_programs_see_no_difference_unless_a_plan_is_blocked() {
    let stand_in = Planning::stand_in();
    let dir = stand_in.dir.path();
    let run = |layers: &str, rules: &str, args: &[&str]| {
        stand_in.child().env("CUDNN_ERRATA", rules).run_successfully(&[&[layers], args].concat())
    };
    let selecting_none = file(dir, &[r#""engines":[12345]"#]);
    let [single, threads] = random_programs();
    for args in [single, threads, &["variants"], &["throw"], &["last-error"]] {
        let without = run("none", "", args).stdout;
        assert!(without == run("errata", &selecting_none, args).stdout, "{args:?}");
    }
    // The programs continue after a blocked plan.
    let selecting_all = file(dir, &[r#""engines":[0,1,2,3,4,5,6,7,8,9]"#]);
    let blocked = run("errata", &selecting_all, single);
    assert!(blocked.stdout.contains("blocked by the erratum rule-0"), "{}", blocked.stdout);
    // The layer queries cuDNN for the devices of handles, some of which the programs have destroyed.
    let by_device = r#""engines":[0,1,2,3,4,5,6,7,8,9],"compute_capability":{"from":"9.0","before":"9.1"}"#;
    let selecting_some = file(dir, &[by_device]);
    let count = |output: &ChildOutput| output.stdout.matches("blocked by the erratum").count();
    let some = run("errata", &selecting_some, single);
    assert!((1..count(&blocked)).contains(&count(&some)), "{} of {}", count(&some), count(&blocked));
    let other_gpu = file(dir, &[r#""engines":[0,1,2,3,4,5,6,7,8,9],"compute_capability":{"from":"12.0"}"#]);
    assert_eq!(run("errata", &other_gpu, &["outlive"]).stdout, run("none", "", &["outlive"]).stdout);
}

#[test]
fn invalid_rules_are_reported_and_the_program_continues() {
    let Some(cudnn) = lib_dir("jit-cu12-9.19.0") else { return };
    let dir = TempDir::new();
    let invalid = file(dir.path(), &[r#""operations":["convolution"]"#]);
    let absent = dir.path().join("absent.json").display().to_string();
    let directory = dir.path().display().to_string();
    for (rules, expected) in [
        ("", "CUDNN_ERRATA is not set"),
        (invalid.as_str(), "unknown operation \"convolution\""),
        (absent.as_str(), "No such file"),
        (directory.as_str(), "not a file"),
        ("/dev/zero", "not a file"),
    ] {
        let child = Child::new(PLANNER, Subject::Loader, &cudnn).env("CUDNN_ERRATA", rules);
        let output = child.run(&["errata", "0", "0"]);
        assert_eq!(output.code, Some(0), "{rules}: {output:#?}");
        let output =
            Child::new(PLANNER, Subject::Loader, &cudnn).env("CUDNN_ERRATA", rules).run(&["errata", "workspace"]);
        assert!(output.stderr.contains(expected), "{rules}: {output:#?}");
    }
}
