//! Any bytes as the GPU code of a library that is otherwise good.
#![no_main]

use std::sync::OnceLock;

use cudnn_probe::{Library, gpu_code, identify_any};
use cudnn_probe_fuzz::{put, root};

/// A library with a section `.nv_fatbin` of a known place and length, made by the C compiler.
fn good() -> &'static (Vec<u8>, usize, usize) {
    static GOOD: OnceLock<(Vec<u8>, usize, usize)> = OnceLock::new();
    GOOD.get_or_init(|| {
        let source = put("good.c", b"__attribute__((section(\".nv_fatbin\"), used)) const char code[4096] = \"FATBIN IS HERE\";");
        let library = root().join("good.so");
        let made = std::process::Command::new("cc")
            .args(["-shared", "-nostdlib", "-Wl,-soname,libcudnn_ops.so.9", "-o"])
            .args([&library, &source])
            .status();
        assert!(made.is_ok_and(|status| status.success()));
        let bytes = std::fs::read(library).unwrap_or_default();
        let place = bytes.windows(14).position(|window| window == b"FATBIN IS HERE").unwrap_or(0);
        (bytes, place, 4096)
    })
}

libfuzzer_sys::fuzz_target!(|code: &[u8]| {
    let (good, place, length) = good();
    let mut bytes = good.clone();
    let code = &code[..code.len().min(*length)];
    bytes[*place..*place + code.len()].copy_from_slice(code);
    let file = put("libcudnn_ops.so.9", &bytes);
    let _ = identify_any(&file, Library::Ops);
    let _ = gpu_code(&file);
});
