//! Measures the time and the amount of data that `check` needs in an environment with all frameworks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;

use serde_json::Value;
use support::{ExtensionLibrary, FakeNvml, PythonEnvironment};

use crate::world::*;

/// The maximum number of bytes and system calls for reading in that environment with 100 packages.
const MAX_BYTES: u64 = 40 << 20;
const MAX_CALLS: u64 = 8_000;

/// Installs typical other packages: metadata, a record, modules.
fn other_packages(venv: &PythonEnvironment, count: usize) {
    for index in 0..count {
        let mut package = venv.package(&format!("package-{index}"), "1.2.3");
        for line in 0..20 {
            package = package.metadata(&format!("Requires-Dist: package-{line}>=1.0; python_version >= \"3.9\""));
        }
        for file in 0..40 {
            package = package.file(&format!("package_{index}/module_{file}.py"), "");
        }
        let library = ExtensionLibrary::new();
        package.library(&format!("package_{index}/_core.cpython-312-x86_64-linux-gnu.so"), &library);
    }
}

/// Installs all nine frameworks in an intact environment with this many other packages. Pads PyTorch's library with the
/// kernels by this many bytes.
fn all_frameworks(world: &World, packages: usize, padding: usize) {
    let venv = &world.venv;
    complete_torch(venv, "2.8.0", "12.8", "9.10.2.21");
    let kernels = ExtensionLibrary::new()
        .with_soname("libtorch_cuda.so")
        .with_rpath("$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cublas/lib:$ORIGIN")
        .needing("libcudnn.so.9")
        .needing("libcublas.so.12")
        .with_padding(padding)
        .with_gpu_code(2000, &["7.0", "7.5", "8.0", "8.6", "9.0"]);
    write_sparse(&venv.import_dir().join("torch/lib/libtorch_cuda.so"), &kernels.bytes());
    tensorflow(venv, "2.20.0", "9.3.0.75");
    jax(venv, "0.8.3", "9.8");
    cuda_wheels(venv);
    onnxruntime(venv, "1.22.0", "12.8", &["libcudnn.so.9"]);
    new_ctranslate2(venv);
    venv.package("cupy-cuda12x", "14.2.0")
        .file("cupy/.data/_wheel.json", r#"{"cuda": "12.x", "packaging": "pip"}"#)
        .library("cupy_backends/cuda/libs/nvrtc.cpython-312-x86_64-linux-gnu.so", &ExtensionLibrary::new());
    let beside = ExtensionLibrary::new().with_runpath("$ORIGIN/../../nvidia/cudnn/lib");
    venv.package("paddlepaddle-gpu", "3.0.0")
        .file("paddle/version/__init__.py", "cuda_version = '12.6'\ncudnn_version = '9.5.1'\n")
        .library("paddle/libs/libphi.so", &beside)
        .library("paddle/base/libpaddle.so", &beside);
    venv.package("tensorrt-cu12-libs", "10.9.0.34")
        .library("tensorrt_libs/libnvinfer.so.10", &ExtensionLibrary::new().with_soname("libnvinfer.so.10"));
    venv.package("transformer_engine_cu12", "2.2.0")
        .library("transformer_engine/libtransformer_engine.so", &ExtensionLibrary::new().needing("libcudnn.so.9"));
    let dirs = ["cudnn", "cublas"].map(|module| venv.import_dir().join("nvidia").join(module).join("lib"));
    world.set("LD_LIBRARY_PATH", PathBuf::from(std::env::join_paths(dirs).unwrap()));
    let entries = std::fs::read_dir(venv.import_dir()).unwrap().flatten();
    let count = entries.filter(|entry| entry.path().extension().is_some_and(|name| name == "dist-info")).count();
    other_packages(venv, packages.saturating_sub(count));
}

/// Runs `check` in the active environment, and prints the kernel's counters to standard error at the end.
fn counted_check(world: &World, options: &[&str]) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "\"$@\"; grep -E 'rchar|syscr' /proc/$$/io >&2", "sh"])
        .arg(support::doctor())
        .args(options)
        .env_clear()
        .env("VIRTUAL_ENV", world.venv.root())
        .envs(world.variables.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
    command
}

/// A check simulates about fifty processes that open the same libraries, and looks up owners several times.
#[test]
fn check_reads_each_file_a_few_times() {
    const PACKAGES: usize = 100;
    let world = World::new();
    all_frameworks(&world, PACKAGES, 0);
    let output = counted_check(&world, &["check", "--no-load", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["findings"].is_array(), "{document:#}");
    let counted = String::from_utf8(output.stderr).unwrap();
    let count = |name: &str| {
        let line = counted.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in {counted}")).parse::<u64>().unwrap()
    };
    println!("{counted}");
    let (bytes, calls) = (count("rchar"), count("syscr"));
    assert!(bytes < MAX_BYTES && calls < MAX_CALLS, "{bytes} bytes in {calls} calls");
}

fn write_sparse(file: &Path, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    const BLOCK_LEN: usize = 1 << 16;
    let written = std::fs::File::create(file).unwrap();
    written.set_len(bytes.len() as u64).unwrap();
    for (index, block) in bytes.chunks(BLOCK_LEN).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0)) {
        written.write_all_at(block, (index * BLOCK_LEN) as u64).unwrap();
    }
}

/// docs/measurements/doctor.md contains the results.
#[test]
#[ignore = "a measurement of a release build: see docs/measurements/doctor.md"]
fn check_is_quick_in_an_environment_with_all_frameworks() {
    const ROUNDS: usize = 20;
    const MAX_MS: f64 = 150.0;
    let world = World::new();
    all_frameworks(&world, 300, 1 << 30);
    for (name, gpu) in [("without a GPU", false), ("with a GPU", true)] {
        if gpu {
            let dir = world.root.path().join("driver");
            std::fs::create_dir(&dir).unwrap();
            FakeNvml { driver: "580.65.06", gpu: "NVIDIA H200", compute_capability: (9, 0) }.build(&dir);
            let mut variables = world.variables.lock().unwrap_or_else(PoisonError::into_inner);
            let (_, path) = variables.first_mut().unwrap();
            let dirs: Vec<PathBuf> = std::env::split_paths(path.as_os_str()).chain([dir]).collect();
            *path = std::env::join_paths(dirs).unwrap().into();
        }
        for options in [&["check", "--json"][..], &["check", "--no-load", "--json"]] {
            let mut command = counted_check(&world, options);
            let output = command.output().unwrap();
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            let codes = document["findings"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap());
            let codes: Vec<&str> = codes.filter(|code| *code >= "C070").collect();
            assert!(codes.is_empty(), "{document:#}");
            let mut times: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    let start = std::time::Instant::now();
                    command.output().unwrap();
                    start.elapsed().as_secs_f64() * 1e3
                })
                .collect();
            times.sort_by(f64::total_cmp);
            let median = times[ROUNDS / 2];
            let read = String::from_utf8_lossy(&output.stderr).trim().replace('\n', ", ");
            println!("{name}, {options:?}: {median:.1} ms ({:.1} to {:.1}), {read}", times[0], times[ROUNDS - 1]);
            assert!(cfg!(debug_assertions) || median < MAX_MS, "{times:?}");
        }
    }
}
