//! Measures the cost of layers per call, in nanoseconds and, if valgrind is installed, in instructions.
//!
//! A process has a single chain of layers, so every configuration runs in separate processes, which alternate. The
//! reported time is the minimum over all runs of a thousand calls.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::process::Command;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use cudnn_benches::empty_layers::{Calls, Jumps, WrapsNothing};
use cudnn_benches::{CALLS, CallPath, Loader, convolutions, set_tensors, tensor, versions};
use cudnn_loader::layers::add;
use cudnn_sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t as Descriptor,
    cudnnBackendDescriptorType_t as Kind, cudnnStatus_t as Status,
};

const WAYS: [&str; 4] =
    ["no layer", "a layer that wraps no functions", "an empty layer that jumps on", "an empty layer that calls"];
const FUNCTIONS: [&str; 4] =
    ["cudnnGetVersion", "cudnnSetTensor4dDescriptor", "cudnnConvolutionForward", "cudnnBackendSetAttribute"];
/// Processes per configuration.
const ROUNDS: usize = 9;
/// Runs of every function in a process.
const RUNS: usize = 60;

/// Names the configuration of a child process.
const WAY: &str = "CUDNN_BENCH_WAY";
/// Chooses the function that a child process calls under valgrind, in addition to a thousand calls of every function.
const COUNTED: &str = "CUDNN_BENCH_COUNTED";
const NONE: usize = FUNCTIONS.len();
const THOUSANDS: u32 = 3;

fn main() {
    match std::env::var(WAY) {
        Ok(way) => child(way.parse().unwrap()),
        Err(_) => parent(),
    }
}

fn parent() {
    let mut times = [[f64::MAX; FUNCTIONS.len()]; WAYS.len()];
    for _ in 0..ROUNDS {
        for (way, times) in times.iter_mut().enumerate() {
            let output = this_program(way).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let found = String::from_utf8(output.stdout).unwrap();
            for (least, time) in times.iter_mut().zip(found.split_whitespace()) {
                *least = least.min(time.parse().unwrap());
            }
        }
    }
    print("nanoseconds a call", &times.map(|times| times.map(|time| format!("{time:.1}"))));
    if Command::new("valgrind").arg("--version").output().is_ok() {
        let counts = std::array::from_fn::<_, { WAYS.len() }, _>(instructions);
        print("instructions a call", &counts);
    }
}

fn print(title: &str, rows: &[[String; FUNCTIONS.len()]; WAYS.len()]) {
    println!("\n| {title} | {} |\n|{}", FUNCTIONS.map(|name| format!("`{name}`")).join(" | "), " --- |".repeat(5));
    for (way, row) in WAYS.iter().zip(rows) {
        println!("| {way} | {} |", row.join(" | "));
    }
}

fn this_program(way: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(WAY, way.to_string());
    command
}

/// Returns the difference between processes that call one function three thousand times and a process that makes no
/// such calls.
fn instructions(way: usize) -> [String; FUNCTIONS.len()] {
    let least = count(way, NONE);
    std::array::from_fn(|function| {
        let calls = u64::from(THOUSANDS * CALLS);
        let more = count(way, function).saturating_sub(least);
        ((more + calls / 2) / calls).to_string()
    })
}

/// Returns the instructions that a child process executes if it calls this function.
fn count(way: usize, function: usize) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(std::env::current_exe().unwrap());
    let output = valgrind.env(WAY, way.to_string()).env(COUNTED, function.to_string()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("refs:")).unwrap_or_else(|| panic!("{text}")).to_owned();
    let (_, number) = line.split_once("refs:").unwrap();
    number.replace(',', "").trim().parse().unwrap()
}

fn child(way: usize) {
    match way {
        0 => {}
        1 => add::<WrapsNothing>("nothing").unwrap(),
        2 => add::<Jumps>("jumps").unwrap(),
        _ => add::<Calls>("calls").unwrap(),
    }
    let (path, tensor, descriptor) = (Loader::ready(), tensor(), descriptor());
    let functions: [&dyn Fn(); FUNCTIONS.len()] =
        [&|| versions(&path), &|| set_tensors(&path, tensor), &|| convolutions(&path), &|| {
            (0..CALLS).for_each(|_| set_attribute(descriptor))
        }];
    if let Ok(counted) = std::env::var(COUNTED) {
        functions.iter().for_each(|function| function());
        if let Some(function) = functions.get(counted.parse::<usize>().unwrap()) {
            (0..THOUSANDS).for_each(|_| function());
        }
        return;
    }
    let mut times = [Duration::MAX; FUNCTIONS.len()];
    for _ in 0..RUNS {
        for (least, function) in times.iter_mut().zip(functions) {
            let start = Instant::now();
            function();
            *least = (*least).min(start.elapsed());
        }
    }
    let times = times.map(|time| (time.as_nanos() as f64 / f64::from(CALLS)).to_string());
    println!("{}", times.join(" "));
}

/// A descriptor of a tensor, never destroyed.
fn descriptor() -> Descriptor {
    let mut descriptor = null_mut();
    // SAFETY: the pointer is to a local variable.
    let status = unsafe {
        cudnn_loader::cudnnBackendCreateDescriptor(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR, &raw mut descriptor)
    };
    assert_eq!(status, Status::CUDNN_STATUS_SUCCESS);
    set_attribute(descriptor);
    descriptor
}

#[inline(always)]
fn set_attribute(descriptor: Descriptor) {
    let alignment = 16_i64;
    // SAFETY: the descriptor is live, and cuDNN reads one number.
    let status = unsafe {
        cudnn_loader::cudnnBackendSetAttribute(
            descriptor,
            Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
            Type::CUDNN_TYPE_INT64,
            1,
            (&raw const alignment).cast(),
        )
    };
    assert_eq!(status, Status::CUDNN_STATUS_SUCCESS);
}
