//! Reads arbitrary bytes as package records of pip, conda, dpkg and rpm.
#![no_main]

use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::Host;
use cudnn_probe_fuzz::{put, root};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let site_packages = "lib/python3.12/site-packages";
    put(format!("{site_packages}/nvidia/cudnn/lib/libcudnn_graph.so.9"), b"not a library");
    put(format!("{site_packages}/nvidia_cudnn_cu12-9.28.0.42.dist-info/RECORD"), bytes);
    put("conda/lib/libcudnn_graph.so.9", b"not a library");
    put("conda/conda-meta/cudnn-9.28.0-0.json", bytes);
    put("usr/lib/libcudnn_graph.so.9", b"not a library");
    put("var/lib/dpkg/info/libcudnn9.list", b"/usr/lib/libcudnn_graph.so.9\n");
    put("var/lib/dpkg/status", bytes);
    put("usr/lib64/libcudnn_graph.so.9", b"not a library");
    put("var/lib/rpm/rpmdb.sqlite", bytes);
    for dir in [&format!("{site_packages}/nvidia/cudnn/lib"), "conda/lib", "usr/lib", "usr/lib64"] {
        let _ = InstallationReport::read(&root().join(dir), &Host::sandbox(root()));
    }
});
