//! Recognizes this project's drop-in library, which replaces NVIDIA's shim.

use cudnn_probe::facts;
use std::path::Path;

use memchr::memmem;

use crate::files::file_name;
use crate::library_names::CudnnName;

const MAX_LEN: u64 = 64 << 20;
/// The prefix of the drop-in's additional functions.
const SYMBOL: &[u8] = b"\0cudnnShim";
/// The text before the version, as `cudnnShimGetVersion` returns it.
const MARK: &[u8] = b"cudnn-shim drop-in ";
const MAX_VERSION_LEN: usize = 64;

/// Returns whether this file is the drop-in library, which replaces NVIDIA's shim.
pub fn is_drop_in(file: &Path) -> bool {
    is_drop_in_named(file, file)
}

/// Like [`is_drop_in`], for a file with this name that is readable only at another path.
pub fn is_drop_in_named(name: &Path, file: &Path) -> bool {
    is_shim(name) && facts::ask("drop-in", file, || contents(file).is_some())
}

/// Returns the version of the drop-in library in this file, or `None` for other files.
pub fn drop_in_version(file: &Path) -> Option<String> {
    drop_in_version_named(file, file)
}

/// Like [`drop_in_version`], for a file with this name that is readable only at another path.
pub fn drop_in_version_named(name: &Path, file: &Path) -> Option<String> {
    is_shim(name).then(|| facts::ask("version of drop-in", file, || version(&contents(file)?)))?
}

fn version(bytes: &[u8]) -> Option<String> {
    let start = memmem::find(bytes, MARK)? + MARK.len();
    let version = bytes.get(start..)?.split(|byte| *byte == 0).next()?;
    let is_complete = start + version.len() < bytes.len() && (1..=MAX_VERSION_LEN).contains(&version.len());
    let is_of_version = |byte: &u8| byte.is_ascii_alphanumeric() || b".-+".contains(byte);
    (is_complete && version.iter().all(is_of_version)).then(|| String::from_utf8_lossy(version).into_owned())
}

/// Returns whether this is the name of cuDNN 9's shim. The questions do not include it, because an answer must depend only
/// on its subject.
fn is_shim(name: &Path) -> bool {
    CudnnName::parse(file_name(name)).is_some_and(|name| !name.is_mangled && name.major == Some(9))
}

fn contents(file: &Path) -> Option<Vec<u8>> {
    // Files in /proc have the length 0, and reading them may block.
    let is_file = || facts::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.len() < MAX_LEN);
    let bytes = is_file().then(|| cudnn_probe::read_bounded(file, MAX_LEN).ok())??;
    memmem::find(&bytes, SYMBOL).map(|_| bytes)
}
