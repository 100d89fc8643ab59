//! Tests `emit` and `reduce` with real and broken releases of cuDNN.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cudnn_graph::Graph;
use cudnn_store::captures::{Capture, Record};
use serde_json::Value;
use support::{FakeLibrary, Library, PlanningLibraries, TempDir, Version};

fn small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures/small.cudnncap")
}

const ID: &str = "7129b81371b1a6e1";

fn lab(dir: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
    let temporary = dir.path().join("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    command.env_clear().env("TMPDIR", temporary);
    command
}

fn reduce(dir: &TempDir, capture: &Path, graph: &str, when: &str, cudnn: &Path) -> Command {
    let mut command = lab(dir);
    command.arg("reduce").arg(capture).args(["--json", "--graph", graph, "--when", when, "--output"]).arg(output(dir));
    command.env("CUDNN_LOADER_DIR", cudnn);
    command
}

fn output(dir: &TempDir) -> PathBuf {
    dir.path().join("reduced.cudnncap")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn reduced(dir: &TempDir) -> Graph {
    let capture = Capture::read(&output(dir)).unwrap();
    assert!(capture.problems.is_empty(), "{:?}", capture.problems);
    let graphs = capture.records.into_iter().filter_map(|record| match record {
        Record::Graph(graph) => Some(graph.nodes),
        _ => None,
    });
    let mut graphs: Vec<Graph> = graphs.collect();
    assert_eq!(graphs.len(), 1);
    graphs.remove(0)
}

/// Asserts that a command left only its output behind.
fn assert_tidy(dir: &TempDir) {
    let names = |dir: &Path| -> Vec<String> {
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let mut all = names(dir.path());
    all.retain(|name| !["tmp", "cudnn", "fifo", "count"].contains(&name.as_str()));
    assert_eq!((all, names(&dir.path().join("tmp"))), (vec!["reduced.cudnncap".to_owned()], vec![]));
}

/// Builds a graph library with this code in place of some functions.
fn fake(dir: &TempDir, code: &str) -> PathBuf {
    let cudnn = dir.path().join("cudnn");
    std::fs::create_dir_all(&cudnn).unwrap();
    let library = FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(code).with_body("return 0;");
    library.build(&cudnn.join("libcudnn_graph.so.9"));
    cudnn
}

#[test]
fn programs_are_printed_or_written() {
    let dir = TempDir::new();
    let emit = |arguments: &[&str]| {
        let output = lab(&dir).arg("emit").arg(small()).args(["--language", "python"]).args(arguments).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        output.stdout
    };
    let printed = emit(&["--graph", ID]);
    let json: Value = serde_json::from_slice(&emit(&["--graph", ID, "--json"])).unwrap();
    assert_eq!((json["graph"].as_str(), json["program"].as_str().map(str::as_bytes)), (Some(ID), Some(&printed[..])));
    let file = dir.path().join("bug.py");
    let to_file = ["--graph", ID, "--output", file.to_str().unwrap()];
    assert_eq!(emit(&to_file), b"");
    assert_eq!(std::fs::read(&file).unwrap(), printed);
    let json: Value = serde_json::from_slice(&emit(&[&to_file[..], &["--json"]].concat())).unwrap();
    assert_eq!((json["graph"].as_str(), json["file"].as_str(), json.get("program")), (Some(ID), file.to_str(), None));
    let Some(Record::Failure(failure)) = Capture::read(&small()).unwrap().records.pop() else { panic!() };
    let program = String::from_utf8(emit(&["--graph", &failure.graph().unwrap().id()])).unwrap();
    assert!(program.contains("finalize(d0)") && !program.contains("plan_of_engine"), "{program}");
}

#[test]
fn python_programs_use_the_selected_release_and_name_another_one() {
    let dir = TempDir::new();
    let program = dir.path().join("bug.py");
    let mut emit = lab(&dir);
    emit.arg("emit").arg(small()).args(["--graph", ID, "--language", "python", "--output"]).arg(&program);
    assert!(emit.status().unwrap().success());
    let run = |cudnn: &Path| Command::new("python3").arg(&program).env("CUDNN_LOADER_DIR", cudnn).output();
    let Ok(missing) = run(&dir.path().join("missing")) else {
        println!("NOT RUN: no python3");
        return;
    };
    assert!(text(&missing).contains("missing/libcudnn.so.9"), "{}", text(&missing));
    let cudnn = dir.path().join("cudnn");
    std::fs::create_dir(&cudnn).unwrap();
    let library = FakeLibrary::new(Library::Graph, Version::new(9, 20, 0)).with_body("return 0;");
    library.build(&cudnn.join("libcudnn.so.9"));
    let output = text(&run(&cudnn).unwrap());
    assert!(output.contains("cudnn: 92000\n") && output.contains("note: the capture is of cuDNN "), "{output}");
    assert!(output.contains("cudnn/libcudnn.so.9"), "{output}");
}

#[test]
fn captured_values_are_part_of_the_program_or_a_note_says_why_not() {
    let dir = TempDir::new();
    let capture = dir.path().join("app.cudnncap");
    let emit = |bytes: u64| {
        let data = |uid| {
            format!(
                r#"{{"record":"data","plan":1,"execution":1,"uid":{uid},"is_after":false,"file":"x","bytes":{bytes}}}"#
            )
        };
        let lines = std::fs::read_to_string(small()).unwrap() + &data(1) + "\n" + &data(2) + "\n";
        std::fs::write(&capture, lines).unwrap();
        let mut command = lab(&dir);
        command.arg("emit").arg(&capture).args(["--graph", ID, "--language", "c++"]);
        let output = command.output().unwrap();
        // A missing file makes the capture incomplete.
        let is_complete = dir.path().join("app.cudnncap.data/x").exists();
        assert_eq!(output.status.code(), Some(i32::from(!is_complete)), "{}", text(&output));
        let program = String::from_utf8(output.stdout).unwrap();
        (program.contains("on the captured values"), String::from_utf8(output.stderr).unwrap())
    };
    let note = "note: the program generates the values of tensors: ";
    let (has_values, stderr) = emit(32_768);
    assert!(!has_values && stderr.contains(&format!("{note}the file \"x\" for tensor 1: ")), "{stderr}");
    let values = dir.path().join("app.cudnncap.data");
    std::fs::create_dir(&values).unwrap();
    std::fs::write(values.join("x"), [1; 32_768]).unwrap();
    assert_eq!(emit(32_768), (true, String::new()));
    std::fs::write(values.join("x"), [1; 32_769]).unwrap();
    let (has_values, stderr) = emit(32_769);
    assert!(!has_values && stderr.contains("65538 bytes, and a program contains at most 65536"), "{stderr}");
}

#[test]
fn a_failed_call_without_elements_is_refused() {
    let dir = TempDir::new();
    let capture = dir.path().join("app.cudnncap");
    let start = r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#;
    let failure = r#"{"record":"failure","call":"cudnnBackendSetAttribute","status":"BAD_PARAM","attribute":["TENSOR_DIMENSIONS",23,2,null],"descriptors":[{"kind":"TENSOR","finalized":false}]}"#;
    std::fs::write(&capture, format!("{start}\n{failure}\n")).unwrap();
    let output = lab(&dir).arg("emit").arg(&capture).args(["--graph", "", "--language", "python"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("elements of the attribute TENSOR_DIMENSIONS are missing"), "{}", text(&output));
}

#[test]
fn a_graph_that_fails_becomes_smaller_with_a_real_release() {
    let test = "a_graph_that_fails_becomes_smaller_with_a_real_release";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    let dir = TempDir::new();
    let run = |capture: &Path, graph: &str| {
        let mut command = reduce(&dir, capture, graph, "status", &cudnn);
        command.env("LD_LIBRARY_PATH", &libraries.path).output().unwrap()
    };
    // The captured engine exists only in other releases, but another one works.
    let lines = std::fs::read_to_string(small()).unwrap();
    let capture = dir.path().join("app.cudnncap");
    std::fs::write(&capture, &lines).unwrap();
    let works = run(&capture, ID);
    assert_eq!(works.status.code(), Some(3), "{}", text(&works));
    assert!(text(&works).contains("the graph does not show this: SUCCESS"), "{}", text(&works));
    assert!(!output(&dir).exists());
    let changed = r#""TENSOR_UNIQUE_ID:3":2,"TENSOR_DATA_TYPE:1":14"#;
    let lines = lines.replace(r#""TENSOR_UNIQUE_ID:3":2,"TENSOR_DATA_TYPE:1":2"#, changed);
    let record = Capture::parse(lines.as_bytes()).unwrap().records.remove(2);
    let Record::Graph(graph) = record else { unreachable!("{record:?}") };
    std::fs::write(&capture, lines.replace(ID, &graph.graph)).unwrap();
    let fails = run(&capture, &graph.graph);
    assert_eq!(fails.status.code(), Some(0), "{}", text(&fails));
    let json: Value = serde_json::from_slice(&fails.stdout).unwrap();
    let graph = reduced(&dir);
    assert_eq!((json["graph"].as_str(), json["descriptors"].as_u64()), (Some(&*graph.id()), Some(5)), "{json:#}");
    assert!(json["tries"].as_u64() > Some(0));
    let label = |record| if let Record::Graph(graph) = record { Some(graph.label) } else { None };
    let label = Capture::read(&output(&dir)).unwrap().records.into_iter().find_map(label).unwrap();
    assert!(label.starts_with("relu ") && label.contains(": 5 descriptors, reduced from "), "{label}");
    let elements: Vec<i64> = graph
        .tensors()
        .flat_map(|tensor| tensor.integers(cudnn_loader::cudnnBackendAttributeName_t::CUDNN_ATTR_TENSOR_DIMENSIONS))
        .copied()
        .collect();
    assert_eq!(elements, [1; 6]);
    std::fs::remove_file(capture).unwrap();
    assert_tidy(&dir);
}

/// The library crashes some processes, and waits in the next one.
const CRASHES: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int cudnnBackendFinalize(void *descriptor) {
    int count = open(getenv("COUNT"), O_RDWR | O_CREAT | O_APPEND, 0600);
    write(count, "x", 1);
    if (lseek(count, 0, SEEK_END) <= atoi(getenv("CRASHES"))) *(volatile int *)0 = 0;
    write(open(getenv("FIFO"), O_WRONLY), "x", 1);
    for (;;) pause();
}
"#;

#[test]
fn an_interrupted_reduction_leaves_and_reports_the_smallest_graph() {
    for crashes in [0, 3] {
        let dir = TempDir::new();
        let cudnn = fake(&dir, CRASHES);
        let fifo = dir.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut command = reduce(&dir, &small(), ID, "crash", &cudnn);
        command.env("COUNT", dir.path().join("count")).env("FIFO", &fifo);
        command.env("CRASHES", crashes.to_string());
        let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        // The graph or the third candidate is tried.
        let mut byte = [0];
        std::fs::File::open(&fifo).unwrap().read_exact(&mut byte).unwrap();
        let interrupt = || {
            assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
            let ended = child.wait_with_output().unwrap();
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended.status), Some(15), "{}", text(&ended));
            let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
            let [graph, tries] = ["graph", "tries"].map(|key| json[key].to_string());
            (graph, tries, text(&ended))
        };
        if crashes == 0 {
            let (graph, tries, _) = interrupt();
            assert_eq!((&*graph, &*tries, output(&dir).exists()), ("null", "0", false));
            // Writing to a pipe could wait forever.
            assert!(Command::new("mkfifo").arg(output(&dir)).status().unwrap().success());
            let refused = reduce(&dir, &small(), ID, "crash", &cudnn).arg("--force").output().unwrap();
            assert!(text(&refused).contains("is not a regular file"), "{}", text(&refused));
            continue;
        }
        let graph = reduced(&dir);
        let is_smaller = |node: &cudnn_graph::Node| {
            node.integers(cudnn_loader::cudnnBackendAttributeName_t::CUDNN_ATTR_TENSOR_DIMENSIONS) != [4, 64, 64]
        };
        assert!(graph.tensors().all(is_smaller), "{graph:?}");
        let (reported, tries, text) = interrupt();
        assert_eq!((reported, &*tries), (format!("{:?}", graph.id()), "2"));
        assert!(text.contains("kept (CRASHED)"), "{text}");
        // The status of the plan is one of cuDNN, as in the program. The smaller graph has no results of the larger one.
        let records = Capture::read(&output(&dir)).unwrap().records;
        let plan = records.iter().find_map(|record| if let Record::Plan(plan) = record { Some(plan) } else { None });
        let plan = plan.unwrap();
        let engine = plan.engine.as_ref().map(|engine| engine.index);
        let status = cudnn_store::captures::Status::SUCCESS;
        assert_eq!((plan.status, engine, plan.workspace, plan.build_us), (status, Some(0), None, 0), "{records:#?}");
        assert_eq!(reduced(&dir), graph);
        assert_tidy(&dir);
    }
}
