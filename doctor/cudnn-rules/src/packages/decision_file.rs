//! Reads the files in which people decide what installers do: settings, manifests and constraints.

use std::io::ErrorKind;
use std::path::Path;

use cudnn_probe::read_bounded;
use toml_edit::{DocumentMut, Item};

/// Why a file is of no use, as a predicate: `cannot be read: permission denied`.
#[derive(Debug)]
pub(super) enum Unusable {
    /// The file cannot be read as text.
    Unreadable(String),
    /// The text is invalid.
    Invalid(String),
}

impl Unusable {
    pub(super) fn reason(self) -> String {
        let (Unusable::Unreadable(reason) | Unusable::Invalid(reason)) = self;
        reason
    }
}

/// Returns the contents of a file. `None` if there is no such file.
///
/// # Errors
/// The reason why the file cannot be read.
pub(super) fn contents(file: &Path) -> Result<Option<Vec<u8>>, Unusable> {
    const MAX_LEN: u64 = 1 << 20;
    if file == Path::new("/dev/null") {
        return Ok(Some(Vec::new()));
    }
    match read_bounded(file, MAX_LEN) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(None),
            ErrorKind::Other => Err(Unusable::Unreadable(error.to_string())),
            _ => Err(Unusable::Unreadable(format!("cannot be read: {error}"))),
        },
    }
}

/// Returns the text of a file. `None` if there is no such file.
///
/// # Errors
/// The reason why the file cannot be read, or is not UTF-8.
pub(super) fn text(file: &Path) -> Result<Option<String>, Unusable> {
    let not_utf8 = |_| Unusable::Unreadable("is not UTF-8".to_owned());
    contents(file)?.map(String::from_utf8).transpose().map_err(not_utf8)
}

/// Returns the value below these keys in a TOML file. `None` if there is no such file or value.
///
/// # Errors
/// The reason why the file cannot be read, or is invalid.
pub(super) fn toml(file: &Path, keys: &[&str]) -> Result<Option<Item>, Unusable> {
    let Some(text) = text(file)? else { return Ok(None) };
    // The first line of the error names the line of the file.
    let invalid = |error: toml_edit::TomlError| {
        let text = error.to_string();
        Unusable::Invalid(format!("is invalid: {}", text.lines().next().unwrap_or_default()))
    };
    let document = text.parse::<DocumentMut>().map_err(invalid)?;
    Ok(keys.iter().try_fold(document.as_item(), |item, key| item.get(key)).cloned())
}
