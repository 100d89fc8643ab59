//! Device descriptions in cuDNN's JSON (`CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`, since cuDNN 9.8), for planning
//! without a GPU. For the crates of this project.

/// An H200 as described by cuDNN 9.28. Older releases ignore unknown members.
///
/// `memoryBusWidth` is required from cuDNN 9.27 on.
pub const H200: &str = include_str!("devices/h200.json");
