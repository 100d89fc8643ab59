//! Measures the first call of `cudnnGetVersion` through every call path. Every call runs in a new process, and the call
//! paths alternate.

use std::process::Command;

use cudnn_benches::CUDNN_DIR;

const ROUNDS: usize = 200;

/// A call path, and the variable with the directory of cuDNN for its process.
struct CallPath {
    name: &'static str,
    args: &'static [&'static str],
    variable: Option<&'static str>,
}

const CALL_PATHS: [CallPath; 6] = [
    CallPath { name: "NVIDIA's shim, opened before", args: &["shim", CUDNN_DIR], variable: None },
    CallPath { name: "NVIDIA's shim, opened by the call", args: &["open-shim", CUDNN_DIR], variable: None },
    CallPath { name: "cudarc, LD_LIBRARY_PATH", args: &["cudarc"], variable: Some("LD_LIBRARY_PATH") },
    CallPath { name: "this loader, CUDNN_LOADER_DIR", args: &["loader"], variable: Some("CUDNN_LOADER_DIR") },
    CallPath { name: "this loader, LD_LIBRARY_PATH", args: &["loader"], variable: Some("LD_LIBRARY_PATH") },
    CallPath { name: "this loader, in a C++ program", args: &["loader-in-cpp"], variable: Some("CUDNN_LOADER_DIR") },
];

fn measure(path: &CallPath) -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_first-call"));
    let output = command.args(path.args).env_clear().envs(path.variable.map(|name| (name, CUDNN_DIR))).output();
    let output = output.expect("first-call starts");
    assert!(output.status.success(), "{}: {output:?}", path.name);
    let nanoseconds: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    nanoseconds / 1e6
}

fn main() {
    let mut times = CALL_PATHS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (path, times) in CALL_PATHS.iter().zip(&mut times) {
            times.push(measure(path));
        }
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let [before, by_the_call, ..] = medians;
    println!("First call of cudnnGetVersion, medians of {ROUNDS} processes. Ratios are relative to NVIDIA's shim,");
    println!("opened before the call and opened by the call.");
    for (path, median) in CALL_PATHS.iter().zip(medians) {
        println!("{:<36}{median:8.3} ms{:8.2}{:8.2}", path.name, median / before, median / by_the_call);
    }
}
