//! Whether a file is this project's drop-in library, which stands in place of NVIDIA's shim and opens nothing by the rules
//! of the system's loader. Knows nothing of frameworks.

use std::path::Path;

use crate::cudnn_name::CudnnName;

/// The drop-in library is smaller than this, in bytes.
const MAX_LEN: u64 = 64 << 20;

/// The start of the names of the functions that the drop-in library adds to cuDNN's.
const SYMBOL: &[u8] = b"\0cudnnShim";

/// The text before the drop-in library's version: see its `cudnnShimGetVersion`.
const MARK: &[u8] = b"cudnn-shim drop-in ";

/// The longest version that is read.
const MAX_VERSION_LEN: usize = 64;

/// Is this the drop-in library, which stands in place of NVIDIA's shim?
#[must_use]
pub fn is_drop_in(file: &Path) -> bool {
    is_drop_in_named(file, file)
}

/// Like [`is_drop_in`], for a file that can only be read at another path.
#[must_use]
pub fn is_drop_in_named(name: &Path, file: &Path) -> bool {
    let parsed = name.file_name().and_then(|name| CudnnName::parse(name.to_str()?));
    let is_shim = parsed.is_some_and(|name| !name.is_mangled && name.major == Some(9));
    if !is_shim || !std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.len() < MAX_LEN) {
        return false;
    }
    // To read a file of /proc may take for ever, and its length is 0.
    let bytes = cudnn_probe::read_bounded(file, MAX_LEN);
    bytes.is_ok_and(|bytes| bytes.windows(SYMBOL.len()).any(|window| window == SYMBOL))
}

/// The version that the drop-in library in this file states; `None` for another file.
#[must_use]
pub fn drop_in_version(file: &Path) -> Option<String> {
    drop_in_version_named(file, file)
}

/// Like [`drop_in_version`], for a file that can only be read at another path.
#[must_use]
pub fn drop_in_version_named(name: &Path, file: &Path) -> Option<String> {
    if !is_drop_in_named(name, file) {
        return None;
    }
    let bytes = cudnn_probe::read_bounded(file, MAX_LEN).ok()?;
    let start = bytes.windows(MARK.len()).position(|window| window == MARK)? + MARK.len();
    let rest = bytes.get(start..)?.iter().take(MAX_VERSION_LEN + 1);
    let is_of_version = |byte: &u8| byte.is_ascii_alphanumeric() || b".-+".contains(byte);
    let version: Vec<u8> = rest.clone().copied().take_while(is_of_version).collect();
    // It ends as a text in C does.
    let is_complete = rest.clone().nth(version.len()) == Some(&0);
    String::from_utf8(version).ok().filter(|version| is_complete && !version.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_drop_in_is_recognised_on_each_system() {
        let file = std::env::temp_dir().join(format!("cudnn-drop-in-{}", std::process::id()));
        for (name, text, expected) in [
            ("libcudnn.so.9", "\0cudnnShimGetVersion\0", true),
            ("cudnn64_9.dll", "\0cudnnShimGetVersion\0", true),
            ("CUDNN64_9.DLL", "\0cudnnShimGetVersion\0", true),
            ("cudnn64_9.dll", "\0cudnnGetVersion\0", false),
            ("cudnn_graph64_9.dll", "\0cudnnShimGetVersion\0", false),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(is_drop_in_named(Path::new(name), &file), expected, "{name}");
        }
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn the_version_is_read_from_the_file() {
        let dir = std::env::temp_dir().join(format!("cudnn-drop-in-version-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let file = dir.join("libcudnn.so.9");
        for (text, expected) in [
            ("\0cudnnShimGetVersion\0cudnn-shim drop-in 0.1.0-rc.1\0x", Some("0.1.0-rc.1")),
            ("cudnn-shim drop-in 0.1.0\0", None),
            ("\0cudnnShimGetVersion\0", None),
            ("\0cudnnShimGetVersion\0cudnn-shim drop-in \0", None),
            ("\0cudnnShimGetVersion\0cudnn-shim drop-in 1\x1b[31m\0", None),
            ("\0cudnnShimGetVersion\0cudnn-shim drop-in 0.1", None),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(drop_in_version(&file).as_deref(), expected, "{text}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
