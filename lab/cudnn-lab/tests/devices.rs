//! Tests `devices`, and planning for described devices with real releases of cuDNN.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use cudnn_graph::Graph;
use cudnn_replay::known_devices::known_devices;
use cudnn_store::captures::{Capture, Record};
use serde_json::Value;
use support::{PlanningLibraries, TempDir};

const SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/captures/small.cudnncap");
const ID: &str = "7129b81371b1a6e1";

fn lab(arguments: &[&str], libraries: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
    let output = command.args(arguments).env_clear().env("LD_LIBRARY_PATH", libraries).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

fn json(arguments: &[&str], libraries: &str) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
    let output = command.args(arguments).arg("--json").env_clear().env("LD_LIBRARY_PATH", libraries).output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

/// Numbers of data types.
const FLOAT: u8 = 0;
const HALF: u8 = 2;

/// Writes a capture of a half-precision convolution with this input type. Every GPU with tensor cores supports half as
/// input, but no engine supports float.
fn convolution(dir: &TempDir, input_type: u8) -> String {
    let tensor = |uid: u8, ty: u8, dims: [i64; 4]| {
        let [_, channels, height, width] = dims;
        let strides = [height * width * channels, 1, width * channels, channels];
        serde_json::json!({
            "kind": "TENSOR", "TENSOR_UNIQUE_ID:3": uid, "TENSOR_DATA_TYPE:1": ty, "TENSOR_BYTE_ALIGNMENT:3": 16,
            "TENSOR_DIMENSIONS:3": dims, "TENSOR_STRIDES:3": strides,
        })
    };
    let nodes = serde_json::json!([
        tensor(1, input_type, [4, 64, 14, 14]), tensor(2, HALF, [64, 64, 3, 3]), tensor(3, HALF, [4, 64, 14, 14]),
        {
            "kind": "CONVOLUTION", "CONVOLUTION_COMP_TYPE:1": 0, "CONVOLUTION_CONV_MODE:7": 1,
            "CONVOLUTION_SPATIAL_DIMS:3": 2, "CONVOLUTION_PRE_PADDINGS:3": [1, 1], "CONVOLUTION_POST_PADDINGS:3": [1, 1],
            "CONVOLUTION_FILTER_STRIDES:3": [1, 1], "CONVOLUTION_DILATIONS:3": [1, 1],
        },
        {
            "kind": "OPERATION_CONVOLUTION_FORWARD", "OPERATION_CONVOLUTION_FORWARD_X:15": 0,
            "OPERATION_CONVOLUTION_FORWARD_W:15": 1, "OPERATION_CONVOLUTION_FORWARD_Y:15": 2,
            "OPERATION_CONVOLUTION_FORWARD_CONV_DESC:15": 3, "OPERATION_CONVOLUTION_FORWARD_ALPHA:4": 1.0,
            "OPERATION_CONVOLUTION_FORWARD_BETA:4": 0.0,
        },
        { "kind": "OPERATIONGRAPH", "OPERATIONGRAPH_HANDLE:0": 1, "OPERATIONGRAPH_OPS:15": 4 },
    ]);
    let start = r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#;
    let id = serde_json::from_value::<Graph>(nodes.clone()).unwrap().id();
    let graph = serde_json::json!({ "record": "graph", "graph": id, "label": "conv", "nodes": nodes });
    let file = dir.path().join("conv.cudnncap");
    std::fs::write(&file, format!("{start}\n{graph}\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

fn all_devices() -> Vec<String> {
    known_devices().into_iter().flat_map(|device| ["--device".to_owned(), device.name]).collect()
}

#[test]
fn known_devices_are_listed_with_their_origin() {
    let (code, text) = lab(&["devices"], "");
    assert_eq!(code, Some(0), "{text}");
    for (name, rest) in [
        ("h200", ["NVIDIA H200", "9.0", "measured"]),
        ("rtx-5090", ["NVIDIA GeForce RTX 5090", "12.0", "approximate"]),
        ("gb10", ["NVIDIA GB10", "12.1", "approximate"]),
        ("t4", ["Tesla T4", "7.5", "approximate"]),
    ] {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        assert!(rest.iter().all(|part| line.contains(part)), "{line}");
    }
    let (code, list) = json(&["devices"], "");
    let devices = list["devices"].as_array().unwrap();
    assert!(code == Some(0) && devices.len() == known_devices().len(), "{list:#}");
    let sources = devices.iter().filter(|device| device["source"].as_str().is_some_and(|source| source.len() > 10));
    assert_eq!(sources.count(), devices.len(), "{list:#}");
}

#[test]
fn one_description_is_printed_as_a_usable_file() {
    let dir = TempDir::new();
    let (code, text) = lab(&["devices", "RTX 5090"], "");
    let description: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, &description["deviceVer"], &description["multiProcessorCount"]),
        (Some(0), &1200.into(), &170.into())
    );
    let (_, document) = json(&["devices", "rtx-5090"], "");
    assert_eq!(document["device"].as_str(), Some(text.trim_end()), "{document:#}");
    let file = dir.path().join("mine.json");
    std::fs::write(&file, text.replace("RTX 5090", "RTX 5080 of mine")).unwrap();
    let (code, printed) = lab(&["devices", file.to_str().unwrap()], "");
    assert!(code == Some(0) && printed.contains("RTX 5080 of mine"), "{printed}");
}

#[test]
fn wrong_names_and_files_are_refused_with_similar_names() {
    let dir = TempDir::new();
    let file = |name: &str, text: &[u8]| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).to_str().unwrap().to_owned()
    };
    let long = file("long.json", format!(r#"{{"deviceName":"{}"}}"#, "A".repeat(256)).as_bytes());
    let list = file("list.json", b"[1]");
    let typed = file("typed.json", br#"{"deviceVer":"900"}"#);
    let binary = file("binary.json", b"\xff\xfe");
    let big = file("big.json", &vec![b' '; 1 << 20]);
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (fifo, folder) = (fifo.to_str().unwrap(), dir.path().to_str().unwrap());
    for (name, expected) in [
        ("rtx-5080", "similar names: rtx-5090"),
        ("5080", "similar names: rtx-5090"),
        ("no such device", "`cudnn-lab devices` lists the known devices"),
        (" ", "lists the known devices"),
        ("\u{1b}[2J\nerror: forged\u{202e}", "lists the known devices"),
        ("./h200", "No such file"),
        ("../../etc/h200", "No such file"),
        ("/dev/zero", "not a file"),
        (fifo, "not a file"),
        (folder, "not a file"),
        (&long, "a string of more than 255 bytes"),
        (&list, "is not a description of a device, which is a JSON object"),
        (&typed, r#""deviceVer" is a string, but must be a whole number"#),
        (&binary, "is not a text file"),
        (&big, "16384"),
    ] {
        let smaller = dir.path().join("smaller");
        let reduce = ["--when", "status", "--output", smaller.to_str().unwrap()];
        for command in [
            &["devices", name][..],
            &["replay", SMALL, "--device", name],
            &["replay", SMALL, "--device", "h200", "--device", name],
            &["emit", SMALL, "--graph", ID, "--language", "python", "--device", name],
            &[&["reduce", SMALL, "--graph", ID, "--device", name], &reduce[..]].concat(),
            &["plans", "pack", "pack", "--dir", folder, "--device", name],
        ] {
            let (code, text) = lab(command, "");
            assert!(code == Some(3) && text.contains(expected), "{command:?}: {text}");
            let is_safe = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
            assert!(
                text.chars().all(is_safe) && !text.lines().any(|line| line.starts_with("error: forged")),
                "{text:?}"
            );
        }
        assert!(!smaller.exists());
    }
}

#[test]
fn the_gpu_of_this_machine_is_described_or_the_reason_is_given() {
    if Path::new("/dev/nvidiactl").exists() {
        println!("NOT RUN: this machine may have a GPU");
        return;
    }
    for arguments in [&["devices", "--here"][..], &["plans", "device"]] {
        let (code, text) = lab(arguments, "");
        let is_clear = text.contains("cannot describe a GPU of this machine: ") && text.contains("libcuda.so.1");
        assert!(code == Some(3) && is_clear, "{text}");
    }
}

#[test]
fn a_program_names_the_selected_device_and_forgets_the_captured_plan() {
    let program = |more: &[&str]| {
        let (code, text) = lab(&[&["emit", SMALL, "--graph", ID, "--language", "python"], more].concat(), "");
        assert_eq!(code, Some(0), "{text}");
        text
    };
    let (captured, selected) = (program(&[]), program(&["--device", "L40S"]));
    assert!(
        captured.contains("GPU: unknown")
            && captured.contains(r#""cudnnBackendFinalize" returned "CUDNN_STATUS_SUCCESS""#),
        "{captured}"
    );
    assert!(selected.contains("GPU: \"NVIDIA L40S\"") && selected.contains("the capture has no plan"), "{selected}");
    assert!(selected.contains(r#"\"multiProcessorCount\":142"#), "{selected}");
}

#[test]
fn several_devices_are_not_compared_with_several_releases() {
    let arguments = ["replay", SMALL, "--device", "l4", "--device", "h200", "--compare", "9.10", "9.28"];
    let (code, text) = lab(&arguments, "");
    assert!(code == Some(3) && text.contains("--compare accepts one --device"), "{text}");
    let (code, text) = lab(&["replay", SMALL, "--cudnn", "9.1234"], "");
    assert!(code == Some(3) && text.contains("9.1234"), "{text}");
}

/// This must also work on a machine with a GPU.
#[test]
fn graphs_are_planned_for_named_devices() {
    let test = "graphs_are_planned_for_named_devices";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    let (dir, cudnn) = (TempDir::new(), cudnn.to_str().unwrap());
    let file = convolution(&dir, HALF);
    let (code, text) = lab(&["replay", &file, "--cudnn", cudnn, "--device", "l4"], &libraries.path);
    let expected = "cuDNN 9.19.0, planned for NVIDIA L4; nothing was executed: the device is only described";
    assert!(code == Some(0) && text.contains(expected), "{text}");
    let compare = ["replay", &file, "--compare", cudnn, cudnn, "--device", "rtx-4090"];
    let (code, text) = lab(&compare, &libraries.path);
    assert!(code == Some(0) && text.contains("planned for NVIDIA GeForce RTX 4090"), "{text}");

    let arguments = ["replay", &file, "--cudnn", cudnn, "--device", "a100", "--device", "RTX 4090"];
    let (code, text) = lab(&arguments, &libraries.path);
    assert_eq!(code, Some(0), "{text}");
    let header = text.lines().find(|line| line.trim_start().starts_with("graph ")).unwrap();
    assert!(header.contains("NVIDIA A100-SXM4-80GB") && header.contains("NVIDIA GeForce RTX 4090"), "{text}");
    let row = text.lines().find(|line| line.matches("engine ").count() == 2);
    assert!(row.is_some(), "{text}");

    let (code, report) = json(&arguments, &libraries.path);
    assert_eq!((code, &report["devices"][1]["compute_capability"]), (Some(0), &"8.9".into()), "{report:#}");
    let reports = report["graphs"][0]["reports"].as_array().unwrap();
    let devices: Vec<&Value> = reports.iter().map(|report| &report["device"]).collect();
    assert_eq!(devices, ["NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 4090"], "{report:#}");
    assert!(reports.iter().all(|report| report["status"] == "SUCCESS" && report["not_executed"].is_string()));
}

#[test]
fn a_reduced_graph_is_for_the_selected_device() {
    let test = "a_reduced_graph_is_for_the_selected_device";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0") else { return };
    let (dir, cudnn) = (TempDir::new(), cudnn.to_str().unwrap());
    let file = convolution(&dir, FLOAT);
    let output = dir.path().join("smaller.cudnncap");
    let arguments = ["reduce", &file, "--graph", "", "--when", "status", "--limit", "1", "--device", "l4", "--output"];
    let arguments = [&arguments[..], &[output.to_str().unwrap()]].concat();
    let (code, text) = lab(&arguments, &format!("{cudnn}:{}", libraries.path));
    assert_eq!(code, Some(0), "{text}");
    let records = Capture::read(&output).unwrap().records;
    let device =
        records.iter().find_map(|record| if let Record::Device(device) = record { Some(device) } else { None });
    assert!(device.unwrap().description.contains("NVIDIA L4"), "{records:?}");
}

/// Asserts that a release accepts all descriptions, and has an engine for each device except one with this status.
fn assert_plans_for_all(test: &str, release: &str, without: Option<(&str, &str)>) {
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, release) else { return };
    let dir = TempDir::new();
    let (file, devices) = (convolution(&dir, HALF), all_devices());
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let arguments = ["replay", &file, "--cudnn", cudnn.to_str().unwrap()];
    let (_, report) = json(&[&arguments[..], &devices].concat(), &libraries.path);
    let reports = report["graphs"][0]["reports"].as_array().unwrap();
    let known = known_devices();
    assert_eq!(reports.len(), known.len());
    for (device, report) in known.iter().zip(reports) {
        let reason = report["reason"].as_str().unwrap_or_default();
        println!("{release}: {}: {} {} {reason}", device.name, report["status"], report["plans"][0]["engine"]["index"]);
        assert!(!reason.contains("description of the device"), "{}: {report:#}", device.name);
        let expected = without.filter(|(name, _)| *name == device.name).map_or("SUCCESS", |(_, status)| status);
        assert_eq!(report["status"], expected, "{}: {report:#}", device.name);
    }
}

/// NVRTC 12.9 does not support compute capability 11.0, which CUDA 12 calls 10.1.
#[test]
fn a_jit_release_plans_for_all_known_devices() {
    let without = Some(("thor", "INTERNAL_ERROR_COMPILATION_FAILED"));
    assert_plans_for_all("a_jit_release_plans_for_all_known_devices", "jit-cu12-9.19.0", without);
}

/// A precompiled engine of 9.10.2 crashes for a described device of compute capability 10.0.
#[test]
#[ignore = "downloads full releases of cuDNN"]
fn full_releases_plan_for_all_known_devices() {
    let test = "full_releases_plan_for_all_known_devices";
    let newest = support::full_releases().max_by_key(|release| release.cudnn_version()).unwrap();
    assert_plans_for_all(test, newest.id, None);
    assert_plans_for_all(test, "cu12-9.10.2", Some(("b200", "CRASHED")));
}
