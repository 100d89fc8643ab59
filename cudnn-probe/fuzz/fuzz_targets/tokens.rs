//! Reads arbitrary bytes as a run path, in a normal and a privileged process.
#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use cudnn_probe::{Host, ld_so::run_path_dirs};
use cudnn_probe_fuzz::root;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let host = Host::sandbox(root());
    for host in [host.clone(), host.secure_execution(true)] {
        for dir in run_path_dirs(&host, OsStr::from_bytes(bytes), "/usr/lib".as_ref()) {
            assert!(dir.is_absolute());
        }
    }
});
