//! A broken environment: how to create it, its findings, and what may be left after the repair.

use std::collections::BTreeSet;
use std::process::Output;

use serde_json::Value;

/// No plan can change findings about the driver and the GPU.
const ABOUT_THE_MACHINE: [&str; 4] = ["C001", "C002", "C040", "C041"];

/// The maximum number of plans to follow. One should be enough.
const MAX_ROUNDS: usize = 3;

const AGAIN: &str = "then, by another fix:";

pub(crate) trait Ground {
    /// Runs a script in a new bash in the environment's home directory. `LIB` is the directory of cuDNN.
    fn bash(&self, script: &str) -> Output;

    /// Returns machine-specific strings and their replacements in the table.
    fn names(&self) -> Vec<(String, &'static str)>;
}

pub(crate) struct Situation {
    name: &'static str,
    damage: String,
    shell: String,
    options: &'static str,
    before: &'static [&'static str],
    after: &'static [&'static str],
    known_bug: bool,
}

pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) before: BTreeSet<String>,
    pub(crate) plan: Vec<String>,
    pub(crate) after: BTreeSet<String>,
    pub(crate) known_bug: bool,
    pub(crate) problem: Option<String>,
}

impl Situation {
    /// Takes the lines that create and break an environment, and the resulting findings.
    pub(crate) fn new(name: &'static str, damage: impl Into<String>, before: &'static [&'static str]) -> Self {
        let (damage, shell, options) = (damage.into(), String::new(), "--no-load");
        Situation { name, damage, shell, options, before, after: &[], known_bug: false }
    }

    pub(crate) fn shell(mut self, lines: impl Into<String>) -> Self {
        self.shell = lines.into();
        self
    }

    pub(crate) fn options(mut self, options: &'static str) -> Self {
        self.options = options;
        self
    }

    /// The findings that no command can solve.
    pub(crate) fn leaves(mut self, after: &'static [&'static str]) -> Self {
        self.after = after;
        self
    }

    /// The findings that remain although a command could solve them. The test fails once they are gone.
    pub(crate) fn known_bug(mut self, after: &'static [&'static str]) -> Self {
        (self.after, self.known_bug) = (after, true);
        self
    }

    pub(crate) fn run(&self, ground: &dyn Ground) -> Outcome {
        let made = ground.bash(&format!("set -e\n{}", self.damage));
        assert!(made.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&made.stderr));
        let set = |codes: &[&str]| codes.iter().map(|code| (*code).to_owned()).collect::<BTreeSet<String>>();
        let (expected, allowed) = (set(self.before), set(self.after));
        let document = self.check(ground, "");
        let before = codes(&document);
        let repair = self.repair(ground, document);
        let after = codes(&repair.after);
        let problem = if !expected.is_subset(&before) || expected.is_empty() && !before.is_empty() {
            Some(format!("finds {before:?}, and not {expected:?}"))
        } else if after != allowed {
            Some(format!("leaves {after:?}, and not {allowed:?}: {}\n{:#}", repair.log, repair.after))
        } else {
            None
        };
        let names = ground.names();
        let named = |line: String| names.iter().fold(line, |line, (text, name)| line.replace(text, name));
        let plan = repair.plan.into_iter().map(named).collect();
        Outcome { name: self.name, before, plan, after, known_bug: self.known_bug, problem }
    }

    fn check(&self, ground: &dyn Ground, lines: &str) -> Value {
        let output = ground.bash(&format!("{}\n{lines}\ncudnn-doctor check --json {}", self.shell, self.options));
        let document: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{}: {error}: {output:?}", self.name));
        assert_eq!(output.status.code(), Some(status(&document)), "{}: {document:#}", self.name);
        document
    }

    /// Follows plans, with a check after each, until all findings are gone or the plan stays the same.
    fn repair(&self, ground: &dyn Ground, mut document: Value) -> Repair {
        let (mut plan, mut lines, mut log) = (Vec::new(), String::new(), String::new());
        let mut last = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let steps = steps(&document);
            if steps.is_empty() || steps == last {
                break;
            }
            let for_shell = steps.iter().filter(|step| step.is_for_shell).flat_map(|step| &step.commands);
            let pasted = for_shell.fold(lines.clone(), |lines, command| format!("{lines}{command}\n"));
            document = self.fix(ground, &document, &lines, &pasted, &mut log);
            if !last.is_empty() {
                plan.push(AGAIN.into());
            }
            plan.extend(steps.iter().flat_map(|step| step.commands.clone()));
            (last, lines) = (steps, pasted);
        }
        Repair { plan, after: document, log }
    }

    /// Prints the plan with `fix`, which must not change files, and executes it in a shell that has run these lines.
    /// Returns the document of a check in a shell with the pasted lines, which must have the same exit status.
    fn fix(&self, ground: &dyn Ground, document: &Value, lines: &str, pasted: &str, log: &mut String) -> Value {
        let fix =
            |option: &str| ground.bash(&format!("{}\n{lines}\ncudnn-doctor fix {option} {}", self.shell, self.options));
        let files = "find . \"$LIB\" /var/lib/dpkg/status -printf '%p %s %T@ %l\\n' 2>/dev/null | sort";
        let before = ground.bash(files).stdout;
        let printed = fix("");
        assert_eq!(printed.status.code(), Some(status(document)), "{}: {}", self.name, text(&printed));
        let unchanged = ground.bash(files).stdout;
        let lines_of =
            |files: &[u8]| String::from_utf8_lossy(files).lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let changed = &lines_of(&unchanged) ^ &lines_of(&before);
        assert!(changed.is_empty(), "{}: without --yes: {changed:#?} {}", self.name, text(&printed));
        let output = fix("--yes --remove");
        let output_text = text(&output);
        for line in pasted.lines().skip(lines.lines().count()) {
            assert!(output_text.contains(line), "{}: {line} is not printed: {output_text}", self.name);
        }
        let after = self.check(ground, pasted);
        let expected = if output_text.contains("\nstopped at step ") { 3 } else { status(&after) };
        assert_eq!(output.status.code(), Some(expected), "{}: {output_text}\n{after:#}", self.name);
        *log += &output_text;
        after
    }
}

struct Repair {
    plan: Vec<String>,
    after: Value,
    log: String,
}

#[derive(PartialEq, Eq)]
struct Step {
    commands: Vec<String>,
    is_for_shell: bool,
}

fn steps(document: &Value) -> Vec<Step> {
    let command = |line: &Value| line.as_str().unwrap().to_owned();
    let step = |step: &Value| Step {
        commands: step["commands"].as_array().unwrap().iter().map(command).collect(),
        is_for_shell: step["kind"] == "shell",
    };
    document["plan"].as_array().unwrap().iter().map(step).collect()
}

fn status(document: &Value) -> i32 {
    let has = |severity: &str| findings(document).any(|finding| finding["severity"] == severity);
    if has("error") { 2 } else { i32::from(has("warning")) }
}

fn findings(document: &Value) -> impl Iterator<Item = &Value> {
    document["findings"].as_array().unwrap().iter()
}

fn problems(document: &Value) -> impl Iterator<Item = &Value> {
    let is_machine = |finding: &Value| ABOUT_THE_MACHINE.iter().any(|code| finding["code"] == *code);
    findings(document).filter(move |finding| finding["severity"] != "note" && !is_machine(finding))
}

fn codes(document: &Value) -> BTreeSet<String> {
    problems(document).map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
