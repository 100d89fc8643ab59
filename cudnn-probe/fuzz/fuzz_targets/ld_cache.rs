//! Reads arbitrary bytes as `/etc/ld.so.cache`.
#![no_main]

use cudnn_probe::{Host, Search};
use cudnn_probe_fuzz::{put, root};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Prepend the magic number of a cache to half of the inputs.
    let has_magic = bytes.first().is_some_and(|first| first % 2 == 0);
    let mut all = if has_magic { b"glibc-ld.so.cache1.1".to_vec() } else { Vec::new() };
    all.extend_from_slice(bytes);
    put("etc/ld.so.cache", &all);
    let _ = Search::new(Host::sandbox(root())).candidates().count();
});
