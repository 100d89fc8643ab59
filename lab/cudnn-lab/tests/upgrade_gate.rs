//! Tests the comparison with a baseline, and the workflow in docs/guide/upgrade-gate.md.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use support::{FakeLibrary, Library, PlanningLibraries, TempDir, Version};

const LAB: &str = env!("CARGO_BIN_EXE_cudnn-lab");
const WORKFLOW: &str = include_str!("../examples/upgrade-gate.yml");
const CAPTURE: &str = include_str!("../../../tests/captures/small.cudnncap");

struct Checkout {
    dir: TempDir,
    /// The value of `LD_LIBRARY_PATH`.
    libraries: String,
}

impl Checkout {
    fn new(libraries: &str) -> Self {
        let dir = TempDir::new();
        std::os::unix::fs::symlink(LAB, dir.path().join("cudnn-lab")).unwrap();
        std::fs::create_dir(dir.path().join("cudnn")).unwrap();
        std::fs::write(dir.path().join("cudnn/app.cudnncap"), CAPTURE).unwrap();
        Checkout { dir, libraries: libraries.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs a step of a workflow with this cuDNN.
    fn run(&self, step: &str, cudnn: &Path) -> (Option<i32>, String) {
        let path = std::env::join_paths([self.dir.path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
        let mut command = Command::new("bash");
        command.args(["-e", "-c", step]).current_dir(self.dir.path()).env_clear().env("PATH", path);
        command.env("LD_LIBRARY_PATH", &self.libraries).env("CUDNN_LOADER_DIR", cudnn);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    }

    fn baseline(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("cudnn/baseline.json")).unwrap()).unwrap()
    }

    fn write_baseline(&self, baseline: &Value) {
        std::fs::write(self.path("cudnn/baseline.json"), baseline.to_string()).unwrap();
    }
}

fn steps() -> Vec<String> {
    let blocks = WORKFLOW.split("run: |\n").skip(1);
    let lines = |block: &str| {
        block
            .lines()
            .take_while(|line| line.starts_with("          "))
            .map(str::trim_start)
            .collect::<Vec<_>>()
            .join("\n")
    };
    blocks.map(lines).filter(|step| step.contains("cudnn-lab")).collect()
}

/// Returns the attributes of a JUnit file and the kinds of verdicts, as a different parser reads them.
fn parsed(file: &Path) -> String {
    let code = "import sys, xml.etree.ElementTree as tree\nroot = tree.parse(sys.argv[1]).getroot()\n\
                print(*(root.get(key) for key in ('tests', 'failures', 'errors', 'skipped')), \
                *(child.tag for case in root.iter('testcase') for child in case if child.tag != 'system-out'))";
    let output = Command::new("python3").args(["-c", code]).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn fake(dir: &Path, code: &str) -> PathBuf {
    std::fs::create_dir_all(dir).unwrap();
    let library = FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(code).with_body("return 0;");
    library.build(&dir.join("libcudnn_graph.so.9"));
    dir.to_owned()
}

#[test]
fn the_workflow_passes_an_equal_release_and_stops_a_worse_one() {
    let test = "the_workflow_passes_an_equal_release_and_stops_a_worse_one";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    let checkout = Checkout::new(&libraries.path);
    let [step] = &steps()[..] else { panic!("{WORKFLOW}") };
    let page = include_str!("../../../docs/guide/upgrade-gate.md");
    let write = page.lines().find(|line| line.ends_with("--json > baseline.json")).unwrap();
    checkout.run(&format!("cd cudnn; {write}"), &cudnn);
    let baseline = checkout.baseline();
    let graphs = baseline["graphs"].as_array().unwrap().len();
    assert_eq!(
        (&baseline["options"]["engines"], baseline["graphs"][0]["report"]["status"].as_str()),
        (&"first".into(), Some("SUCCESS"))
    );

    let (code, text) = checkout.run(step, &cudnn);
    assert!(code == Some(0) && text.contains("9.19.0 (baseline)") && text.contains("9.19.0 (now)"), "{text}");
    let passed = parsed(&checkout.path("cudnn.xml"));
    assert!(passed.starts_with(&format!("{graphs} 0 0")), "{passed}");
    assert!(std::fs::read_to_string(checkout.path("cudnn.html")).unwrap().contains("9.19.0 (baseline)"));

    let crash = "int cudnnBackendFinalize(void *d) { *(volatile int *)0 = 0; return 0; }";
    let (code, text) = checkout.run(step, &fake(&checkout.path("crash"), crash));
    assert!(code == Some(1) && text.contains("SUCCESS → CRASHED"), "{text}");
    let failed = parsed(&checkout.path("cudnn.xml"));
    assert!(failed.starts_with(&format!("{graphs} ")) && failed.contains("failure"), "{failed}");

    let mut other = baseline.clone();
    other["graphs"][0]["report"]["plans"][0]["engine"]["index"] = 4711.into();
    checkout.write_baseline(&other);
    let (code, text) = checkout.run(step, &cudnn);
    assert!(code == Some(0) && text.contains("changed: engine"), "{text}");
    let (code, text) = checkout.run(&step.replace("--fail-on worse", "--fail-on changed --json"), &cudnn);
    let start = text.find('{').unwrap();
    let document: Value = serde_json::from_str(&text[start..]).unwrap();
    assert_eq!((code, &document["worse"]), (Some(1), &0.into()), "{text}");
    assert_eq!(document["before"]["name"], "cudnn/baseline.json", "{text}");
    assert_eq!(document["after"]["version"], "9.19.0", "{text}");
    assert!(parsed(&checkout.path("cudnn.xml")).contains("failure"));
}

fn default_options() -> Value {
    json!({ "engines": "first", "data": ["integers", "normal", "adversarial"], "repeat": 2, "memory": 2, "time": false })
}

fn ids() -> Vec<String> {
    let records = CAPTURE.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter_map(|record| Some(record.get("label").and(record.get("graph"))?.as_str()?.to_owned())).collect()
}

#[test]
fn a_file_that_is_no_baseline_is_refused_with_the_reason() {
    let checkout = Checkout::new("");
    let document =
        |options: Value, graphs: Value| json!({ "schema": 2, "options": options, "graphs": graphs }).to_string();
    let graph = |report: Value| json!([{ "graph": ids()[0], "report": report }]);
    let report = |status: &str| json!({ "cudnn": 91_900, "device": "A", "status": status, "plans": [] });
    let mut all = default_options();
    all["engines"] = "\u{1b}all".into();
    for (content, expected) in [
        (String::new(), "not a JSON document: EOF"),
        ("<testsuites>".to_owned(), "not a JSON document"),
        (document(default_options(), json!([]))[..40].to_owned(), "not a JSON document: EOF"),
        ("[]".to_owned(), "not written by this version of the lab"),
        (r#"{"schema":1,"options":{},"graphs":[]}"#.to_owned(), "not written by this version of the lab"),
        (r#"{"schema":2,"error":"no\u001b cuDNN"}"#.to_owned(), r"contains the error of a replay: no\u{1b} cuDNN"),
        (r#"{"schema":2,"graphs":[]}"#.to_owned(), "not a document of `replay`"),
        (document(default_options(), json!({})), "not a document of `replay`"),
        (document(all, json!([])), r#"was written with engines "\u001ball", but now it is "first""#),
        (document(default_options(), json!([{ "graph": "other" }, 1])), "has no graph "),
        (document(default_options(), graph(json!({ "status": 3 }))), "is damaged: "),
        (document(default_options(), graph(Value::Null)), "is damaged: "),
        (document(default_options(), graph(report("GREAT"))), r#"is damaged: the status "GREAT" is unknown"#),
    ] {
        std::fs::write(checkout.path("cudnn/baseline.json"), &content).unwrap();
        let (code, text) = checkout
            .run("cudnn-lab replay cudnn/app.cudnncap --baseline cudnn/baseline.json --junit x", Path::new("/"));
        assert!(
            code == Some(3) && text.contains("cudnn/baseline.json: ") && text.contains(expected),
            "{content}: {text}"
        );
        assert!(!text.contains('\u{1b}') && !checkout.path("x").exists(), "{content}: {text:?}");
    }
    let twice = [0, 0].map(|_| json!({ "graph": ids()[0], "report": report("NOT_SUPPORTED") }));
    checkout.write_baseline(&json!({ "schema": 2, "options": default_options(), "graphs": twice }));
    let command = format!("cudnn-lab replay cudnn/app.cudnncap --graph {} --baseline cudnn/baseline.json", ids()[0]);
    let (code, text) = checkout.run(&command, Path::new("/"));
    assert!(code == Some(3) && text.contains(&format!("has the graph {} more than once", ids()[0])), "{text}");
    for (arguments, expected) in [
        ("--baseline /nowhere", "/nowhere: No such file"),
        ("--baseline cudnn", "cudnn: "),
        ("--baseline cudnn/baseline.json --compare 9.10 9.28", "cannot be used with"),
        ("--baseline cudnn/baseline.json --junit cudnn/baseline.json", "is an input of this command"),
        ("--baseline cudnn/baseline.json --junit cudnn/app.cudnncap --force", "is an input of this command"),
        ("--baseline cudnn/baseline.json --junit x --html x", "name the same file"),
        ("--junit x", "--baseline <FILE>"),
        ("--fail-on worse", "--baseline <FILE>"),
    ] {
        let (code, text) = checkout.run(&format!("cudnn-lab replay cudnn/app.cudnncap {arguments}"), Path::new("/"));
        assert!(code == Some(3) && text.contains(expected), "{arguments}: {text}");
    }
}

/// A runner that lost its GPU must not pass.
#[test]
fn a_baseline_from_another_machine_is_refused() {
    if Path::new("/dev/nvidiactl").exists() {
        println!("NOT RUN: this machine may have a GPU");
        return;
    }
    let checkout = Checkout::new("");
    let cudnn = fake(&checkout.path("fake"), "");
    let report = json!({ "cudnn": 91_900, "device": "NVIDIA H100", "status": "SUCCESS", "plans": [] });
    let graphs: Vec<Value> = ids().iter().map(|id| json!({ "graph": id, "report": report })).collect();
    checkout.write_baseline(&json!({ "schema": 2, "options": default_options(), "graphs": graphs }));
    let command = "cudnn-lab replay cudnn/app.cudnncap --baseline cudnn/baseline.json --graph ID";
    let (code, text) = checkout.run(&command.replace("ID", &ids()[0]), &cudnn);
    assert!(code == Some(3) && text.contains("it was executed on NVIDIA H100. Now it was planned for "), "{text}");
}
