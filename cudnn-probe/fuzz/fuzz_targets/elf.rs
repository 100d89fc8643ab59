//! Any bytes as a Linux library, and as a program whose needs are followed.
#![no_main]

use cudnn_probe::{Environment, Library, Prediction, identify_any};
use cudnn_probe_fuzz::{put, root};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = put("libcudnn_graph.so.9", bytes);
    let _ = identify_any(&file, Library::Graph);
    let _ = Prediction::of(&file, &Environment::fake(root()));
});
