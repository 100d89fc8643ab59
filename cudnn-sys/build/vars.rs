//! The environment variables that control the build. Each is named here once and read through [`read`], which makes
//! cargo rerun the build script when the value changes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The directory of the libraries to link. Without it, `cudnn-probe` searches, as at run time.
#[allow(dead_code, reason = "only link.rs and bindings.rs read it")]
pub(crate) const LIB_DIR: &str = "CUDNN_SYS_LIB_DIR";

/// The directory of `cudnn_graph.h` for the feature `buildtime-bindgen`. Default: the first of [`include_dirs`].
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

/// The directories in which headers may be: those that belong to a directory with libraries, then Linux's usual ones.
#[allow(dead_code, reason = "a build without features looks for no headers")]
pub(crate) fn include_dirs(lib_dir: Option<&Path>) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    if let Some(lib_dir) = lib_dir {
        dirs.push(lib_dir.join("../include"));
        // NVIDIA's installer for Windows: `bin/13.0` and `include/13.0`, in newer ones `bin/13.0/x64`.
        let cuda = if lib_dir.ends_with("x64") { lib_dir.parent() } else { Some(lib_dir) };
        if let Some((cuda, bin)) = cuda.and_then(|cuda| Some((cuda.file_name()?, cuda.parent()?))) {
            dirs.push(bin.join("../include").join(cuda));
        }
    }
    dirs.extend(["/usr/include".into(), "/usr/local/cuda/include".into()]);
    dirs
}
