//! The names of the files with the values of tensors.

use std::path::{Component, Path, PathBuf};

/// Returns the directory with the values of a capture's tensors: the name of the file with the suffix `.data`.
///
/// ```
/// use std::path::Path;
///
/// use cudnn_store::captures::values_dir;
///
/// assert_eq!(values_dir(Path::new("dir/app.cudnncap")), Path::new("dir/app.cudnncap.data"));
/// ```
pub fn values_dir(file: &Path) -> PathBuf {
    let mut dir = file.as_os_str().to_owned();
    dir.push(".data");
    PathBuf::from(dir)
}

/// Returns whether this is the name of a file without a directory on all operating systems.
pub fn is_file_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let is_normal =
        matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name);
    is_normal && !name.contains(['/', '\\', ':', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_directories_are_refused() {
        assert!(is_file_name("plan-0-execution-1-tensor-1-before.bin") && is_file_name("..bin"));
        for name in ["", ".", "..", "a/b", "a/", "/a", "../a", "./a", r"a\b", r"..\a", "C:a", "a:b", "a\0b"] {
            assert!(!is_file_name(name), "{name:?}");
        }
    }
}
