//! The names of the environment variables that configure the store.

/// The variable that names the directory.
pub const DIR_VARIABLE: &str = "CUDNN_PLANS_DIR";
/// The variable with the limit: a number of bytes, or `512M`, `2G`.
pub const LIMIT_VARIABLE: &str = "CUDNN_PLANS_LIMIT";
/// The variable with the packs, separated as in `PATH`.
pub const PACK_VARIABLE: &str = "CUDNN_PLANS_PACK";
