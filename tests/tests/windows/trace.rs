//! Tests the layer `trace` on Windows: the file, lines and summary, with any number of threads and processes.

use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{Child, TempDir, lib_dir, windows};

const RELEASE: &str = windows::RELEASE;

/// Creates a directory with a client, the drop-in and the layers, and a directory with NVIDIA's DLLs.
fn client(source: &str, flags: &[&str]) -> Option<(TempDir, PathBuf)> {
    let real = lib_dir(RELEASE)?;
    let dir = TempDir::new();
    windows::client(source, &real.join("../include"), flags, &dir.path().join("program.exe"));
    for name in ["cudnn64_9.dll", "cudnn_layers.dll"] {
        std::fs::copy(windows::drop_in().join("bin").join(name), dir.path().join(name)).unwrap();
    }
    Some((dir, real))
}

fn run(dir: &TempDir, cudnn: &Path) -> Child {
    windows::child(&dir.path().join("program.exe"))
        .env("CUDNN_LOADER_DIR", windows::path(cudnn))
        .env("CUDNN_LAYERS", "trace")
}

fn events(file: &Path) -> Vec<Value> {
    parsed(&std::fs::read_to_string(file).unwrap())
}

fn parsed(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["name"] == name).collect()
}

fn traces(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|name| name == "json")).collect();
    files.sort();
    files
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn the_drop_in_writes_a_file_lines_and_a_summary() {
    let Some((dir, real)) = client("client.c", &["-lpsapi"]) else { return };
    let out = TempDir::new();
    let path = |name: &str| windows::path(&out.path().join(name));
    let output = run(&dir, &real)
        .env("CUDNN_TRACE", path("trace-%i.json"))
        .env("CUDNN_TRACE_LINES", path("lines"))
        .env("CUDNN_TRACE_SUMMARY", path("summary"))
        .run(&["cudnnGetVersion", "plain"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:?}");
    let files = traces(out.path());
    assert_eq!(files.len(), 1, "{files:?}");
    let events = events(&files[0]);
    let version = named(&events, "cudnnGetVersion")[0];
    assert_eq!(version["ph"], "X");
    assert!(version["ts"].as_f64().unwrap() > 0.0 && version["tid"].as_u64().unwrap() > 0, "{version}");
    assert_eq!(files[0].file_name().unwrap().to_str().unwrap(), format!("trace-{}.json", version["pid"]));
    let create = named(&events, "cudnnCreateTensorDescriptor")[0];
    assert_eq!(create["args"]["status"], "CUDNN_STATUS_SUCCESS (0)", "{create}");
    assert_eq!(named(&events, "load cudnn_graph64_9.dll").len(), 1, "{events:#?}");
    let lines = std::fs::read_to_string(out.path().join("lines")).unwrap();
    assert!(lines.lines().all(|line| line.starts_with("cudnn-trace ")), "{lines}");
    assert!(lines.contains("us cudnnGetVersion()\n"), "{lines}");
    let summary = std::fs::read_to_string(out.path().join("summary")).unwrap();
    assert!(summary.contains(&windows::fill_in_release("program.exe (cuDNN VERSION)")), "{summary}");
    assert!(summary.lines().any(|line| line.ends_with("  cudnnGetVersion")), "{summary}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn without_another_output_the_summary_is_on_the_standard_error_at_exit() {
    let Some((dir, real)) = client("windows.c", &[]) else { return };
    let output = run(&dir, &real).run(&["threads"]);
    assert_eq!((output.code, output.stdout.trim()), (Some(0), "good = 64"), "{output:?}");
    assert!(output.stderr.contains("cudnn-trace summary for process "), "{output:?}");
    assert!(output.stderr.contains(", 0 failed, "), "{output:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_program_with_the_loader_uses_the_layers_on_the_path() {
    let Some(real) = lib_dir(RELEASE) else { return };
    let driver = windows::build("cudnn-tests", "driver", &[]);
    let out = TempDir::new();
    let file = out.path().join("trace.json");
    let run = || {
        windows::child(&driver)
            .env("CUDNN_LOADER_DIR", windows::path(&real))
            .env("CUDNN_LAYER_PATH", windows::path(&windows::drop_in().join("bin")))
            .env("CUDNN_LAYERS", "trace")
            .env("CUDNN_TRACE", windows::path(&file))
            .run(&["cudnnGetVersion", "create"])
    };
    // A file with other data stays unchanged, but an old trace is replaced.
    for other in ["[1, 2]", "[\n{\"name\":\"process_name\",\"ph\":\"M\"}\n]\n"] {
        std::fs::write(&file, other).unwrap();
        let output = run();
        assert!(output.stderr.contains("the file exists and is not a trace"), "{output:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), other);
    }
    std::fs::write(&file, "[\n{\"name\":\"process_name\",\"cat\":\"cudnn\",\"pid\":1").unwrap();
    let output = run();
    assert_eq!(output.code, Some(0), "{output:?}");
    let events = events(&file);
    assert_eq!(named(&events, "cudnnGetVersion").len(), 1, "{events:#?} {output:?}");
    let status = &named(&events, "cudnnCreate")[0]["args"]["status"];
    assert!(status.as_str().is_some_and(|status| status.starts_with("CUDNN_STATUS_")), "{status}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn every_process_writes_its_own_file() {
    let Some((dir, real)) = client("windows.c", &[]) else { return };
    let out = TempDir::new();
    let name = windows::path(&out.path().join("trace.json"));
    std::thread::scope(|scope| {
        let run = || run(&dir, &real).env("CUDNN_TRACE", &name).run(&["calls-for", "5000"]);
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            let output = thread.join().unwrap();
            assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:?}");
        }
    });
    let files = traces(out.path());
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files.contains(&out.path().join("trace.json")), "{files:?}");
    for file in files {
        let events = events(&file);
        assert!(events.iter().all(|event| event["pid"] == events[0]["pid"]), "{}", file.display());
        assert!(named(&events, "cudnnGetVersion").len() > 10, "{}", file.display());
    }
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn calls_that_returned_are_in_the_file_when_the_process_is_killed() {
    let Some((dir, real)) = client("windows.c", &[]) else { return };
    let out = TempDir::new();
    let file = out.path().join("trace.json");
    for milliseconds in ["0", "30", "77", "300"] {
        let output = run(&dir, &real).env("CUDNN_TRACE", windows::path(&file)).run(&["terminate", milliseconds]);
        assert_eq!(output.code, Some(3), "{output:?}");
        let text = std::fs::read_to_string(&file).unwrap();
        // The last record may be incomplete.
        let events = serde_json::from_str(&format!("{text}]"))
            .unwrap_or_else(|_| parsed(&format!("{}]", &text[..text.rfind(",\n").unwrap()])));
        assert!(!named(&events, "cudnnGetVersion").is_empty());
    }
}
