//! Reads arbitrary bytes as a Linux library, to compare symbols, and as a program, to follow dependencies.
#![no_main]

use cudnn_probe::{Host, Library, identify_any, ld_so::Simulation, missing_symbols};
use cudnn_probe_fuzz::{put, root};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = put("libcudnn_graph.so.9", bytes);
    let _ = identify_any(&file, Library::Graph);
    let _ = missing_symbols(&file, std::slice::from_ref(&file));
    let _ = Simulation::new(&file, &Host::sandbox(root()));
});
