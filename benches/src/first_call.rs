//! Makes the first call of `cudnnGetVersion` in the way named, and prints the nanoseconds that it took. Linked to
//! nothing, unlike the benchmarks, so that there is a first call to measure.
//!
//! `first-call loader`, `first-call loader-in-cpp` (the C++ library opened beforehand, as in a C++ program; NVIDIA's shim
//! needs it, so that a program which has that one has it too), `first-call shim FOLDER` (the shim opened beforehand, as for a program that is linked to it),
//! `first-call open-shim FOLDER` (opened as part of the call), `first-call cudarc`.
//!
//! Or, for what the probe spares: `first-call load-all FOLDER` opens every library in the folder, and `first-call identify
//! FOLDER` has the probe look at all of them; the first prints how many could be opened too, the second the bytes read.
#![allow(clippy::panic, clippy::expect_used, reason = "a benchmark that cannot run says so by panicking")]

use std::path::Path;
use std::time::Instant;

use cudnn_probe::{Host, InstallationReport, Library as Library9, Variant};
use libloading::os::unix::{Library, Symbol};

type Version = unsafe extern "C" fn() -> usize;

fn open(folder: &str) -> Symbol<Version> {
    // SAFETY: NVIDIA's shim does nothing on loading.
    let library = unsafe { Library::new(Path::new(folder).join("libcudnn.so.9")) }.expect("the shim is there");
    // SAFETY: this is the function's type.
    let version = unsafe { library.get::<Version>(b"cudnnGetVersion\0") }.expect("it has the function");
    std::mem::forget(library);
    version
}

fn load_all(folder: &Path) {
    let start = Instant::now();
    let mut count = 0;
    for library in Library9::ALL {
        let file = folder.join(library.file_name());
        // SAFETY: cuDNN's libraries are meant to be loaded.
        let opened = unsafe { Library::open(Some(&file), libloading::os::unix::RTLD_NOW) };
        // Some need the driver's library, which is not on every machine.
        count += usize::from(opened.map(std::mem::forget).is_ok());
    }
    println!("{} {count}", start.elapsed().as_nanos());
}

fn identify(folder: &Path) {
    let environment = Host::current();
    let before = bytes_read();
    let start = Instant::now();
    let report = InstallationReport::read(folder, &environment).expect("an installation");
    let took = start.elapsed();
    assert_eq!(report.variant, Variant::Full);
    println!("{} {}", took.as_nanos(), bytes_read() - before);
}

/// What this process has read so far, by its system calls; what it maps does not count.
fn bytes_read() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").expect("the kernel counts");
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("reads are counted");
    line.parse().expect("a number")
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let measure = |call: &dyn Fn() -> usize| {
        let start = Instant::now();
        let version = call();
        let took = start.elapsed();
        assert_eq!(version, 92800);
        println!("{}", took.as_nanos());
    };
    // SAFETY: the function takes nothing.
    let through_loader = || unsafe { cudnn_loader::cudnnGetVersion() };
    // SAFETY: as above.
    let through_cudarc = || unsafe { cudarc::cudnn::sys::cudnnGetVersion() };
    match words.as_slice() {
        ["loader"] => measure(&through_loader),
        ["loader-in-cpp"] => {
            // SAFETY: the C++ library is meant to be loaded.
            std::mem::forget(unsafe { Library::new("libstdc++.so.6") }.expect("there is a C++ library"));
            measure(&through_loader);
        }
        ["cudarc"] => measure(&through_cudarc),
        ["shim", folder] => {
            let version = open(folder);
            // SAFETY: as above.
            measure(&|| unsafe { version() });
        }
        // SAFETY: as above.
        ["open-shim", folder] => measure(&|| unsafe { open(folder)() }),
        ["load-all", folder] => load_all(Path::new(folder)),
        ["identify", folder] => identify(Path::new(folder)),
        _ => panic!("{words:?}: no such way"),
    }
}
