//! Manages the drop-in in front of programs, in the directory of a cuDNN or by LD_PRELOAD. Prints nothing.
//! docs/design/0021-install.md has the rules.

pub(crate) mod change;
pub(crate) mod command;
pub(crate) mod functions;
pub(crate) mod preload;
pub(crate) mod source;
pub(crate) mod state;
pub(crate) mod target;

use cudnn_probe::Os;

/// NVIDIA's shim, kept beside the drop-in. Programs open what matches `libcudnn.so*` (Transformer Engine takes the last
/// one), `libcudnn*.so*` or `*.dll`: this matches none.
pub(crate) const KEPT: &str = match Os::HOST {
    Os::Windows => "cudnn64_9.kept-by-cudnn-doctor",
    _ => "libcudnn.9.kept-by-cudnn-doctor",
};

/// The library with this project's layers.
pub(crate) const LAYERS: &str = match Os::HOST {
    Os::Windows => "cudnn_layers.dll",
    _ => "libcudnn_layers.so",
};

/// The version of the doctor, which is that of its drop-in.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
