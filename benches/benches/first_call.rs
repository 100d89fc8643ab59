//! The first call of `cudnnGetVersion`, each in a new process, all ways in turn.
#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot run says so by panicking"
)]

use std::process::Command;

use cudnn_benches::CUDNN_DIR;

const ROUNDS: usize = 200;

/// A way, and the variable that tells its process where cuDNN is.
struct CallPath {
    name: &'static str,
    words: &'static [&'static str],
    variable: Option<&'static str>,
}

const CALL_PATHS: [CallPath; 6] = [
    CallPath { name: "NVIDIA's shim, opened before", words: &["shim", CUDNN_DIR], variable: None },
    CallPath { name: "NVIDIA's shim, opened by the call", words: &["open-shim", CUDNN_DIR], variable: None },
    CallPath { name: "cudarc, LD_LIBRARY_PATH", words: &["cudarc"], variable: Some("LD_LIBRARY_PATH") },
    CallPath { name: "this loader, folder given", words: &["loader"], variable: Some("CUDNN_LOADER_DIR") },
    CallPath { name: "this loader, LD_LIBRARY_PATH", words: &["loader"], variable: Some("LD_LIBRARY_PATH") },
    CallPath { name: "this loader, in a C++ program", words: &["loader-in-cpp"], variable: Some("CUDNN_LOADER_DIR") },
];

fn measure(way: &CallPath) -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_first-call"));
    let output = command.args(way.words).env_clear().envs(way.variable.map(|name| (name, CUDNN_DIR))).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}: {output:?}", way.name);
    let nanoseconds: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    nanoseconds / 1e6
}

fn main() {
    let mut times = CALL_PATHS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (way, times) in CALL_PATHS.iter().zip(&mut times) {
            times.push(measure(way));
        }
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let [before, by_the_call, ..] = medians;
    println!(
        "First call of cudnnGetVersion, medians of {ROUNDS} processes each; ratios to NVIDIA's shim, opened before"
    );
    println!("and opened by the call.");
    for (way, median) in CALL_PATHS.iter().zip(medians) {
        println!("{:<36}{median:8.3} ms{:8.2}{:8.2}", way.name, median / before, median / by_the_call);
    }
}
