//! Any bytes as the dynamic linker's cache.
#![no_main]

use cudnn_probe::{Environment, Search};
use cudnn_probe_fuzz::{put, root};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Half of the time behind the words that every cache begins with.
    let mut all = if bytes.first().is_some_and(|first| first % 2 == 0) { b"glibc-ld.so.cache1.1".to_vec() } else { Vec::new() };
    all.extend_from_slice(bytes);
    put("etc/ld.so.cache", &all);
    let _ = Search::new(Environment::fake(root())).candidates().count();
});
