//! The environment variables that control the build.
//!
//! Read them through [`read`], which makes cargo rerun the build script when a value changes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The directory of the libraries to link. By default, `cudnn-probe` searches as it does at run time.
#[allow(dead_code, reason = "only link.rs and bindings.rs read it")]
pub(crate) const LIB_DIR: &str = "CUDNN_SYS_LIB_DIR";

/// The directory of `cudnn_graph.h` for the feature `buildtime-bindgen`. The default is the first of [`include_dirs`].
#[allow(dead_code, reason = "only bindings.rs reads it")]
pub(crate) const INCLUDE_DIR: &str = "CUDNN_SYS_INCLUDE_DIR";

/// Variables that bindgen reads: the directory of libclang, and additional arguments.
#[allow(dead_code, reason = "only bindings.rs reads it")]
pub(crate) const LIBCLANG: [&str; 2] = ["LIBCLANG_PATH", "BINDGEN_EXTRA_CLANG_ARGS"];

/// Set by docs.rs, where there are no libraries to link.
#[allow(dead_code, reason = "only a build that links reads it")]
pub(crate) const DOCS_RS: &str = "DOCS_RS";

/// Returns the value of a variable, or `None` if it is unset or empty.
#[allow(dead_code, reason = "a build without features reads no variable")]
pub(crate) fn read(name: &str) -> Option<OsString> {
    println!("cargo::rerun-if-env-changed={name}");
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns directories that may contain headers: those that belong to a library directory, then the usual ones on
/// Linux.
#[allow(dead_code, reason = "a build without features looks for no headers")]
pub(crate) fn include_dirs(lib_dir: Option<&Path>) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    if let Some(lib_dir) = lib_dir {
        dirs.push(lib_dir.join("../include"));
        // NVIDIA's Windows installer uses `bin/13.0` and `include/13.0`, and newer versions `bin/13.0/x64`.
        let cuda = if lib_dir.ends_with("x64") { lib_dir.parent() } else { Some(lib_dir) };
        if let Some((cuda, bin)) = cuda.and_then(|cuda| Some((cuda.file_name()?, cuda.parent()?))) {
            dirs.push(bin.join("../include").join(cuda));
        }
    }
    dirs.extend(["/usr/include".into(), "/usr/local/cuda/include".into()]);
    dirs
}
