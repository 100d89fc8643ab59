//! Device descriptions in cuDNN's JSON (`CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`, since cuDNN 9.8), for planning
//! without a GPU.

/// An H200 as cuDNN 9.28 describes it. Older releases ignore the members that they do not know.
///
/// `memoryBusWidth` is mandatory from cuDNN 9.27 on.
pub const H200: &str = include_str!("devices/h200.json");
