//! Reads settings, manifests and constraints: files with the user's decisions about installers. Errors are predicates
//! about the file, and a missing file is `None`.

use std::io::ErrorKind;
use std::path::Path;

use cudnn_probe::read_bounded;
use toml_edit::{DocumentMut, Item};

pub(super) fn contents(file: &Path) -> Result<Option<Vec<u8>>, String> {
    const MAX_LEN: u64 = 1 << 20;
    if file == Path::new("/dev/null") {
        return Ok(Some(Vec::new()));
    }
    match read_bounded(file, MAX_LEN) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(None),
            ErrorKind::Other => Err(error.to_string()),
            _ => Err(format!("cannot be read: {error}")),
        },
    }
}

pub(super) fn text(file: &Path) -> Result<Option<String>, String> {
    contents(file)?.map(String::from_utf8).transpose().map_err(|_| "is not UTF-8".to_owned())
}

/// Returns the value below these keys in a TOML file.
pub(super) fn toml(file: &Path, keys: &[&str]) -> Result<Option<Item>, String> {
    let Some(text) = text(file)? else { return Ok(None) };
    // The first line of the error names the line of the file.
    let invalid = |error: toml_edit::TomlError| {
        let text = error.to_string();
        format!("is invalid: {}", text.lines().next().unwrap_or_default())
    };
    let document = text.parse::<DocumentMut>().map_err(invalid)?;
    Ok(keys.iter().try_fold(document.as_item(), |item, key| item.get(key)).cloned())
}
