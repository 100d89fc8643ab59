//! Any bytes as cudnn_version.h beside an installation.
#![no_main]

use cudnn_probe::{Environment, Report};
use cudnn_probe_fuzz::{put, root};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    put("lib/libcudnn_graph.so.9", b"no library");
    put("include/cudnn_version.h", bytes);
    let _ = Report::of(&root().join("lib"), &Environment::fake(root()));
});
