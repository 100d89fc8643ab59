//! Tests `replay` with real and broken releases of cuDNN, and with hostile captures.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use cudnn_graph::Graph;
use cudnn_probe::Host;
use cudnn_probe::ld_so::{KnownFiles, Simulation};
use serde_json::Value;
use support::{FakeLibrary, Library, PlanningLibraries, TempDir, Version, lib_dir};

const START: &str = r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#;

/// Returns a record of a convolution with filters of this type and a label with this name.
fn convolution(name: &str, filter_type: u8) -> String {
    let tensor = |uid: u8, ty: u8, dims: [i64; 4]| {
        let [_, channels, height, width] = dims;
        let strides = [height * width * channels, 1, width * channels, channels];
        format!(
            r#"{{"kind":"TENSOR","TENSOR_UNIQUE_ID:3":{uid},"TENSOR_DATA_TYPE:1":{ty},"TENSOR_BYTE_ALIGNMENT:3":16,"TENSOR_DIMENSIONS:3":{dims:?},"TENSOR_STRIDES:3":{strides:?}}}"#
        )
    };
    let uid = 3 + name.bytes().fold(0, u8::wrapping_add) % 100;
    let [x, w, y] =
        [tensor(1, 2, [4, 16, 14, 14]), tensor(2, filter_type, [32, 16, 3, 3]), tensor(uid, 2, [4, 32, 14, 14])];
    let rest = r#"{"kind":"CONVOLUTION","CONVOLUTION_COMP_TYPE:1":0,"CONVOLUTION_CONV_MODE:7":1,"CONVOLUTION_SPATIAL_DIMS:3":2,"CONVOLUTION_PRE_PADDINGS:3":[1,1],"CONVOLUTION_POST_PADDINGS:3":[1,1],"CONVOLUTION_FILTER_STRIDES:3":[1,1],"CONVOLUTION_DILATIONS:3":[1,1]},{"kind":"OPERATION_CONVOLUTION_FORWARD","OPERATION_CONVOLUTION_FORWARD_X:15":0,"OPERATION_CONVOLUTION_FORWARD_W:15":1,"OPERATION_CONVOLUTION_FORWARD_Y:15":2,"OPERATION_CONVOLUTION_FORWARD_CONV_DESC:15":3,"OPERATION_CONVOLUTION_FORWARD_ALPHA:4":1.0,"OPERATION_CONVOLUTION_FORWARD_BETA:4":0.0},{"kind":"OPERATIONGRAPH","OPERATIONGRAPH_HANDLE:0":1,"OPERATIONGRAPH_OPS:15":4}"#;
    let nodes = format!("[{x},{w},{y},{rest}]");
    let id = serde_json::from_str::<Graph>(&nodes).unwrap().id();
    format!(r#"{{"record":"graph","graph":"{id}","label":"conv {name}","nodes":{nodes}}}"#)
}

fn id_of(record: &str) -> String {
    serde_json::from_str::<Value>(record).unwrap()["graph"].as_str().unwrap().to_owned()
}

fn lab(arguments: &[&str], libraries: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
    command.arg("replay").args(arguments).env_clear().env("LD_LIBRARY_PATH", libraries);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

fn json(arguments: &[&str], libraries: &str) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
    command.arg("replay").args(arguments).arg("--json").env_clear().env("LD_LIBRARY_PATH", libraries);
    let output = command.output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

fn write(dir: &TempDir, lines: &[&str]) -> String {
    let file = dir.path().join("app.cudnncap");
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    file.to_str().unwrap().to_owned()
}

/// Builds a graph library in which all functions without C code have this body.
fn fake(dir: &Path, code: &str, body: &'static str) -> String {
    std::fs::create_dir_all(dir).unwrap();
    let library = FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(code).with_body(body);
    library.build(&dir.join("libcudnn_graph.so.9"));
    dir.to_str().unwrap().to_owned()
}

fn closed_pipe() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

fn full_disk() -> Stdio {
    std::fs::File::create("/dev/full").unwrap().into()
}

#[test]
fn a_working_and_a_refused_graph_are_planned_without_a_gpu() {
    let test = "a_working_and_a_refused_graph_are_planned_without_a_gpu";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    let (dir, cudnn) = (TempDir::new(), cudnn.to_str().unwrap());
    let record = convolution("good", 2);
    let file = write(&dir, &[START, &record, &convolution("mixed", 0)]);
    let (code, report) = json(&[&file, "--compare", cudnn, cudnn], &libraries.path);
    assert_eq!((code, &report["worse"]), (Some(0), &Value::from(0)), "{report:#}");
    let (good, mixed) = (&report["graphs"][0], &report["graphs"][1]);
    assert_eq!((&good["before"]["status"], &good["after"]["cudnn"]), (&"SUCCESS".into(), &91_900.into()), "{good:#}");
    assert!(good["before"]["supporting"].as_u64() > Some(0) && good["before"]["plans"][0]["engine"]["index"].is_u64());
    assert_eq!((&mixed["after"]["status"], &mixed["changes"]), (&"NOT_SUPPORTED".into(), &Value::Array(vec![])));
    let (code, text) = lab(&[&file, "--compare", cudnn, cudnn, "--graph", &id_of(&record)], &libraries.path);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("planned for NVIDIA H200; nothing was executed") && !text.contains("mixed"), "{text}");
}

#[test]
fn a_failure_a_crash_and_a_lost_process_are_findings() {
    let test = "a_failure_a_crash_and_a_lost_process_are_findings";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    let (dir, cudnn) = (TempDir::new(), cudnn.to_str().unwrap());
    let file = write(&dir, &[START, &convolution("<b>", 2)]);
    let crash = "int cudnnBackendFinalize(void *d) { *(volatile int *)0 = 0; return 0; }";
    let exit = "#include <stdlib.h>\nint cudnnBackendFinalize(void *d) { exit(0); }";
    let refuse = "int cudnnBackendFinalize(void *d) { return 3000; }";
    for (name, code, status, reason) in [
        ("crash", crash, "CRASHED", "signal 11"),
        ("exit", exit, "CRASHED", "ended without a report"),
        ("refuse", refuse, "NOT_SUPPORTED", "description of the device"),
    ] {
        let broken = fake(&dir.path().join(name), code, "return 0;");
        let page = dir.path().join("page.html");
        let arguments = [&file, "--compare", cudnn, &broken, "--html", page.to_str().unwrap()];
        let (code, report) = json(&arguments, &libraries.path);
        let after = &report["graphs"][0]["after"];
        assert_eq!((code, &after["status"]), (Some(1), &status.into()), "{name}: {report:#}");
        assert!(after["reason"].as_str().unwrap().contains(reason), "{name}: {after:#}");
        assert_eq!(report["graphs"][0]["changes"][0]["aspect"], "status", "{report:#}");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(status) && page.contains("&lt;b&gt;") && !page.contains("<b>&"), "{page}");
        let (code, report) = json(&[&file, "--compare", &broken, cudnn], &libraries.path);
        assert_eq!((code, &report["worse"]), (Some(0), &0.into()), "{name}: an improvement: {report:#}");
    }
}

#[test]
#[cfg(unix)]
fn a_failed_output_stops_neither_the_replay_nor_the_files() {
    let test = "a_failed_output_stops_neither_the_replay_nor_the_files";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    let dir = TempDir::new();
    let file = write(&dir, &[START, &convolution("good", 2)]);
    let [page, junit] = ["page.html", "junit.xml"].map(|name| dir.path().join(name));
    let mut sizes = [0; 2];
    for (format, is_closed) in [(None, true), (Some("--json"), true), (None, false), (Some("--json"), false)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
        command.args(["replay", &file, "--compare"]).args([&cudnn, &cudnn]).args(format);
        command.arg("--html").arg(&page).arg("--junit").arg(&junit);
        command.env_clear().env("LD_LIBRARY_PATH", &libraries.path);
        let output = command.stdout(if is_closed { closed_pipe() } else { full_disk() }).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let expected = if is_closed { 128 + 13 } else { 3 };
        assert_eq!(output.status.code(), Some(expected), "{format:?}: {stderr}");
        assert_eq!(stderr.matches("cannot write the output").count(), usize::from(!is_closed), "{format:?}: {stderr}");
        for ((file, end), size) in [(&page, "</html>\n"), (&junit, "</testsuites>\n")].into_iter().zip(&mut sizes) {
            let text = std::fs::read_to_string(file).unwrap();
            assert!(text.ends_with(end), "{format:?}: {}", file.display());
            *size = text.len();
            std::fs::remove_file(file).unwrap();
        }
    }
    // Failing to write one file must not prevent the other one.
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
    command.args(["replay", &file, "--compare"]).args([&cudnn, &cudnn]).env_clear();
    command.arg("--html").arg(&page).arg("--junit").arg(&junit).env("LD_LIBRARY_PATH", &libraries.path);
    let [page_size, junit_size] = sizes;
    let size = (page_size + junit_size) as u64 / 2;
    let limit_files = move || {
        let limit = libc::rlimit { rlim_cur: size, rlim_max: size };
        // SAFETY: the pointer refers to a valid structure.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        }
        Ok(())
    };
    // SAFETY: the function makes two calls that are allowed in a forked child.
    unsafe { command.pre_exec(limit_files) };
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let reason = format!("cannot write {}: File too large", page.display());
    assert_eq!((output.status.code(), stderr.contains(&reason)), (Some(3), true), "{stderr}");
    assert!(std::fs::read_to_string(junit).unwrap().ends_with("</testsuites>\n"));
}

/// cuDNN 9.27 and newer ends the process without cuBLASLt.
#[test]
#[cfg(target_os = "linux")]
fn a_release_for_another_cuda_is_refused_before_the_first_graph() {
    let mut process = Simulation::without_program(Path::new("/"), &Host::sandbox("/"), &KnownFiles::new());
    if process.dlopen("libcublasLt.so.13", 0) {
        println!("NOT RUN: cuBLASLt for CUDA 13 is installed");
        return;
    }
    let dir = TempDir::new();
    let file = write(&dir, &[START, &convolution("good", 2)]);
    let [cudnn, cuda] = ["cudnn", "cuda"].map(|name| dir.path().join(name));
    std::fs::create_dir(&cudnn).unwrap();
    std::fs::create_dir(&cuda).unwrap();
    for library in [Library::Graph, Library::EnginesPrecompiled] {
        let code = "#include <stdlib.h>\nint cudnnBackendFinalize(void *d) { abort(); }";
        let library_of = |library| FakeLibrary::new(library, Version::new(9, 28, 0)).with_body("return 0;").with_ptx(9);
        let code = if library == Library::Graph { code } else { "" };
        library_of(library).with_code(code).build(&cudnn.join(library.file_name()));
    }
    let run = |library: &str| {
        support::compile("", &["-shared", &format!("-Wl,-soname,{library}")], &cuda.join(library));
        lab(&[&file, "--cudnn", cudnn.to_str().unwrap()], cuda.to_str().unwrap())
    };
    let (code, text) = run("libcublasLt.so.12");
    let expected = "cuDNN 9.28.0 for CUDA 13 would end the process, because ld.so does not find libcublasLt.so.13; add \
                    its directory to LD_LIBRARY_PATH, or name a release for CUDA 12";
    assert!(code == Some(3) && text.trim_end() == expected, "{code:?} {text}");
    let (code, text) = run("libcublasLt.so.13");
    assert!(code == Some(1) && text.contains("CRASHED"), "{code:?} {text}");
}

/// The lab has learned nothing about the graphs, so there is no finding.
#[test]
fn a_release_that_cannot_be_loaded_is_a_failure() {
    let dir = TempDir::new();
    let file = write(&dir, &[START, &convolution("good", 2)]);
    let crash = "__attribute__((constructor)) static void start(void) { *(volatile int *)0 = 0; }";
    let lacking = "int cudnnBackendFinalize(void *d) { return 1008; }";
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for (cudnn, reason) in [
        (
            fake(&dir.path().join("crash"), crash, "return 0;"),
            "cuDNN cannot be loaded: the process was ended by signal 11",
        ),
        (fake(&dir.path().join("lacking"), lacking, "return 0;"), "lacks a library"),
        (empty.to_str().unwrap().to_owned(), "contains no libcudnn_graph.so.9"),
    ] {
        for options in [&["--cudnn", &cudnn][..], &["--compare", &cudnn, &cudnn]] {
            let (code, text) = lab(&[&[file.as_str()][..], options].concat(), "");
            let is_explained = text.contains(reason) || text.contains("SUBLIBRARY_LOADING_FAILED");
            assert!(code == Some(3) && is_explained, "{options:?}: {text}");
            assert!(!text.contains("CUDNN_LOADER_DIR)"), "{text}");
            let (code, document) = json(&[&[file.as_str()][..], options].concat(), "");
            assert!(code == Some(3) && document["error"].is_string(), "{options:?}: {document:#}");
        }
    }
}

#[test]
fn unreadable_captures_are_refused_and_unreadable_records_are_named() {
    let dir = TempDir::new();
    let working = fake(&dir.path().join("cudnn"), "", "return 0;");
    let compare = |file: &str| lab(&[file, "--compare", &working, &working], "");
    let (code, text) = compare("/no/such/file");
    assert!(code == Some(3) && text.contains("/no/such/file"), "{text}");
    let (code, text) = compare(&write(&dir, &["{}"]));
    assert!(code == Some(3) && text.contains("not a capture"), "{text}");
    let (code, text) = compare(&write(&dir, &[START]));
    assert!(code == Some(3) && text.contains("contains no graph"), "{text}");
    let hostile = r#"{"record":"graph","graph":"\u001b[31m","label":"\u202e","nodes":[{"kind":"TENSOR","TENSOR_DIMENSIONS:3":[9223372036854775807,9223372036854775807],"TENSOR_STRIDES:3":[-1,0]}]}"#;
    let lines = [START, hostile, r#"{"record":"future"}"#, r#"{"record":"graph","graph":"x","label":"","nodes":[]}"#];
    let (code, text) = compare(&write(&dir, &lines));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("unknown type \"future\"") && text.contains("line 4 is damaged"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    let (code, text) = lab(&[&write(&dir, &lines), "--compare", "9.x", &working], "");
    assert!(code == Some(3) && text.contains("9.x is not a release of cuDNN"), "{text}");
    let (code, text) = lab(&[&write(&dir, &lines), "--compare", "9.1234", &working], "");
    assert!(code == Some(3) && text.contains("9.1234 is not pinned: its sha256 is unknown"), "{text}");
}

/// Each process of a program writes its own capture.
#[test]
fn graphs_of_several_captures_are_replayed_once() {
    let dir = TempDir::new();
    let working = fake(&dir.path().join("cudnn"), "", "return 0;");
    let capture = |name: &str, graphs: &[&str]| {
        let lines: Vec<String> = graphs.iter().map(|graph| convolution(graph, 2)).collect();
        let file = dir.path().join(name);
        std::fs::write(&file, format!("{START}\n{}\n", lines.join("\n"))).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (first, second) = (capture("app.cudnncap", &["a", "b"]), capture("app.7.cudnncap", &["b", "c"]));
    let (_, report) = json(&[&first, &second, "--compare", &working, &working], "");
    let graphs = report["graphs"].as_array().unwrap().iter();
    let mut labels: Vec<&str> = graphs.map(|graph| graph["label"].as_str().unwrap()).collect();
    labels.sort_unstable();
    assert_eq!((labels, &report["problems"]), (vec!["conv a", "conv b", "conv c"], &Value::Array(vec![])));
    let only = id_of(&convolution("c", 2));
    let (_, report) = json(&[&first, &second, "--graph", &only, "--compare", &working, &working], "");
    assert_eq!(report["graphs"].as_array().unwrap().len(), 1, "{report:#}");
    let (code, text) = lab(&[&first, &second, "--graph", "nothing"], "");
    assert!(code == Some(3) && text.contains(&format!("{first}, {second}: the capture has no graph")), "{text}");
    std::fs::write(&second, format!("{START}\n<damaged>\n")).unwrap();
    let (_, report) = json(&[&first, &second, "--compare", &working, &working], "");
    let problem = report["problems"][0].as_str().unwrap();
    assert!(problem.starts_with(&format!("{second}: line 2")), "{problem}");
}

#[test]
fn a_graph_that_hangs_does_not_stop_the_others() {
    let dir = TempDir::new();
    let hang = "#include <unistd.h>\nint cudnnBackendFinalize(void *d) { for (;;) pause(); }";
    let broken = fake(&dir.path().join("hang"), hang, "return 0;");
    let file = write(&dir, &[START, &convolution("first", 2), &convolution("second", 2)]);
    let (code, report) = json(&[&file, "--timeout", "1", "--compare", &broken, &broken], "");
    assert_eq!(code, Some(3), "{report:#}");
    let graphs = report["graphs"].as_array().unwrap();
    assert!(graphs.iter().all(|graph| graph["after"]["status"] == "HUNG") && graphs.len() == 2, "{report:#}");
}

/// cuDNN would write behind its buffer for the name of the device.
#[test]
fn a_graph_for_a_device_with_a_long_name_is_skipped() {
    if Path::new("/dev/nvidiactl").exists() {
        println!("NOT RUN: this machine may have a GPU, which is used instead of the captured device");
        return;
    }
    let dir = TempDir::new();
    let working = fake(&dir.path().join("cudnn"), "", "return 0;");
    let description = serde_json::json!({ "deviceName": "A".repeat(256) }).to_string();
    let device = serde_json::json!({ "record": "device", "device": 0, "description": description }).to_string();
    let file = write(&dir, &[START, &device, &convolution("long", 2)]);
    let (code, report) = json(&[&file, "--compare", &working, &working], "");
    let after = &report["graphs"][0]["after"];
    assert_eq!((code, &after["status"]), (Some(3), &"SKIPPED".into()), "{report:#}");
    assert_eq!(after["reason"], "the description of the device has a string of more than 255 bytes");
}

#[test]
fn the_captured_engine_is_forced_or_skipped() {
    let test = "the_captured_engine_is_forced_or_skipped";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    let (dir, cudnn) = (TempDir::new(), cudnn.to_str().unwrap());
    let plan = |plan: usize, graph: &str, engine: &str| {
        format!(
            r#"{{"record":"plan","plan":{plan},"graph":"{graph}","status":"SUCCESS","engine":{engine},"build_us":1}}"#
        )
    };
    let graphs = ["a", "b", "c"].map(|name| convolution(name, 2));
    let lines = [
        START.to_owned(),
        graphs.join("\n"),
        plan(0, &id_of(&graphs[0]), r#"{"index":8}"#),
        plan(1, &id_of(&graphs[1]), r#"{"index":4711,"knobs":{"TILE_SIZE":3}}"#),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let file = write(&dir, &lines);
    let (_, report) = json(&[&file, "--engines", "captured", "--compare", cudnn, cudnn], &libraries.path);
    let [a, b, c] = [0, 1, 2].map(|index| &report["graphs"][index]["after"]);
    assert_eq!((&a["status"], &a["plans"][0]["engine"]["index"]), (&"SUCCESS".into(), &8.into()), "{report:#}");
    assert!(b["status"] != "SUCCESS" && b["plans"][0]["skipped"].is_string(), "{report:#}");
    assert_eq!(c["status"], "SKIPPED", "{report:#}");
    let arguments = [&file, "--engines", "captured", "--graph", &id_of(&graphs[2])];
    let (code, text) = lab(&arguments, &format!("{cudnn}:{}", libraries.path));
    assert!(code == Some(1) && text.contains("the capture contains no engine for this graph"), "{text}");
}

#[test]
fn a_page_states_the_circumstances_of_the_comparison() {
    let test = "a_page_states_the_circumstances_of_the_comparison";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    let Some(newer) = lib_dir("jit-cu13-9.27.0") else { return };
    let dir = TempDir::new();
    let file = write(&dir, &[START, &convolution("mixed", 0), "<damaged>"]);
    let page = dir.path().join("page.html");
    let [cudnn, newer, page] = [&cudnn, &newer, &page].map(|path| path.to_str().unwrap());
    let arguments = [&file, "--compare", cudnn, newer, "--html", page];
    let (code, text) = lab(&arguments, &libraries.path);
    assert_eq!(code, Some(3), "{text}");
    let page = std::fs::read_to_string(page).unwrap();
    let both = ["9.19.0 for CUDA 12", "9.27.0 for CUDA 13", "built for CUDA 12 and CUDA 13", "nothing was executed: "];
    for expected in both {
        assert!(page.contains(expected) && text.contains(expected), "{expected}: {page}{text}");
    }
    for expected in ["Problem of the capture: line 3 is damaged", "<p>20"] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(text.contains("no graph works with either release, so nothing was compared"), "{text}");
    assert_eq!(text.matches("no engine works, of").count(), 2, "{text}");
}

/// Compares the oldest release that accepts a described device with the newest one.
#[test]
#[ignore = "downloads full releases of cuDNN"]
fn the_pinned_releases_are_compared_end_to_end() {
    let test = "the_pinned_releases_are_compared_end_to_end";
    let Some(libraries) = PlanningLibraries::with_nvrtc(test) else { return };
    let newest = support::full_releases().max_by_key(|release| release.cudnn_version()).unwrap();
    if lib_dir("cu12-9.10.2").is_none() || lib_dir(newest.id).is_none() {
        return;
    }
    let dir = TempDir::new();
    let page = dir.path().join("page.html");
    let page = page.to_str().unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/captures/small.cudnncap");
    let with_home = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
        let output = command.arg("replay").args(arguments).env("LD_LIBRARY_PATH", &libraries.path).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, text) = with_home(&[file, "--compare", "cu12-9.10.2", newest.id, "--html", page, "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &report["worse"]), (Some(0), &0.into()), "{report:#}");
    assert_eq!(report["before"]["version"], "9.10.2", "{report:#}");
    let row = &report["graphs"][0];
    for report in ["before", "after"].map(|release| &row[release]) {
        assert_eq!(report["status"], "SUCCESS", "{report:#}");
        assert!(report["not_executed"].is_string() && report["plans"][0]["engine"]["index"].is_u64(), "{report:#}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    let [_, minor, patch] = newest.cudnn_version().unwrap();
    assert!(page.contains("9.10.2 for CUDA 12") && page.contains(&format!("9.{minor}.{patch} for CUDA")), "{page}");
    let (code, text) = with_home(&[file, "--compare", "9.10", "9.28"]);
    assert!(code == Some(0) && text.contains("9.10.2 for CUDA 12"), "{text}");
    assert!(text.contains("9.28.0 for CUDA 12") && !text.contains("CUDA 13"), "{text}");
    assert!(text.contains("0 graphs became worse"), "{text}");
}

#[test]
fn failed_calls_are_repeated() {
    let test = "failed_calls_are_repeated";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    let (dir, cudnn) = (TempDir::new(), cudnn.to_str().unwrap());
    let failure = |attribute: &str| {
        format!(
            r#"{{"record":"failure","call":"cudnnBackendSetAttribute","status":"BAD_PARAM","attribute":{attribute},"descriptors":[{{"kind":"TENSOR","finalized":false,"TENSOR_DATA_TYPE:1":2}}]}}"#
        )
    };
    // One integer of four bytes, and one of eight.
    let lines = [
        START.to_owned(),
        failure(r#"["TENSOR_DIMENSIONS",23,1,"01000000"]"#),
        failure(r#"["TENSOR_DIMENSIONS",3,1,"0100000000000000"]"#),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let file = write(&dir, &lines);
    let (code, report) = json(&[&file, "--compare", cudnn, cudnn], &libraries.path);
    assert_eq!(code, Some(0), "{report:#}");
    let [wrong, fixed] = [0, 1].map(|index| &report["graphs"][index]);
    assert_eq!(wrong["label"], "cudnnBackendSetAttribute TENSOR_DIMENSIONS: BAD_PARAM");
    assert_eq!(wrong["after"]["status"], "BAD_PARAM_ATTRIBUTE_TYPE", "{wrong:#}");
    assert!(wrong["after"]["reason"].as_str().unwrap().contains("TENSOR_DIMENSIONS"), "{wrong:#}");
    assert_eq!((&fixed["after"]["status"], &fixed["after"]["plans"]), (&"SUCCESS".into(), &Value::Array(vec![])));
}

#[test]
fn failed_calls_with_handles_are_repeated_for_the_device() {
    let test = "failed_calls_with_handles_are_repeated_for_the_device";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    let (dir, cudnn) = (TempDir::new(), cudnn.to_str().unwrap());
    let graph: Value = serde_json::from_str(&convolution("a", 2)).unwrap();
    let failure = |mut descriptors: Vec<Value>, last: &str| {
        descriptors.push(serde_json::from_str(last).unwrap());
        let descriptors = Value::Array(descriptors);
        format!(
            r#"{{"record":"failure","call":"cudnnBackendFinalize","status":"BAD_PARAM","descriptors":{descriptors}}}"#
        )
    };
    let engine = |index: i64| {
        let engine = format!(r#"{{"kind":"ENGINE","ENGINE_OPERATION_GRAPH:15":5,"ENGINE_GLOBAL_INDEX:3":{index}}}"#);
        failure(graph["nodes"].as_array().unwrap().clone(), &engine)
    };
    let device = failure(Vec::new(), r#"{"kind":"DEVICEPROP","DEVICEPROP_HANDLE:0":1}"#);
    let lines = [START.to_owned(), engine(8), engine(4711), device];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (code, report) = json(&[&write(&dir, &lines), "--compare", cudnn, cudnn], &libraries.path);
    assert_eq!(code, Some(0), "{report:#}");
    let [known, unknown, device] = [0, 1, 2].map(|index| &report["graphs"][index]["after"]);
    assert_eq!(known["status"], "SUCCESS", "{known:#}");
    assert!(unknown["reason"].as_str().unwrap().contains("descriptor 6 (CUDNN_BACKEND_ENGINE"), "{unknown:#}");
    assert_eq!(
        (&device["status"], device["reason"].as_str().unwrap().contains("needs a handle")),
        (&"SKIPPED".into(), true)
    );
}

#[test]
fn captured_values_are_required_if_only_they_are_selected() {
    let dir = TempDir::new();
    let file = write(&dir, &[START, &convolution("a", 2)]);
    let (code, text) = lab(&[&file, "--data", "captured"], "");
    assert!(code == Some(3) && text.contains("contains no values of tensors"), "{text}");
}
