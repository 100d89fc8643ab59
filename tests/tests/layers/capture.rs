//! Tests the layer `capture`: the file contains what the program did, and the program sees no difference.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use cudnn_store::captures::{
    Capture, CountRecord, ExecutionRecord, FailureRecord, GraphRecord, PlanRecord, Record, Status,
};
use support::{Child, ChildOutput, Subject};

use crate::planning::{Planning, check_random_programs};
use crate::plans::PLANNER;

pub(super) struct Capturing(Planning);

impl Deref for Capturing {
    type Target = Planning;

    fn deref(&self) -> &Planning {
        &self.0
    }
}

impl Capturing {
    pub(super) fn real(test: &str, release: &str) -> Option<Self> {
        Some(Capturing(Planning::real(test, release)?))
    }

    fn stand_in() -> Self {
        Capturing(Planning::stand_in())
    }

    pub(super) fn library_path(&self) -> Option<&str> {
        self.libraries.as_ref().map(|libraries| libraries.path.as_str())
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("app.cudnncap")
    }

    fn child(&self) -> Child {
        self.0.child().env("CUDNN_CAPTURE", self.file())
    }

    fn run(&self, layers: &str, arguments: &[&str]) -> ChildOutput {
        self.child().run(&[&[layers], arguments].concat())
    }

    fn plan(&self, layers: &str, graphs: &[&str]) -> ChildOutput {
        let device = self.device();
        self.run(layers, &[&["explain", &device], graphs].concat())
    }

    /// Returns the capture of these graphs, after comparing the output with that of a program without the layer.
    pub(super) fn capture(&self, graphs: &[&str]) -> Vec<Record> {
        let (without, with) = (self.plan("none", graphs), self.plan("capture", graphs));
        assert_eq!((without.code, &without.stdout), (with.code, &with.stdout));
        assert_eq!((with.code, with.stderr.as_str()), (Some(0), ""));
        records(&self.file())
    }
}

pub(super) fn records(file: &Path) -> Vec<Record> {
    let capture = Capture::read(file).unwrap();
    assert!(capture.problems.is_empty(), "{}: {:?}", file.display(), capture.problems);
    assert!(matches!(capture.records[0], Record::Start(_)));
    capture.records
}

macro_rules! all {
    ($records:expr, $variant:ident) => {
        $records.iter().filter_map(|record| if let Record::$variant(it) = record { Some(it) } else { None })
    };
}

fn graphs(records: &[Record]) -> Vec<&GraphRecord> {
    all!(records, Graph).collect()
}

pub(super) fn plans(records: &[Record]) -> Vec<&PlanRecord> {
    all!(records, Plan).collect()
}

fn executions(records: &[Record]) -> Vec<&ExecutionRecord> {
    all!(records, Execution).collect()
}

pub(super) fn failures(records: &[Record]) -> Vec<&FailureRecord> {
    all!(records, Failure).collect()
}

/// Returns the number of executions in the last record of each plan.
fn counts(records: &[Record]) -> Vec<&CountRecord> {
    all!(records, Count).collect()
}

pub(super) fn assert_captures(capturing: &Capturing) {
    let planned = ["works", "mixed-types", "works", "fused", "works"];
    let records = capturing.capture(&planned);
    let graphs = graphs(&records);
    let labels: Vec<_> = graphs.iter().map(|graph| graph.label.split(' ').next().unwrap()).collect();
    assert_eq!(labels, ["conv_fwd", "matmul", "matmul"]);
    for graph in &graphs {
        assert_eq!(graph.nodes.id(), graph.graph);
        assert!(serde_json::to_string(&graph.nodes).unwrap().len() < 2048, "{}", graph.label);
    }
    let tensors: Vec<_> = graphs[0].nodes.tensors().collect();
    let dims = cudnn_sys::types::cudnnBackendAttributeName_t::CUDNN_ATTR_TENSOR_DIMENSIONS;
    assert_eq!(tensors[0].integers(dims), [4, 16, 14, 14]);
    assert_eq!(graphs[2].nodes.operations().len(), 2);
    // The first graph is planned three times in the same way.
    let plans = plans(&records);
    let successful = plans.iter().filter(|plan| plan.status == Status::SUCCESS);
    assert_eq!(successful.clone().map(|plan| &plan.graph).collect::<Vec<_>>(), [&graphs[0].graph, &graphs[2].graph]);
    for plan in successful {
        assert!(plan.engine.as_ref().is_some_and(|engine| !engine.notes.is_empty()), "{plan:#?}");
        assert!(plan.proposal.is_some_and(|(place, count)| (1..=count).contains(&place)), "{plan:#?}");
        assert!(plan.workspace.is_some() && plan.device == Some(0) && plan.build_us > 0, "{plan:#?}");
    }
    let devices: Vec<_> = all!(&records, Device).collect();
    assert!(matches!(devices.as_slice(), [device] if device.description.contains("\"multiProcessorCount\":132")));
    let proposed = |graph: &str| {
        let graph_proposals = all!(&records, Proposals).filter(move |proposals| proposals.graph == graph);
        graph_proposals.map(|proposals| proposals.count).collect::<Vec<_>>()
    };
    assert!(proposed(&graphs[0].graph)[0] > 0, "{records:#?}");
    assert_eq!(proposed(&graphs[1].graph), [0, 0]);
    // The program ends with a tensor that has no attributes.
    let failures = failures(&records);
    let [failure] = failures.as_slice() else { panic!("{failures:#?}") };
    assert_eq!((failure.call.as_str(), failure.status.to_string().as_str()), ("cudnnBackendFinalize", "BAD_PARAM"));
    assert!(failure.reason.is_some() && failure.descriptors.len() == 1, "{failure:#?}");
}

/// Asserts that calls outside the backend API are counted. The release must be complete.
pub(super) fn assert_counts_calls(capturing: &Capturing) {
    let (without, with) = (capturing.run("none", &["classic"]), capturing.run("capture", &["classic"]));
    assert_eq!((without.code, &without.stdout), (with.code, &with.stdout));
    let calls = Capture::read(&capturing.file()).unwrap();
    let calls: Vec<_> = calls.calls().into_iter().collect();
    assert_eq!(calls, [("cudnnActivationForward", 1000), ("cudnnPoolingForward", 3)]);
}

#[test]
fn graphs_plans_and_failures_are_captured() {
    let test = "graphs_plans_and_failures_are_captured";
    let Some(real) = Capturing::real(test, "jit-cu12-9.19.0") else { return };
    assert_captures(&real);
    let records = real.capture(&["integers"]);
    for plan in plans(&records) {
        assert_eq!(plan.status.to_string(), "INTERNAL_ERROR_COMPILATION_FAILED");
        assert!(plan.engine.is_some() && plan.proposal == Some((1, 1)) && plan.workspace.is_none(), "{plan:#?}");
        assert!(plan.reason.as_ref().unwrap().contains("NVRTC"), "{plan:#?}");
    }
    let records = real.capture(&["engines:mixed-types"]);
    let plans = plans(&records);
    let [plan] = plans.as_slice() else { panic!("{plans:#?}") };
    assert_eq!((&plan.graph, &plan.engine, plan.device), (&graphs(&records)[0].graph, &None, Some(0)));
    assert_eq!(plan.status.to_string(), "NOT_SUPPORTED");
    let records = real.capture(&["execute:works"]);
    assert_eq!(executions(&records)[0].status.to_string(), "BAD_PARAM");
    assert_eq!(failures(&records)[0].call, "cudnnBackendExecute");
}

/// The 49 mistakes of the layer `validate` include attributes of the wrong type.
#[test]
fn refused_attributes_are_captured() {
    let Some(real) = Capturing::real("refused_attributes_are_captured", "jit-cu12-9.19.0") else { return };
    let device = real.device();
    let mut refused = Vec::new();
    for number in 1..60 {
        let arguments = ["mistakes", &number.to_string(), &device];
        let (without, with) = (real.run("none", &arguments), real.run("capture", &arguments));
        // A mistake uses freed memory.
        if number != 59 && number != 39 {
            assert_eq!((&without.stdout, without.signal), (&with.stdout, with.signal), "{number}");
        }
        let records = Capture::read(&real.file()).unwrap().records;
        refused.extend(failures(&records).into_iter().filter_map(|failure| failure.attribute.clone()));
    }
    assert!(refused.iter().any(|(name, ..)| name == "TENSOR_UNIQUE_ID"), "{refused:#?}");
    assert!(refused.iter().any(|(.., value)| value.is_some()), "{refused:#?}");
    assert!(refused.iter().any(|(.., value)| value.is_none()), "{refused:#?}");
}

#[test]
fn failures_that_are_not_stored_are_mentioned() {
    let Some(real) = Capturing::real("failures_that_are_not_stored_are_mentioned", "jit-cu12-9.19.0") else { return };
    assert!(real.run("capture", &["executions", "failures"]).stdout.ends_with("done\n"));
    let records = records(&real.file());
    assert_eq!(failures(&records).len(), 1000);
    let [incomplete] = all!(&records, Incomplete).collect::<Vec<_>>()[..] else { panic!("{:#?}", records.last()) };
    assert_eq!(incomplete.label, "failed calls");
}

#[test]
fn executions_are_described_once_and_counted() {
    let stand_in = Capturing::stand_in();
    let output = stand_in.run("capture", &["mistakes", "steps-100"]);
    assert_eq!(output.code, Some(0), "{output:#?}");
    let records = records(&stand_in.file());
    let executions = executions(&records);
    let [execution] = executions.as_slice() else { panic!("{executions:#?}") };
    assert_eq!((execution.status, execution.in_cuda_graph), (Status::SUCCESS, false));
    // The program passes 0x1000 and 0x2000, and each tensor has 32 KiB.
    let places: Vec<_> = execution.tensors.iter().map(|tensor| (tensor.uid, tensor.memory.clone().unwrap())).collect();
    let [(1, x), (2, y)] = places.as_slice() else { panic!("{places:#?}") };
    assert_eq!((x.buffer, x.offset, x.span, x.alignment, x.is_host), (0, 0, Some(32_768), 4096, false));
    assert_eq!((y.buffer, y.offset, y.span, y.alignment, y.is_host), (0, 0x1000, Some(32_768), 4096, false));
    let counts: Vec<u64> = counts(&records).iter().map(|count| count.executions).collect();
    let powers: Vec<u64> = (1..10).map(|power| 1 << power).collect();
    assert_eq!(counts, [powers, vec![900]].concat());
}

/// A driver for which all addresses are device memory. It contains bits 12 to 19 of the address, or with the variable
/// `READS_MEMORY` the bytes at the address.
const DRIVER: &str = r#"
#include <stdlib.h>
#include <string.h>
int cuPointerGetAttribute(unsigned *type, int attribute, unsigned long long address) { *type = 2; return 0; }
int cuStreamIsCapturing(void *stream, int *status) { *status = getenv("CAPTURING") != 0; return 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return 0; }
int cuStreamSynchronize(void *stream) { return 0; }
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t size, void *stream) {
    if (getenv("READS_MEMORY")) memcpy(to, (void *)from, size);
    else memset(to, from >> 12, size);
    return 0;
}
"#;

fn driver(capturing: &Capturing) -> PathBuf {
    let driver = capturing.dir.path().join("libcuda.so.1");
    support::compile(DRIVER, &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"], &driver);
    driver
}

#[test]
fn tensors_are_stored_on_request_only() {
    let stand_in = Capturing::stand_in();
    let driver = driver(&stand_in);
    let data = stand_in.dir.path().join("app.cudnncap.data");
    let run = |requested: &str, capturing: Option<&str>| {
        let child = stand_in.child().env("LD_PRELOAD", &driver).env("CUDNN_CAPTURE_DATA", requested);
        let child = if let Some(value) = capturing { child.env("CAPTURING", value) } else { child };
        child.run_successfully(&["capture", "mistakes", "steps-1"]);
        records(&stand_in.file())
    };
    for (requested, capturing) in [("", None), ("0123456789abcdef", None), ("all", Some("1"))] {
        let records = run(requested, capturing);
        assert_eq!(all!(&records, Data).count(), 0, "{requested}");
        assert_eq!(executions(&records)[0].in_cuda_graph, capturing.is_some());
        assert!(!data.exists());
    }
    let id = graphs(&run("", None))[0].graph.clone();
    for requested in ["all".to_owned(), format!("0123456789abcdef,{id}")] {
        let records = run(&requested, None);
        let stored: Vec<_> = all!(&records, Data).map(|data| (data.uid, data.is_after, data.bytes)).collect();
        let size = 4 * 64 * 64 * 2;
        assert_eq!(stored, [(1, false, size), (2, false, size), (1, true, size), (2, true, size)]);
        for record in all!(&records, Data) {
            let values = std::fs::read(data.join(&record.file)).unwrap();
            assert_eq!(values, vec![record.uid as u8; size as usize], "{record:?}");
        }
    }
    // The values are removed with the capture, but other files are left.
    std::fs::write(data.join("notes.txt"), "important").unwrap();
    run("", None);
    let left: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
}

/// Returns the stored values by execution, tensor and moment, with the first float.
fn stored_values(capturing: &Capturing) -> Vec<(u64, i64, bool, f32)> {
    let records = records(&capturing.file());
    let first = |file: &str| {
        let values = std::fs::read(capturing.dir.path().join("app.cudnncap.data").join(file)).unwrap();
        assert_eq!(values.len(), 4096);
        f32::from_le_bytes(values[..4].try_into().unwrap())
    };
    all!(&records, Data).map(|data| (data.execution, data.uid, data.is_after, first(&data.file))).collect()
}

#[test]
fn values_are_stored_for_the_requested_executions() {
    let stand_in = Capturing::stand_in();
    let driver = driver(&stand_in);
    let run = |requested: &str, steps: &[&str]| {
        let child = stand_in.child().env("LD_PRELOAD", &driver).env("CUDNN_CAPTURE_DATA", requested);
        let output = child.env("READS_MEMORY", "1").run(&[&["capture", "executions"], steps].concat());
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("done\n", "built\n0 descriptors were not destroyed\n"),
            "{requested}: {output:#?}"
        );
        stored_values(&stand_in)
    };
    let of = |execution, x: f32, y: f32| {
        [(execution, 1, false, x), (execution, 2, false, y), (execution, 1, true, x), (execution, 2, true, y)]
    };
    let steps = ["1,2", "2,3", "1,2", "1,5", "1,6"];
    assert_eq!(run("all@2", &steps), of(2, 2.0, 3.0));
    assert_eq!(run("all@3,all", &steps), [of(1, 1.0, 2.0), of(3, 1.0, 2.0)].concat());
    assert_eq!(run("all@9", &steps), []);
    let records = records(&stand_in.file());
    let id = &graphs(&records)[0].graph;
    assert_eq!(counts(&records).last().unwrap().executions, 5);
    assert_eq!(run(&format!("{id}@4"), &steps), of(4, 1.0, 5.0));
    assert_eq!(run("0123456789abcdef@1", &steps), []);
    for requested in ["none", "all@0", "all,nan", ","] {
        let child = stand_in.child().env("CUDNN_CAPTURE_DATA", requested);
        let output = child.run(&["capture", "executions", "1,2"]);
        assert_eq!(output.stdout, "done\n", "{output:#?}");
        assert!(output.stderr.contains("expected the 16 digits of a graph or all"), "{output:#?}");
    }
}

#[test]
fn values_are_neither_read_nor_written_without_a_request() {
    let stand_in = Capturing::stand_in();
    let driver = driver(&stand_in);
    let child = stand_in.child().env("LD_PRELOAD", &driver).env("READS_MEMORY", "1");
    let output = child.run(&["capture", "executions", "12345.678,87654.32"]);
    assert_eq!(output.stdout, "done\n", "{output:#?}");
    assert!(!stand_in.dir.path().join("app.cudnncap.data").exists());
    let text = std::fs::read_to_string(stand_in.file()).unwrap();
    for planted in [12345.678_f32, 87654.32] {
        let hexadecimal: String = planted.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!text.contains(&hexadecimal) && !text.contains(&planted.to_string()), "{text}");
    }
}

#[test]
fn values_that_cannot_be_written_are_reported_once() {
    let stand_in = Capturing::stand_in();
    let (driver, data) = (driver(&stand_in), stand_in.dir.path().join("app.cudnncap.data"));
    std::fs::write(&data, "important").unwrap();
    let child = stand_in.child().env("LD_PRELOAD", &driver).env("READS_MEMORY", "1");
    let output = child.env("CUDNN_CAPTURE_DATA", "all,all@2").run(&["capture", "executions", "1,2", "1,2"]);
    assert_eq!((output.stdout.as_str(), output.stderr.matches("cannot write").count()), ("done\n", 1), "{output:#?}");
    assert_eq!(std::fs::read_to_string(&data).unwrap(), "important");
    let records = records(&stand_in.file());
    assert_eq!((all!(&records, Data).count(), executions(&records).len()), (0, 1));
}

/// Tensors can be private data, such as weights or a user's input.
#[test]
fn values_are_private() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    let stand_in = Capturing::stand_in();
    let (driver, data) = (driver(&stand_in), stand_in.dir.path().join("app.cudnncap.data"));
    let run = || {
        let child = stand_in.child().env("LD_PRELOAD", &driver).env("READS_MEMORY", "1");
        let output = child.env("CUDNN_CAPTURE_DATA", "all").run(&["capture", "executions", "1,2"]);
        assert_eq!(output.stdout, "done\n", "{output:#?}");
        output.stderr
    };
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let problem = run();
    assert!(!problem.contains("cannot write") && mode(&data) == 0o700, "{problem}");
    let modes: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| mode(&entry.unwrap().path())).collect();
    assert!(!modes.is_empty() && modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
    // Others could replace the files in this directory.
    std::fs::write(data.join("notes.txt"), "").unwrap();
    std::fs::set_permissions(&data, Permissions::from_mode(0o777)).unwrap();
    let problem = run();
    assert!(problem.contains("it is writable by other users (mode 0777)"), "{problem}");
    assert_eq!(all!(&records(&stand_in.file()), Data).count(), 0);
}

#[test]
fn values_are_not_written_through_links() {
    let stand_in = Capturing::stand_in();
    let (driver, data) = (driver(&stand_in), stand_in.dir.path().join("app.cudnncap.data"));
    let other = stand_in.dir.path().join("other");
    let run = || {
        let child = stand_in.child().env("LD_PRELOAD", &driver).env("READS_MEMORY", "1");
        let output = child.env("CUDNN_CAPTURE_DATA", "all").run(&["capture", "executions", "1,2"]);
        assert_eq!(
            (output.stdout.as_str(), output.stderr.matches("cannot write").count()),
            ("done\n", 1),
            "{output:#?}"
        );
        assert_eq!(all!(&records(&stand_in.file()), Data).count(), 0);
    };
    std::fs::create_dir(&other).unwrap();
    std::os::unix::fs::symlink(&other, &data).unwrap();
    run();
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
    // The layer removes links to files of an older capture, but not a directory with the name of a file.
    std::fs::remove_file(&data).unwrap();
    std::fs::create_dir_all(data.join("plan-0-execution-1-tensor-1-before.bin")).unwrap();
    run();
}

#[test]
fn graphs_without_an_engine_are_captured() {
    let stand_in = Capturing::stand_in();
    let run = |layers| stand_in.run(layers, &["executions", "unknown-engine"]).stdout;
    let expected = run("none");
    assert!(expected.contains("engine 99 is unknown"), "{expected}");
    assert_eq!(run("capture"), expected);
    let records = records(&stand_in.file());
    let (plan, failure) = (plans(&records)[0], failures(&records)[0]);
    assert_eq!((&plan.graph, &plan.engine), (&graphs(&records)[0].graph, &None));
    let reason = Some("engine 99 is unknown".to_owned());
    assert_eq!((&plan.reason, &failure.reason, &plan.status), (&reason, &reason, &failure.status));
}

#[test]
fn restored_plans_count_for_the_plans_that_were_serialized() {
    let stand_in = Capturing::stand_in();
    let run = |which: &str| {
        let output = stand_in.run("capture", &["executions", which]);
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("done\n", "built\n0 descriptors were not destroyed\n"),
            "{output:#?}"
        );
        records(&stand_in.file())
    };
    let restored = run("restored");
    assert_eq!((graphs(&restored).len(), plans(&restored).len()), (1, 1));
    assert_eq!(all!(&restored, Incomplete).count(), 0);
    let execution = executions(&restored)[0];
    assert_eq!((execution.plan, execution.tensors[0].memory.as_ref().unwrap().span), (0, Some(4096)));
    assert_eq!(counts(&restored).last().unwrap(), &&CountRecord { plan: 0, executions: 3 });
    let foreign = run("foreign");
    assert_eq!((plans(&foreign).len(), executions(&foreign).len()), (1, 0));
    let incomplete: Vec<_> = all!(&foreign, Incomplete).collect();
    assert!(incomplete[0].reason.contains("restored from JSON of an unknown plan"), "{incomplete:#?}");
}

#[test]
fn descriptors_may_be_made_and_destroyed_early() {
    let stand_in = Capturing::stand_in();
    let run = |which: &str| {
        let output = stand_in.run("capture", &["executions", which]);
        assert_eq!(output.stdout, "done\n", "{output:#?}");
        records(&stand_in.file())
    };
    let configuration = run("early-configuration");
    assert_eq!(plans(&configuration)[0].engine.as_ref().unwrap().index, 1);
    let pack = run("early-pack");
    assert_eq!(executions(&pack)[0].tensors.len(), 2);
    assert_eq!(counts(&pack)[0].executions, 2);
    let parent = run("fork-early-pack");
    assert_eq!((plans(&parent).len(), executions(&parent).len()), (1, 1));
    let is_child_file =
        |path: &PathBuf| path.extension().is_some_and(|it| it == "cudnncap") && *path != stand_in.file();
    let files = std::fs::read_dir(stand_in.dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let child_records: Vec<_> = files.filter(is_child_file).map(|file| self::records(&file)).collect();
    assert_eq!(executions(&child_records[0])[0].tensors.len(), 2);
    // The second plan is executed, but the layout is unknown.
    let changed = run("changed-pack");
    let tensors: Vec<_> =
        executions(&changed).iter().map(|execution| (execution.plan, execution.tensors.len())).collect();
    assert_eq!(tensors, [(0, 2), (1, 0)]);
    let threads = run("threads");
    assert_eq!((executions(&threads).len(), counts(&threads).last().unwrap().executions), (1, 4000));
}

#[test]
fn programs_see_no_difference_while_they_are_captured() {
    let test = "programs_see_no_difference_while_they_are_captured";
    let stand_in = Capturing::stand_in();
    for arguments in [&["variants"][..], &["workspace"], &["outlive"], &["last-error"], &["ask-back"]] {
        let (without, with) = (stand_in.run("none", arguments), stand_in.run("capture", arguments));
        assert_eq!((without.code, without.stdout), (with.code, with.stdout), "{arguments:?}");
    }
    if support::is_emulated(test, "an emulator is slow") {
        return;
    }
    let combinations = ["capture", "capture,trace,validate,explain,errata,plans", "explain,validate,capture"];
    let run = |layers: &str, arguments: &[&str]| stand_in.run(layers, arguments);
    check_random_programs(&combinations, run, || _ = records(&stand_in.file()));
    let counts = |records: &[Record]| (plans(records).len(), executions(records).len());
    stand_in.run("capture", &["0", "300"]);
    let (plans, executions) = counts(&records(&stand_in.file()));
    assert!(plans > 50 && executions > 20, "{plans} plans, {executions} executions");
}

#[test]
fn threads_write_one_capture() {
    let Some(real) = Capturing::real("threads_write_one_capture", "jit-cu12-9.19.0") else { return };
    let rest = ["mixed-types", "broadcast", "float-filter", "works", "mixed-types", "fused"].repeat(4);
    let records = real.capture(&[&["threads"], rest.as_slice()].concat());
    // Each record follows the records that it refers to, although two threads may write the same one.
    let mut known = std::collections::HashSet::new();
    for record in &records {
        match record {
            Record::Graph(graph) => _ = known.insert(graph.graph.clone()),
            Record::Device(device) => _ = known.insert(device.device.to_string()),
            Record::Proposals(proposals) => assert!(known.contains(&proposals.graph)),
            Record::Plan(plan) => assert!(known.contains(&plan.graph) && known.contains("0")),
            _ => {}
        }
    }
    assert_eq!(known.len(), 6);
}

#[test]
fn a_killed_program_leaves_all_records() {
    let Some(real) = Capturing::real("a_killed_program_leaves_all_records", "jit-cu12-9.19.0") else { return };
    let output = real.plan("capture", &["works", "kill", "mixed-types"]);
    assert_eq!(output.signal, Some(9));
    let records = records(&real.file());
    assert_eq!((graphs(&records).len(), plans(&records).len()), (1, 1));
}

#[test]
fn a_forked_child_writes_its_own_capture() {
    let Some(real) = Capturing::real("a_forked_child_writes_its_own_capture", "jit-cu12-9.19.0") else { return };
    for name in ["app.cudnncap", "app-%i.cudnncap"] {
        let device = real.device();
        let child = real.child().env("CUDNN_CAPTURE", real.dir.path().join(name));
        let output = child.run_successfully(&["capture", "explain", &device, "works", "fork", "mixed-types"]);
        let process = output.stdout.lines().find_map(|line| line.strip_prefix("child ")).unwrap();
        let file =
            if name.contains("%i") { format!("app-{process}.cudnncap") } else { format!("app.{process}.cudnncap") };
        let child_records = records(&real.dir.path().join(file));
        let labels: Vec<_> =
            graphs(&child_records).iter().map(|graph| graph.label.split(' ').next().unwrap()).collect();
        assert_eq!(labels, ["matmul"]);
        if !name.contains("%i") {
            assert_eq!(graphs(&records(&real.file())).len(), 2);
        }
    }
}

#[test]
fn a_program_continues_if_the_capture_cannot_be_written() {
    let test = "a_program_continues_if_the_capture_cannot_be_written";
    let Some(real) = Capturing::real(test, "jit-cu12-9.19.0") else { return };
    let device = real.device();
    let expected = real.plan("none", &["works", "mixed-types"]).stdout;
    let other = real.dir.path().join("other");
    std::fs::write(&other, "important").unwrap();
    for file in ["/nonexistent/file".as_ref(), "/dev/full".as_ref(), other.as_path()] {
        let output =
            real.child().env("CUDNN_CAPTURE", file).run(&["capture", "explain", &device, "works", "mixed-types"]);
        assert!(output.stderr.contains(&format!("cannot write {}", file.display())), "{output:#?}");
    }
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "important");
    // A shell limits the size of files to one or two blocks.
    for blocks in ["1", "3"] {
        let program = format!("ulimit -f {blocks}; exec \"$@\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &program, "sh", PLANNER, "capture", "explain", &device, "works", "mixed-types"]);
        command.env("CUDNN_LOADER_DIR", &real.cudnn).env("CUDNN_CAPTURE", real.file());
        command.env("LD_LIBRARY_PATH", &real.libraries.as_ref().unwrap().path);
        let output = command.output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(stdout, expected, "{stderr}");
        assert_eq!(stderr.matches("cannot write").count(), 1, "{stderr}");
        let capture = Capture::read(&real.file()).unwrap();
        assert!(capture.problems.len() <= 1 && !capture.records.is_empty(), "{capture:#?}");
    }
}

/// The file contains no paths, names, variables or addresses.
#[test]
fn a_capture_contains_no_private_values() {
    let Some(real) = Capturing::real("a_capture_contains_no_private_values", "jit-cu12-9.19.0") else { return };
    let planted = real.dir.path().join("planted-dir");
    std::fs::create_dir(&planted).unwrap();
    // The copies appear in messages about libraries.
    for entry in std::fs::read_dir(&real.cudnn).unwrap().map(|entry| entry.unwrap().path()) {
        support::link_or_copy(&entry, &planted.join(entry.file_name().unwrap())).unwrap();
    }
    let device = real.device();
    let file = planted.join("planted.cudnncap");
    for libraries in [Some(real.libraries.as_ref().unwrap().path.as_str()), None] {
        let child = Child::new(PLANNER, Subject::Loader, &planted).env("CUDNN_CAPTURE", &file);
        let child = child.env("LD_LIBRARY_PATH", libraries.unwrap_or_default()).env("PLANTED", "planted-value");
        let graphs = ["works", "integers", "mixed-types", "fused", "execute:works"];
        child.within(&planted).run_successfully(&[&["capture", "explain", &device], &graphs[..]].concat());
        let text = std::fs::read_to_string(&file).unwrap();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or("planted".into());
        for private in ["planted", "planner", "/tmp", "/root", "/home", "0x7f", host.trim()] {
            assert!(!text.contains(private), "{private}: {text}");
        }
        assert!(text.contains("\"failure\""), "{text}");
    }
}

/// Prints the instructions of a step with a new variant pack, which has seven calls.
#[test]
#[ignore = "counts the instructions of a step with valgrind; run it with --release --nocapture"]
fn the_cost_of_a_step() {
    const STEPS: u64 = 180_000;
    let stand_in = Capturing::stand_in();
    let count = |layers: &str, arguments: &[&str]| -> u64 {
        let mut valgrind = std::process::Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", PLANNER, layers]).args(arguments);
        valgrind.env("CUDNN_LOADER_DIR", &stand_in.cudnn).env("CUDNN_CAPTURE", stand_in.file());
        valgrind.env("CUDNN_PLANS_DIR", stand_in.dir.path().join("plans"));
        let output = valgrind.env("CUDNN_TRACE_SUMMARY", stand_in.dir.path().join("summary")).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let (_, count) = text.split_once("refs:").unwrap_or_else(|| panic!("{text}"));
        count.split_whitespace().next().unwrap().replace(',', "").parse().unwrap()
    };
    for layers in ["none", "plans", "explain", "capture", "validate", "trace"] {
        let start = count(layers, &["executions", "early-pack"]);
        println!("{layers}: {} instructions", (count(layers, &["mistakes", "steps-20000"]) - start) / STEPS);
    }
}
