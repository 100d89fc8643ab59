//! Reads arbitrary bytes as the `cudnn_version.h` of an installation.
#![no_main]

use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::Host;
use cudnn_probe_fuzz::{put, root};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    put("lib/libcudnn_graph.so.9", b"not a library");
    put("include/cudnn_version.h", bytes);
    let _ = InstallationReport::read(&root().join("lib"), &Host::sandbox(root()));
});
