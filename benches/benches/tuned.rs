//! Counts the instructions of the heuristics' queries and of later calls, without and with the layer `tuned`. Needs
//! valgrind.
//!
//! Every number is from one process, which plans for a described H200. Only the instructions inside of [`counted`] count.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};
use std::ptr::null_mut;

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::{H200, Target, from_json};
use cudnn_backend::engine::{ConfigurationInfo, proposals};
use cudnn_backend::graph::{Convolution, graph};
use cudnn_backend::tensor::Tensor;
use cudnn_layers::tuned::{self, Tuned};
use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode,
    cudnnDataType_t as DataType,
};
use support::{PlanningLibraries, TempDir};

/// What a child process does.
const WAYS: [&str; 7] = [
    "first query in a process",
    "first query of a graph",
    UNEXPECTED,
    "repeated query",
    "repeated query, and reading the engines",
    "variant pack (6 calls)",
    "cudnnBackendExecute",
];
/// The file does not contain the proposals in cuDNN's order.
const UNEXPECTED: &str = "first query of a graph, unexpected";
/// How often a child makes the last two.
const CALLS: u32 = 1000;

/// Names what a child process does.
const WAY: &str = "CUDNN_BENCH_WAY";

fn main() {
    match std::env::var(WAY) {
        Ok(way) => child(&way),
        Err(_) => parent(),
    }
}

fn parent() {
    let libraries = PlanningLibraries::with_nvrtc("tuned").expect("the libraries of the driver");
    let dir = TempDir::new();
    let file = dir.path().join("app.tuned.json");
    let run = |command: &mut Command, way: &str, file: &Path| {
        let command = command.env(WAY, way).env("LD_LIBRARY_PATH", &libraries.path);
        let output = command.env(tuned::VARIABLE, file).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        output
    };
    let this = std::env::current_exe().unwrap();
    // The layer names the graph that is missing in a file.
    std::fs::write(&file, ranking("0000000000000000", r#"{"engine":0}"#, "")).unwrap();
    let output = text(&run(Command::new(&this).env("CUDNN_LOGLEVEL_DBG", "3"), "engines", &file));
    let (_, graph) = output.rsplit_once("no ranking is for graph ").expect("the layer is active");
    let mut engines: Vec<&str> = output.lines().filter(|line| line.starts_with("{\"engine\"")).collect();
    engines.reverse();
    let unexpected = dir.path().join("unexpected.tuned.json");
    std::fs::write(&unexpected, ranking(&graph[..16], &engines.join(","), "")).unwrap();
    let places: Vec<String> = (0..engines.len()).rev().map(|place| place.to_string()).collect();
    let proposals = format!(r#","proposals":{{"mode_a":[{}]}}"#, places.join(","));
    std::fs::write(&file, ranking(&graph[..16], &engines.join(","), &proposals)).unwrap();
    println!("{} proposals in reverse order\n", engines.len());
    println!("| instructions | without | with `tuned` | ratio |\n| --- | --- | --- | --- |");
    for way in WAYS {
        let file = if way == UNEXPECTED { &unexpected } else { &file };
        let [(without, first), (with, best)] = [Path::new(""), file].map(|file| {
            let mut valgrind = Command::new("valgrind");
            let options = ["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=counted"];
            let output = text(&run(valgrind.args(options).arg(&this), way, file));
            let (_, count) = output.split_once("Collected :").unwrap();
            let count: f64 = count.lines().next().unwrap().trim().parse().unwrap();
            (count, output.lines().next().unwrap().to_owned())
        });
        assert_ne!(first, best, "the layer changes the order");
        let calls = if WAYS[5..].contains(&way) { f64::from(CALLS) } else { 1.0 };
        println!("| {way} | {:.0} | {:.0} | {:.3} |", without / calls, with / calls, with / without);
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn ranking(graph: &str, engines: &str, proposals: &str) -> String {
    format!(
        r#"{{"errata":1,"tuned":[{{"cudnn":"9.28.0","device":{{"name":"NVIDIA H200","compute_capability":"9.0"}},
           "graph":"{graph}","engines":[{engines}]{proposals}}}]}}"#
    )
}

/// Valgrind counts the instructions in this function.
#[unsafe(no_mangle)]
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
}

fn child(way: &str) {
    if std::env::var_os(tuned::VARIABLE).is_some_and(|file| !file.is_empty()) {
        cudnn_loader::layers::add::<Tuned>("tuned").unwrap();
    }
    let device = from_json(H200).unwrap();
    let query = |graph: &Descriptor| proposals(graph, Mode::CUDNN_HEUR_MODE_A, Target::Device(&device)).unwrap();
    let (small, large) = (convolution(64), convolution(128));
    if way != WAYS[0] {
        query(&small);
    }
    match WAYS.iter().position(|known| *known == way) {
        None => {
            for proposal in query(&large) {
                let info = ConfigurationInfo::new(&proposal).unwrap();
                let (_, knobs) = info.engine_text().split_once('{').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
                let knobs = knobs.trim_end_matches('}').split(' ').filter_map(|knob| knob.split_once('='));
                let knobs: Vec<String> = knobs.map(|(knob, value)| format!("\"{knob}\":{value}")).collect();
                println!(r#"{{"engine":{},"knobs":{{{}}}}}"#, info.engine, knobs.join(","));
            }
        }
        Some(0..=2) => counted(&mut || drop(query(&large))),
        Some(3) => {
            query(&large);
            counted(&mut || drop(query(&large)));
        }
        Some(4) => {
            query(&large);
            counted(&mut || {
                for proposal in query(&large) {
                    ConfigurationInfo::new(&proposal).unwrap();
                }
            });
        }
        Some(5) => {
            query(&large);
            variant_pack();
            counted(&mut || (0..CALLS).for_each(|_| variant_pack()));
        }
        Some(_) => {
            query(&large);
            execute();
            counted(&mut || (0..CALLS).for_each(|_| execute()));
        }
    }
    if WAYS.contains(&way) {
        println!("{}", ConfigurationInfo::new(&query(&large)[0]).unwrap().engine_text());
    }
}

fn convolution(channels: i64) -> Descriptor {
    let tensor = |uid, dims: &[i64]| Tensor::channels_last(uid, DataType::CUDNN_DATA_HALF, dims);
    let (x, y) = (tensor(1, &[16, channels, 56, 56]), tensor(3, &[16, channels, 56, 56]));
    let w = tensor(2, &[channels, channels, 3, 3]);
    graph(None, &[&Convolution::padded(1, 2).forward([&x, &w, &y], 1.0, 0.0).unwrap()]).unwrap()
}

/// Creates, fills, finalizes and destroys a variant pack, as programs do for each execution.
fn variant_pack() {
    let addresses = [std::ptr::without_provenance::<std::ffi::c_void>(0x1000); 3];
    let pack = Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR).unwrap();
    let pack = pack.set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &[1_i64, 2, 3]).unwrap();
    let pack = pack.set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &addresses).unwrap();
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &addresses[..1]).unwrap().finalize().unwrap();
}

/// Without a GPU, cuDNN refuses the call.
fn execute() {
    // SAFETY: cuDNN checks for null.
    let status = unsafe { cudnn_loader::cudnnBackendExecute(null_mut(), null_mut(), null_mut()) };
    assert_ne!(status.0, 0);
}
