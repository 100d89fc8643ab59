//! Manages the drop-in in front of programs, either in a directory of cuDNN or by LD_PRELOAD.
//! docs/design/0021-install.md has the rules. This module prints no output.

pub(crate) mod change;
pub(crate) mod command;
pub(crate) mod functions;
pub(crate) mod preload;
pub(crate) mod source;
pub(crate) mod state;
pub(crate) mod target;

use cudnn_probe::Os;

/// The name of NVIDIA's shim next to the drop-in. It must not match `libcudnn.so*`, `libcudnn*.so*`
/// or `*.dll`, because programs open all matches. For example, Transformer Engine takes the last match of the first
/// pattern.
pub(crate) const KEPT: &str = match Os::HOST {
    Os::Windows => "cudnn64_9.kept-by-cudnn-doctor",
    _ => "libcudnn.9.kept-by-cudnn-doctor",
};

/// The library that contains this project's layers.
pub(crate) const LAYERS: &str = match Os::HOST {
    Os::Windows => "cudnn_layers.dll",
    _ => "libcudnn_layers.so",
};

/// The common version of the doctor and the drop-in.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
