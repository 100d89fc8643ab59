//! Measures the first call of `cudnnGetVersion` in nanoseconds. Unlike the benchmarks, this
//! program links to no cuDNN, so that there is a first call to measure.
//!
//! | arguments | measured |
//! | --- | --- |
//! | `loader` | this loader |
//! | `loader-in-cpp` | this loader, after opening the C++ library, as in a C++ program (NVIDIA's shim needs it) |
//! | `shim DIR` | NVIDIA's shim, opened before, as for a program that links to it |
//! | `open-shim DIR` | NVIDIA's shim, opened as part of the call |
//! | `cudarc` | cudarc |
//!
//! Two more commands compare the probe with loading: `load-all DIR` opens every library in the directory and prints the
//! time and how many it could open; `identify DIR` reads an installation report and prints the time and the bytes read.

use std::path::Path;
use std::time::Instant;

use cudnn_frameworks::installation::{InstallationReport, Variant};
use cudnn_probe::{Host, Library as Library9};
use libloading::os::unix::{Library, Symbol};

type Version = cudnn_sys::signatures::cudnnGetVersion;

fn open(dir: &str) -> Symbol<Version> {
    // SAFETY: the constructors of NVIDIA's shim have no side effects.
    let library =
        unsafe { Library::new(Path::new(dir).join("libcudnn.so.9")) }.expect("the directory must contain the shim");
    // SAFETY: the type matches the function.
    let version = unsafe { library.get::<Version>(b"cudnnGetVersion\0") }.expect("the shim must export the function");
    std::mem::forget(library);
    version
}

fn load_all(dir: &Path) {
    let start = Instant::now();
    let mut count = 0;
    for library in Library9::ALL {
        let file = dir.join(library.file_name());
        // SAFETY: the libraries belong to cuDNN.
        let opened = unsafe { Library::open(Some(&file), libloading::os::unix::RTLD_NOW) };
        // Some libraries need the driver, which not every machine has.
        count += usize::from(opened.map(std::mem::forget).is_ok());
    }
    println!("{} {count}", start.elapsed().as_nanos());
}

fn identify(dir: &Path) {
    let environment = Host::current();
    let before = bytes_read();
    let start = Instant::now();
    let report = InstallationReport::read(dir, &environment).expect("an installation");
    let duration = start.elapsed();
    assert_eq!(report.variant, Variant::Full);
    println!("{} {}", duration.as_nanos(), bytes_read() - before);
}

/// Returns the number of bytes that this process has read by system calls, without mapped bytes.
fn bytes_read() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").expect("the kernel counts");
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("reads are counted");
    line.parse().expect("a number")
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let measure = |call: &dyn Fn() -> usize| {
        let start = Instant::now();
        let version = call();
        let duration = start.elapsed();
        assert!(version >= 90000, "{version}");
        println!("{}", duration.as_nanos());
    };
    // SAFETY: the call passes no pointers.
    let through_loader = || unsafe { cudnn_loader::cudnnGetVersion() };
    // SAFETY: as above.
    let through_cudarc = || unsafe { cudarc::cudnn::sys::cudnnGetVersion() };
    match args.as_slice() {
        ["loader"] => measure(&through_loader),
        ["loader-in-cpp"] => {
            // SAFETY: this is the C++ standard library.
            std::mem::forget(
                unsafe { Library::new("libstdc++.so.6") }.expect("the C++ standard library must be installed"),
            );
            measure(&through_loader);
        }
        ["cudarc"] => measure(&through_cudarc),
        ["shim", dir] => {
            let version = open(dir);
            // SAFETY: as above.
            measure(&|| unsafe { version() });
        }
        // SAFETY: as above.
        ["open-shim", dir] => measure(&|| unsafe { open(dir)() }),
        ["load-all", dir] => load_all(Path::new(dir)),
        ["identify", dir] => identify(Path::new(dir)),
        _ => panic!("unknown arguments: {args:?}"),
    }
}
