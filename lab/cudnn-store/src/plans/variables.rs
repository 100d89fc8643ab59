//! The names of the environment variables that configure the store.

/// The variable with the path of the directory.
pub const DIR_VARIABLE: &str = "CUDNN_PLANS_DIR";
/// The variable with the size limit: a number of bytes, or a size such as `512M` or `2G`.
pub const LIMIT_VARIABLE: &str = "CUDNN_PLANS_LIMIT";
/// The variable with the paths of packs, separated as in `PATH`.
pub const PACK_VARIABLE: &str = "CUDNN_PLANS_PACK";
