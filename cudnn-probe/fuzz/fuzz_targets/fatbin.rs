//! Reads arbitrary bytes as the GPU code of an otherwise valid library.
#![no_main]

use std::ops::Range;
use std::sync::OnceLock;

use cudnn_probe::{Library, gpu_code, identify_any};
use cudnn_probe_fuzz::{put, root};

/// Returns a compiled library, with the range of the section `.nv_fatbin`.
fn template() -> &'static (Vec<u8>, Range<usize>) {
    static TEMPLATE: OnceLock<(Vec<u8>, Range<usize>)> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let code = b"__attribute__((section(\".nv_fatbin\"), used)) const char code[4096] = \"FATBIN IS HERE\";";
        let source = put("template.c", code);
        let library = root().join("template.so");
        let status = std::process::Command::new("cc")
            .args(["-shared", "-nostdlib", "-Wl,-soname,libcudnn_ops.so.9", "-o"])
            .args([&library, &source])
            .status();
        assert!(status.is_ok_and(|status| status.success()));
        let bytes = std::fs::read(library).unwrap_or_default();
        let start = bytes.windows(14).position(|window| window == b"FATBIN IS HERE").unwrap_or(0);
        (bytes, start..start + 4096)
    })
}

libfuzzer_sys::fuzz_target!(|code: &[u8]| {
    let (template, range) = template();
    let mut bytes = template.clone();
    let code = &code[..code.len().min(range.len())];
    bytes[range.start..range.start + code.len()].copy_from_slice(code);
    let file = put("libcudnn_ops.so.9", &bytes);
    let _ = identify_any(&file, Library::Ops);
    let _ = gpu_code(&file);
});
