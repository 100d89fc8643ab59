//! Whether a file is this project's drop-in library, which stands in place of NVIDIA's shim and opens nothing by the rules
//! of the system's loader. Knows nothing of frameworks.

use std::path::Path;

use crate::cudnn_name::CudnnName;

/// The drop-in library is smaller than this, in bytes.
const MAX_LEN: u64 = 64 << 20;

/// The start of the names of the functions that the drop-in library adds to cuDNN's.
const SYMBOL: &[u8] = b"\0cudnnShim";

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
}
