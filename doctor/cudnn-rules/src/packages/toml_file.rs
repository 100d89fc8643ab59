//! Reads values in TOML files: settings and manifests.

use std::path::Path;

use cudnn_probe::read_bounded;
use toml_edit::{DocumentMut, Item};

/// Returns the value below these keys in a TOML file.
pub(super) fn toml(file: &Path, keys: &[&str]) -> Option<Item> {
    const MAX_LEN: u64 = 1 << 20;
    let text = String::from_utf8(read_bounded(file, MAX_LEN).ok()?).ok()?;
    let document = text.parse::<DocumentMut>().ok()?;
    keys.iter().try_fold(document.as_item(), |item, key| item.get(key)).cloned()
}
