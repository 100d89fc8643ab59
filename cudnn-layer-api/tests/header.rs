//! Compares `cudnn_layer.h` with `abi`: a C compiler checks sizes, offsets and constants.

use std::fmt::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use cudnn_layer_api::abi::{self, Event, Host, Layer};

/// Compares a structure with the header's. The pattern has no `..`, so that a field that is not listed does not compile.
macro_rules! offsets {
    ($code:ident, $c:literal, $rust:ident: $($field:ident)*) => {
        let _ = |$rust { $($field: _),* }: $rust| ();
        writeln!($code, "check(sizeof({}) == {});", $c, size_of::<$rust>()).unwrap();
        $(writeln!($code, "check(offsetof({}, {}) == {});", $c, stringify!($field), offset_of!($rust, $field)).unwrap();)*
    };
}

#[test]
fn the_header_and_the_types_agree() {
    let mut code = String::from("#include <cudnn_layer.h>\n#define check(fact) static_assertion(fact, #fact)\n");
    offsets!(code, "cudnnLayerHost", Host: size abi cudnn_version cudnn_dir name loader next message missed_calls
        inside environment cudart_version);
    offsets!(code, "cudnnLayerEvent", Event: size kind status function library path text duration_ns age_ns);
    offsets!(code, "cudnnLayer", Layer: size data wrap event);
    for (name, value) in [
        ("CUDNN_LAYER_ABI", abi::ABI as i32),
        ("CUDNN_LAYER_ERROR", abi::ERROR),
        ("CUDNN_LAYER_WARNING", abi::WARNING),
        ("CUDNN_LAYER_INFO", abi::INFO),
        ("CUDNN_LAYER_LIBRARY_LOADED", abi::LIBRARY_LOADED),
        ("CUDNN_LAYER_LIBRARY_FAILED", abi::LIBRARY_FAILED),
        ("CUDNN_LAYER_CALL_FAILED", abi::CALL_FAILED),
        ("CUDNN_LAYER_FIRST_CALL", abi::FIRST_CALL),
    ] {
        writeln!(code, "check({name} == {value});").unwrap();
    }
    let dir = std::env::temp_dir().join(format!("cudnn-layer-api-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let source = dir.join("header.c");
    std::fs::write(&source, code).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for (compiler, options, assertion) in
        [("cc", ["-std=c11", "-xc"], "_Static_assert"), ("c++", ["-std=c++11", "-xc++"], "static_assert")]
    {
        let mut command = Command::new(compiler);
        command.args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]).args(options);
        command.arg(format!("-Dstatic_assertion={assertion}"));
        let output = command.arg("-I").arg(&include).arg(&source).output().unwrap();
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
    }
    std::fs::remove_dir_all(dir).unwrap();
}
