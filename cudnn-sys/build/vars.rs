//! The environment variables that steer the build: each named once, with what it does, and read in one way, which also
//! tells cargo to build again when it changes.

use std::ffi::OsString;

/// The folder that holds the libraries to link. Without it, `cudnn-probe`'s search decides, as at run time.
#[allow(dead_code, reason = "read when something is linked")]
pub(crate) const LIB_DIR: &str = "CUDNN_SYS_LIB_DIR";

/// The folder that holds `cudnn_graph.h` and its siblings, for the feature `buildtime-bindgen`. Without it, the
/// `include` folder beside the libraries' folder is tried, then `/usr/include`.
#[allow(dead_code, reason = "read when bindings are generated")]
pub(crate) const INCLUDE_DIR: &str = "CUDNN_SYS_INCLUDE_DIR";

/// What bindgen and libclang read, for the feature `buildtime-bindgen`: where libclang is, and what to give it beside
/// the folders of headers.
#[allow(dead_code, reason = "read when bindings are generated")]
pub(crate) const OF_LIBCLANG: [&str; 2] = ["LIBCLANG_PATH", "BINDGEN_EXTRA_CLANG_ARGS"];

/// Set by docs.rs, where nothing can be linked and nothing needs to be.
#[allow(dead_code, reason = "read when something is linked")]
pub(crate) const DOCS_RS: &str = "DOCS_RS";

/// The value of a variable; none when it is unset or empty.
#[allow(dead_code, reason = "without features there is nothing to steer")]
pub(crate) fn read(name: &str) -> Option<OsString> {
    println!("cargo::rerun-if-env-changed={name}");
    std::env::var_os(name).filter(|value| !value.is_empty())
}
