//! Reads arbitrary bytes as a Windows library.
#![no_main]

use cudnn_probe::{Library, identify_any};
use cudnn_probe_fuzz::put;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut all = b"MZ".to_vec();
    all.extend_from_slice(bytes);
    let file = put("cudnn_graph64_9.dll", &all);
    let _ = identify_any(&file, Library::Graph);
});
