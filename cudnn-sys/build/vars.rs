//! The environment variables that control the build. Each is named here once and read through [`read`], which makes
//! cargo rerun the build script when the value changes.

use std::ffi::OsString;

/// The directory of the libraries to link. Without it, `cudnn-probe` searches, as at run time.
#[allow(dead_code, reason = "only link.rs and bindings.rs read it")]
pub(crate) const LIB_DIR: &str = "CUDNN_SYS_LIB_DIR";

/// The directory of `cudnn_graph.h` for the feature `buildtime-bindgen`. Default: `include` beside [`LIB_DIR`], then
/// `/usr/include` and `/usr/local/cuda/include`.
#[allow(dead_code, reason = "only bindings.rs reads it")]
pub(crate) const INCLUDE_DIR: &str = "CUDNN_SYS_INCLUDE_DIR";

/// The variables that bindgen reads: libclang's directory, and more arguments for it.
#[allow(dead_code, reason = "only bindings.rs reads it")]
pub(crate) const LIBCLANG: [&str; 2] = ["LIBCLANG_PATH", "BINDGEN_EXTRA_CLANG_ARGS"];

/// docs.rs sets it, and has nothing to link.
#[allow(dead_code, reason = "only a build that links reads it")]
pub(crate) const DOCS_RS: &str = "DOCS_RS";

/// The value of a variable; `None` if it is unset or empty.
#[allow(dead_code, reason = "a build without features reads no variable")]
pub(crate) fn read(name: &str) -> Option<OsString> {
    println!("cargo::rerun-if-env-changed={name}");
    std::env::var_os(name).filter(|value| !value.is_empty())
}
