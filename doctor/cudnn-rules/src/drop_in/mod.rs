//! Describes the drop-in in front of programs, in a directory of cuDNN or in LD_PRELOAD. The rules are in
//! docs/design/doctor.md#installing-the-drop-in.

pub mod command;
pub mod functions;
pub mod layers;
pub mod source;
pub mod state;

use crate::system::choose;

/// The name of NVIDIA's shim next to the drop-in. It must not match `libcudnn.so*`, `libcudnn*.so*` or `*.dll`, because
/// programs open all matches. For example, Transformer Engine opens the last match of the first pattern.
pub const KEPT: &str = choose("libcudnn.9.kept-by-cudnn-doctor", "cudnn64_9.kept-by-cudnn-doctor");

/// The library that contains this project's layers.
pub const LAYERS: &str = choose("libcudnn_layers.so", "cudnn_layers.dll");

/// The variable with libraries that ld.so loads before all others.
pub const PRELOAD: &str = "LD_PRELOAD";

/// The common version of the doctor and the drop-in.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
