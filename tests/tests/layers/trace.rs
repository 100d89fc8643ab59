//! The layer `trace`: its files and texts, whatever the program does.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use support::{
    Child, ChildOutput, Subject, TempDir, Version, c_compiler, client, copy_fake_set, drop_in, lib_dir, run_compiler,
};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");
const JIT: &str = "jit-cu12-9.19.0";

/// The client, linked to the drop-in, which has the layers beside it.
fn traced() -> Option<&'static TempDir> {
    static CLIENT: OnceLock<Option<TempDir>> = OnceLock::new();
    CLIENT.get_or_init(|| client("trace.c", &drop_in().join("lib"), &["-lpthread"])).as_ref()
}

/// A run of the client with the trace on, on this cuDNN.
fn child(cudnn: &Path) -> Option<Child> {
    let child = Child::bare(traced()?.path().join("client"))
        .env("LD_LIBRARY_PATH", drop_in().join("lib"))
        .env("CUDNN_LOADER_DIR", cudnn)
        .env("CUDNN_LAYERS", "trace");
    Some(child)
}

/// The events of a file, read by a parser that is not ours.
fn events(file: &Path) -> Vec<Value> {
    let python = "import json, sys\nassert isinstance(json.load(open(sys.argv[1], encoding='utf-8')), list)";
    let checked = Command::new("python3").args(["-c", python]).arg(file).output().unwrap();
    assert!(checked.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&checked.stderr));
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn name(event: &Value) -> &str {
    event["name"].as_str().unwrap_or_default()
}

fn named<'a>(events: &'a [Value], wanted: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| name(event) == wanted).collect()
}

/// The files in a directory, by name.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn fake_set() -> TempDir {
    let dir = TempDir::new();
    copy_fake_set(Version::new(9, 19, 0), dir.path());
    dir
}

#[test]
fn a_record_has_the_time_the_thread_the_arguments_and_the_status() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    let output = Child::new(DRIVER, Subject::Loader, &cudnn)
        .env("CUDNN_LAYER_PATH", drop_in().join("lib"))
        .env("CUDNN_LAYERS", "trace")
        .env("CUDNN_TRACE", &file)
        .run(&["cudnnGetVersion", "create", "~cudnnGetErrorString", "~cudnnCreateTensorDescriptor"]);
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert_eq!(output.stderr, "", "{output:#?}");
    let events = events(&file);
    let create = named(&events, "cudnnCreate")[0];
    assert_eq!(create["ph"], "X");
    assert!(create["dur"].as_f64().unwrap() > 0.0 && create["ts"].as_f64().unwrap() > 0.0, "{create}");
    assert!(create["pid"] == create["tid"] && create["pid"].as_u64().unwrap() > 0, "{create}");
    assert_eq!(create["args"]["status"], "CUDNN_STATUS_NOT_INITIALIZED (1001)");
    assert!(create["args"]["handle: cudnnHandle_t *"].as_str().unwrap().starts_with("0x"), "{create}");
    let string = named(&events, "cudnnGetErrorString")[0];
    assert_eq!(string["args"]["status: cudnnStatus_t"], "CUDNN_STATUS_SUCCESS (0)", "{string}");

    let of_category =
        |category: &str| -> Vec<&str> { events.iter().filter(|event| event["cat"] == category).map(name).collect() };
    assert_eq!(of_category("load"), ["load libcudnn_graph.so.9"]);
    assert!(of_category("first call").contains(&"resolve cudnnCreate"), "{events:#?}");
    assert_eq!(of_category("failure"), ["cannot load libcudnn_ops.so.9", "failed cudnnCreateTensorDescriptor"]);
    let failed = named(&events, "failed cudnnCreateTensorDescriptor")[0];
    assert!(failed["args"]["report"].as_str().unwrap().contains("does not include libcudnn_ops.so.9"), "{failed}");
}

#[test]
fn the_file_is_complete_whatever_ends_the_process() {
    if support::is_emulated("the_file_is_complete_whatever_ends_the_process", "an emulator is slow") {
        return;
    }
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    for (round, end) in ["kill", "segv", "_exit", "exit"].iter().cycle().take(20).enumerate() {
        let threads = format!("hot:{}", if round % 3 == 0 { 32 } else { 2 });
        let Some(child) = child(&cudnn) else { return };
        // On a busy machine it takes some milliseconds until the threads call.
        let time = format!("sleep:{}", 20 + round);
        let output = child.env("CUDNN_TRACE", &file).run(&["calls:1", &threads, &time, &format!("end:{end}")]);
        assert_eq!(output.signal, [Some(9), Some(11), None, None][round % 4], "{output:#?}");
        let events = events(&file);
        // Who truncates it while it is mapped would end the program.
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o222, 0);
        // What was being written when the process ended lacks its end: at most one record for each thread.
        let incomplete = events.iter().filter(|event| event["ph"].is_null()).count();
        assert!(events.len() > 10 && incomplete <= 33, "{} events, {incomplete} of them incomplete", events.len());
    }
}

#[test]
fn each_process_has_its_file() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    for pattern in ["trace.json", "trace-%i.json"] {
        let dir = TempDir::new();
        let Some(child) = child(&cudnn) else { return };
        let child = child.env("CUDNN_TRACE", dir.path().join(pattern));
        let output = child.run(&["calls:2", "fork", "calls:3"]);
        assert_eq!(output.code, Some(0), "{output:#?}");
        let files = files(dir.path());
        assert_eq!(files.len(), 2, "{files:?}");
        let processes: BTreeMap<u64, usize> = files
            .iter()
            .map(|file| {
                let events = events(file);
                let processes: Vec<u64> = events.iter().map(|event| event["pid"].as_u64().unwrap()).collect();
                assert!(processes.iter().all(|process| *process == processes[0]), "{}", file.display());
                (processes[0], named(&events, "cudnnGetVersion").len())
            })
            .collect();
        let child: u64 = output.returned("child").unwrap().parse().unwrap();
        assert_eq!(processes.get(&child), Some(&3), "{processes:?} {output:#?}");
        assert!(processes.values().any(|calls| *calls == 5), "{processes:?}");
    }
}

#[test]
fn a_file_that_another_process_writes_is_left_alone() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    // Not of a process that runs: replaced.
    std::fs::write(&file, "[]").unwrap();
    let run = |args: &[&str]| Some(child(&cudnn)?.env("CUDNN_TRACE", &file).run(args));
    let outputs: Vec<Option<ChildOutput>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| run(&["calls:2000", "sleep:500", "calls:1"]))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    if outputs.iter().any(Option::is_none) {
        return;
    }
    let files = files(dir.path());
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(files.contains(&file), "{files:?}");
    for file in files {
        assert_eq!(named(&events(&file), "cudnnGetVersion").len(), 2001, "{}", file.display());
    }
}

#[test]
fn a_file_that_cannot_grow_ends_and_the_program_goes_on() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    let Some(child) = child(&cudnn) else { return };
    let output = child.env("CUDNN_TRACE", &file).run(&["limit:1000000", "calls:20000", "memory"]);
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert!(output.returned("memory").is_some());
    let messages: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("trace.json ends here, and the program goes on without it"), "{messages:?}");
    assert!(events(&file).len() > 1000);
}

#[test]
fn a_program_may_close_all_descriptors() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    let lines = dir.path().join("lines");
    let Some(child) = child(&cudnn) else { return };
    let child = child.env("CUDNN_TRACE", &file).env("CUDNN_TRACE_LINES", &lines);
    let output = child.run(&["calls:1", "close-all", "calls:2000"]);
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert_eq!(output.stderr, "");
    assert_eq!(named(&events(&file), "cudnnGetVersion").len(), 2001);
    let lines = std::fs::read_to_string(lines).unwrap();
    assert_eq!(lines.matches(" cudnnGetVersion()\n").count(), 2001);
}

#[test]
fn a_file_that_cannot_be_written_turns_the_layer_off() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let link = dir.path().join("link");
    let target = dir.path().join("target");
    std::fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for file in [dir.path().join("missing/trace.json"), dir.path().to_owned(), "/dev/null".into(), link] {
        let Some(child) = child(&cudnn) else { return };
        let output = child.env("CUDNN_TRACE", &file).run(&["calls:1"]);
        assert_eq!(output.code, Some(0), "{output:#?}");
        assert!(
            output.stderr.contains("layer \"trace\"") && output.stderr.contains("cannot be written"),
            "{output:#?}"
        );
    }
    assert!(Path::new("/dev/null").exists());
    assert_eq!(std::fs::read_to_string(target).unwrap(), "precious");
}

#[test]
fn memory_does_not_grow_with_calls() {
    if support::is_emulated("memory_does_not_grow_with_calls", "an emulator takes memory for code") {
        return;
    }
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let Some(child) = child(&cudnn) else { return };
    let child = child.env("CUDNN_TRACE", dir.path().join("trace.json"));
    let child = child.env("CUDNN_TRACE_SUMMARY", dir.path().join("summary"));
    let output = child.run(&["calls:2000", "memory", "calls:60000", "memory"]);
    let memory: Vec<u64> =
        output.stdout.lines().filter_map(|line| line.strip_prefix("memory = ")?.parse().ok()).collect();
    assert!(memory.len() == 2 && memory[1] < memory[0] + 200, "{output:#?}");
}

#[test]
fn lines_are_complete() {
    let fake = fake_set();
    let dir = TempDir::new();
    let file = dir.path().join("lines-%i");
    let Some(child) = child(fake.path()) else { return };
    let output = child.env("CUDNN_TRACE_LINES", &file).run(&["execute:1"]);
    assert_eq!(output.code, Some(0), "{output:#?}");
    let text = std::fs::read_to_string(&files(dir.path())[0]).unwrap();
    let line = text.lines().find(|line| line.contains("cudnnBackendExecute(")).unwrap();
    assert!(line.starts_with("cudnn-trace "), "{line}");
    assert!(
        line.ends_with(
            "us cudnnBackendExecute(handle: cudnnHandle_t = 0x1000, executionPlan: cudnnBackendDescriptor_t = 0x2000, \
             variantPack: cudnnBackendDescriptor_t = 0x3000) = CUDNN_STATUS_SUCCESS (0), stream 0x77"
        ),
        "{line}"
    );
}

#[test]
fn without_another_output_there_is_a_summary_at_exit() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let Some(child) = child(&cudnn) else { return };
    let output = child.run(&["calls:100", "fork", "calls:10"]);
    let summaries: Vec<&str> = output.stderr.split("cudnn-trace of process ").skip(1).collect();
    assert_eq!(summaries.len(), 2, "{output:#?}");
    // The child ends first, and its parent's calls are not its own.
    for (summary, calls) in summaries.iter().zip(["10", "110"]) {
        let row = summary.lines().find(|line| line.ends_with("  cudnnGetVersion")).unwrap();
        assert_eq!(row.split_whitespace().next(), Some(calls), "{summary}");
    }
    assert!(summaries[1].contains("First calls of 3 functions: "), "{output:#?}");
    assert!(summaries[1].contains("libcudnn_graph.so.9 was loaded in "), "{output:#?}");
}

/// A driver library without a device: an event happens when it is recorded, and a millisecond passes between any two.
const FAKE_DRIVER: &str = r#"
#include <stdlib.h>
static int events, mode;
int cuCtxGetCurrent(void **context) { *context = (void *)0x5000; return 0; }
int cuCtxGetId(void *context, unsigned long long *id) { *id = context == (void *)0x5000 ? 3 : 4; return 0; }
int cuEventCreate(int **event, unsigned flags) { *event = calloc(1, sizeof **event); return flags != 0; }
int cuEventRecord(int *event, void *stream) { *event = ++events; return stream != (void *)0x77; }
int cuEventQuery(int *event) { return *event ? 0 : 400; }
int cuEventElapsedTime(float *time, int *from, int *to) { *time = *to - *from; return 0; }
int cuStreamIsCapturing(void *stream, int *status) { *status = getenv("CAPTURING") != 0; return mode != 2; }
int cuThreadExchangeStreamCaptureMode(int *other) { int previous = mode; mode = *other; *other = previous; return 0; }
"#;

fn compile_library(code: &str, file: &Path) {
    let source = file.with_extension("c");
    std::fs::write(&source, code).unwrap();
    let mut compiler = c_compiler();
    compiler.args(["-shared", "-fPIC", "-w"]).arg(source).arg("-o").arg(file);
    let soname = file.file_name().unwrap().to_str().unwrap();
    run_compiler(compiler.arg(format!("-Wl,-soname,{soname}")));
}

#[test]
fn device_times_are_read_without_waiting() {
    let fake = fake_set();
    let dir = TempDir::new();
    let driver = dir.path().join("libcuda.so.1");
    compile_library(FAKE_DRIVER, &driver);
    let open = format!("open:{}", driver.display());
    let run = |variable: (&str, &str), args: &[&str]| {
        let file = dir.path().join("trace.json");
        let child = child(fake.path())?.env("CUDNN_TRACE", &file).env(variable.0, variable.1);
        let output = child.env("CUDNN_TRACE_GPU", "1").run(args);
        assert_eq!(output.code, Some(0), "{output:#?}");
        Some(events(&file))
    };
    let Some(traced) = run(("UNUSED", ""), &[&open, "execute:600"]) else { return };
    let on_device = named(&traced, "cudnnBackendExecute on the device");
    assert_eq!(on_device.len(), 600);
    let mut last = 0.0;
    for event in on_device {
        assert_eq!(event["dur"], 1000.0, "{event}");
        assert_eq!(event["args"]["stream"], "0x77");
        let start = event["ts"].as_f64().unwrap();
        assert!(start >= last, "{event}");
        last = start + 1000.0;
    }
    let track = named(&traced, "thread_name");
    assert_eq!(track[0]["args"]["name"], "stream 0x77 of the device");
    // While a stream is captured, and without a driver, there is nothing of it.
    for (variable, args) in
        [(("CAPTURING", "1"), vec![open.as_str(), "execute:5"]), (("UNUSED", ""), vec!["execute:5"])]
    {
        let traced = run(variable, &args).unwrap();
        assert_eq!(named(&traced, "cudnnBackendExecute on the device").len(), 0);
        assert_eq!(named(&traced, "cudnnBackendExecute").len(), 5);
    }
}

/// A tool of NVTX's that prints the ranges.
const TOOL: &str = r#"
#include <stdio.h>
struct table { size_t size; int (*module)(int, void ****, unsigned *); };
static int depth;
static int push(const char *name) { printf("push %s\n", name); return depth++; }
static int pop(void) { printf("pop\n"); return --depth; }
int InitializeInjectionNvtx2(const void *(*get)(unsigned)) {
    const struct table *table = get(1);
    void ***functions;
    unsigned size;
    if (!table || !table->module(1, &functions, &size) || size != 16) return 0;
    *functions[9] = push;
    *functions[11] = pop;
    return 1;
}
"#;

#[test]
fn a_tool_that_listens_gets_ranges() {
    let fake = fake_set();
    let dir = TempDir::new();
    let tool = dir.path().join("libtool.so");
    compile_library(TOOL, &tool);
    let Some(child) = child(fake.path()) else { return };
    let output = child.env("NVTX_INJECTION64_PATH", &tool).run(&["execute:1"]);
    assert_eq!(output.stdout, "push cudnnSetStream\npop\npush cudnnBackendExecute\npop\n", "{output:#?}");
}
