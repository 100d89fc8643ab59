//! Which file a library gets when it opens another by name.

pub(crate) use cudnn_probe::ld_so::SearchPath;

/// A library finds its plugins beside itself, by its run path.
pub(crate) const FINDS_PLUGINS: bool = true;

/// ld.so does not search the working directory.
pub(crate) fn is_in_working_dir(_: &SearchPath, _: &str) -> bool {
    false
}
