//! Tests the layer `validate`: it names every mistake, reports no correct program, and does not affect programs.

use std::collections::BTreeSet;

use cudnn_layers::validate::RULES;
use support::{ChildOutput, check_document, csv_line};

use crate::planning::{Planning, check_random_programs};

/// The mistakes by number, and the code of the message. See `docs/measurements/validate.md`.
const MISTAKES: [(u32, &str); 49] = [
    (1, "V07"),
    (2, "V08"),
    (3, "V14"),
    (4, "V10"),
    (5, "V09"),
    (6, "V11"),
    (7, "V13"),
    (8, "V20"),
    (9, "V21"),
    (10, "V22"),
    (11, "V16"),
    (12, "V17"),
    (13, "V18"),
    (14, "V12"),
    (15, "V19"),
    (16, "V12"),
    (17, "V12"),
    (18, "V35"),
    (19, "V33"),
    (20, "V32"),
    (21, "V01"),
    (22, "V02"),
    (23, "V04"),
    (24, "V30"),
    (26, "V36"),
    (27, "V11"),
    (28, "V27"),
    (29, "V12"),
    (30, "V26"),
    (31, "V11"),
    (32, "V28"),
    (33, "V23"),
    (34, "V24"),
    (35, "V25"),
    (36, "V05"),
    (37, "V01"),
    (38, "V06"),
    (39, "V13"),
    (40, "V15"),
    (41, "V07"),
    (51, "V03"),
    (52, "V07"),
    (53, "V07"),
    (54, "V07"),
    (55, "V07"),
    (56, "V07"),
    (57, "V31"),
    (58, "V34"),
    (59, "V29"),
];

/// Executions and calls with freed memory need the stand-in.
const ONLY_STAND_IN: [u32; 7] = [18, 19, 20, 24, 57, 58, 59];

/// cuDNN takes a tensor for an operation, or uses freed memory, and may crash.
const UNDEFINED: [u32; 2] = [39, 59];

impl Planning {
    fn mistakes(&self, layers: &str, which: &str) -> ChildOutput {
        let device = self.device();
        let arguments = ["mistakes", which, &device];
        self.run(layers, if self.libraries.is_some() { &arguments } else { &arguments[..2] })
    }

    pub(super) fn assert_names(&self, mistakes: &[(u32, &str)]) {
        let mut wrong = Vec::new();
        for (number, code) in mistakes {
            let (without, with) =
                (self.mistakes("none", &number.to_string()), self.mistakes("validate", &number.to_string()));
            if !UNDEFINED.contains(number) {
                assert_eq!((&without.stdout, without.signal), (&with.stdout, with.signal), "{number}");
            }
            let messages = messages(&with);
            if messages.is_empty() || !messages.iter().all(|message| message.starts_with(code)) {
                wrong.push((number, code, messages));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    pub(super) fn assert_correct_programs_are_silent(&self) {
        let device = self.device();
        self.assert_silent(&["mistakes", "legitimate", &device]);
        self.assert_silent(&["errata", &device]);
        self.assert_silent(&["alike", &device, "own", "read", "relu", "add"]);
        self.assert_silent(&["real", "7", &device]);
    }

    fn assert_silent(&self, arguments: &[&str]) {
        let output = self.run("validate", arguments);
        assert_eq!((output.code, messages(&output)), (Some(0), Vec::new()), "{arguments:?}: {output:#?}");
    }
}

/// Returns the mistakes that can be made with a real cuDNN.
pub(super) fn real_mistakes() -> Vec<(u32, &'static str)> {
    MISTAKES.into_iter().filter(|(number, _)| !ONLY_STAND_IN.contains(number)).collect()
}

pub(super) fn messages(output: &ChildOutput) -> Vec<String> {
    let is_message = |line: &&str| RULES.iter().any(|rule| line.starts_with(&format!("{} {}: ", rule.code, rule.name)));
    output.stderr.lines().filter(is_message).map(str::to_owned).collect()
}

#[test]
fn mistakes_with_a_real_cudnn_are_named() {
    let test = "mistakes_with_a_real_cudnn_are_named";
    let Some(real) = Planning::real(test, "jit-cu12-9.19.0") else { return };
    real.assert_names(&real_mistakes());
    real.assert_correct_programs_are_silent();
}

#[test]
fn mistakes_with_executions_are_named() {
    let stand_in = Planning::stand_in();
    let mistakes: Vec<_> = MISTAKES.into_iter().filter(|(number, _)| ONLY_STAND_IN.contains(number)).collect();
    stand_in.assert_names(&mistakes);
    stand_in.assert_silent(&["mistakes", "legitimate"]);
}

#[test]
fn every_rule_has_a_test_and_is_documented() {
    let untested: Vec<_> = RULES.iter().filter(|rule| !MISTAKES.iter().any(|(_, code)| *code == rule.code)).collect();
    assert!(untested.is_empty(), "{untested:?}");
    let mut table = csv_line(["code", "name", "mistake", "cuDNN releases"]);
    for (index, rule) in RULES.iter().enumerate() {
        assert_eq!(rule.code, format!("V{:02}", index + 1));
        table += &csv_line([rule.code, rule.name, rule.mistake, &rule.releases()]);
    }
    check_document("docs/data/validate-rules.csv", &table);
}

/// Also compares random programs.
#[test]
fn programs_see_no_difference_with_validation() {
    let stand_in = Planning::stand_in();
    for arguments in [&["variants"][..], &["workspace"], &["outlive"], &["last-error"]] {
        let (without, with) = (stand_in.run("none", arguments), stand_in.run("validate", arguments));
        assert!(without.stdout == with.stdout, "{arguments:?}");
    }
    if support::is_emulated("programs_see_no_difference_with_validation, random programs", "an emulator is slow") {
        return;
    }
    let run = |layers: &str, arguments: &[&str]| stand_in.run(layers, arguments);
    check_random_programs(&["validate", "validate,trace", "trace,validate"], run, || ());
    // The stand-in throws in each call in turn.
    let (without, with) = (stand_in.run("none", &["throw-in-each"]), stand_in.run("validate", &["throw-in-each"]));
    assert_eq!((without.code, &without.stdout), (with.code, &with.stdout));
}

#[test]
fn messages_are_written_to_the_chosen_destination() {
    let stand_in = Planning::stand_in();
    let file = stand_in.dir.path().join("mistakes.txt");
    let run = |destination: &std::path::Path| {
        let child = stand_in.child().env("CUDNN_VALIDATE", destination);
        let output = child.run(&["validate", "mistakes", "1"]);
        assert_eq!((output.code, output.stdout.lines().last()), (Some(0), Some("done")), "{output:#?}");
        output
    };
    let expected =
        "V07 wrong-output-shape: relu, operation 1 of 1: output y (tensor 2) is [4,32,64], expected [4,64,64]";
    let output = run("stdout".as_ref());
    assert!(output.stdout.contains(expected) && messages(&output).is_empty(), "{output:#?}");
    assert_eq!(messages(&run("stderr".as_ref())), [expected]);
    assert!(messages(&run(&file)).is_empty());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{expected}\n"));
    let output = run("/nonexistent/file".as_ref());
    assert!(output.stderr.contains("cannot write /nonexistent/file"), "{output:#?}");
}

#[test]
fn a_mistake_is_written_once_and_their_number_is_limited() {
    let output = Planning::stand_in().mistakes("validate", "many");
    let all = messages(&output);
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!((output.code, all.len(), distinct.len()), (Some(0), 256, 256), "{output:#?}");
    let last = "256 mistakes were reported; more are not shown\n";
    assert_eq!(output.stderr.matches(last).count(), 1, "{output:#?}");
}

/// The layer leaves graphs unchanged and may run below `plans`.
#[test]
fn plans_are_cached_with_validation_below() {
    let stand_in = Planning::stand_in();
    for layers in ["plans,validate", "plans,trace,validate", "validate,plans"] {
        let output = stand_in.run(layers, &["0", "50"]);
        assert!(!output.stderr.contains("runs below plans"), "{layers}: {}", output.stderr);
    }
    let output = stand_in.run("plans,other,validate", &["0", "50"]);
    assert!(output.stderr.contains("the layer other runs below plans"), "{}", output.stderr);
}

/// Prints the numbers of `docs/measurements/layers.md`.
#[test]
#[ignore = "measures the time of a step; run it with --release --nocapture"]
fn the_cost_of_a_step() {
    let stand_in = Planning::stand_in();
    for _ in 0..3 {
        for layers in ["none", "explain", "validate", "plans"] {
            println!("{layers}: {} ns", stand_in.run(layers, &["mistakes", "steps-20000"]).stdout.trim());
        }
    }
}
