//! The environment variable of this crate.

/// The environment variable with the cache directory. Default: `$XDG_CACHE_HOME/cudnn-shim` or `~/.cache/cudnn-shim`;
/// on Windows `%LOCALAPPDATA%\cudnn-shim`.
pub const CACHE_VARIABLE: &str = "CUDNN_FETCH_CACHE";
