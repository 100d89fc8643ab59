//! Editable installations (`pip install --editable`): where the modules are, as far as files state it plainly. A finder
//! is code, of which only the table that setuptools writes is read.

use std::path::{Path, PathBuf};

use cudnn_probe::read_bounded;

use super::Found;

/// The most bytes of `direct_url.json`, of a `.pth` file and of a finder, and entries of the finder's table.
const MAX_LEN: u64 = 256 << 10;
const MAX_MODULES: usize = 256;

/// What an editable installation states.
#[derive(Debug, Default)]
pub(super) struct Editable {
    pub(super) modules: Vec<(String, PathBuf)>,
    pub(super) source_dirs: Vec<PathBuf>,
}

/// Reads how a package is installed; `None` if it is not editable.
pub(super) fn read(import_dir: &Path, info_dir: &Path, found: &mut Found) -> Option<Editable> {
    let url_file = info_dir.join("direct_url.json");
    // Most packages have none.
    if std::fs::symlink_metadata(&url_file).is_err() {
        return None;
    }
    let text = match read_bounded(&url_file, MAX_LEN) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => {
            found.report(url_file, error.to_string());
            return None;
        }
    };
    let without_blanks: String = text.split_ascii_whitespace().collect();
    if !without_blanks.contains(r#""editable":true"#) {
        return None;
    }
    let mut editable = Editable::default();
    let stem = info_dir.file_stem()?.to_str()?;
    let pth = import_dir.join(format!("__editable__.{stem}.pth"));
    for line in read_text(&pth).lines().map(str::trim_end) {
        let dir = import_dir.join(line);
        if !line.is_empty() && !line.starts_with("import ") && dir.is_dir() {
            editable.source_dirs.push(dir);
        }
    }
    let finder = format!("__editable___{}_finder.py", stem.replace(['-', '.', '+'], "_"));
    editable.modules = modules(&read_text(&import_dir.join(finder)));
    if let Some(source) = source_dir(&text) {
        editable.source_dirs.extend([source.join("src"), source]);
    }
    Some(editable)
}

fn read_text(file: &Path) -> String {
    String::from_utf8_lossy(&read_bounded(file, MAX_LEN).unwrap_or_default()).into_owned()
}

/// The entries of setuptools' table: `MAPPING: dict[str, str] = {'torch': '/home/me/pytorch/torch'}`.
fn modules(finder: &str) -> Vec<(String, PathBuf)> {
    let table = finder.lines().find_map(|line| {
        let (_, table) = line.strip_prefix("MAPPING")?.split_once('=')?;
        table.trim().strip_prefix('{')?.strip_suffix('}')
    });
    let entry = |entry: &str| {
        let (module, dir) = entry.split_once(": ")?;
        let text = |literal: &str| {
            let text = literal.trim().strip_prefix('\'')?.strip_suffix('\'')?;
            // An escape would need Python's rules.
            (!text.contains('\\')).then(|| text.to_owned())
        };
        Some((text(module)?, PathBuf::from(text(dir)?)))
    };
    table
        .unwrap_or_default()
        .split("', ")
        .take(MAX_MODULES)
        .filter_map(|part| {
            let end = if part.trim_end().ends_with('\'') { "" } else { "'" };
            entry(&format!("{part}{end}"))
        })
        .filter(|(_, dir)| dir.is_absolute())
        .collect()
}

/// The source directory: `{"dir_info": {"editable": true}, "url": "file:///home/me/pytorch"}`.
fn source_dir(text: &str) -> Option<PathBuf> {
    let (_, after) = text.split_once("\"url\"")?;
    let (_, after) = after.split_once("\"file://")?;
    let (path, _) = after.split_once('"')?;
    // An escape in the URL would need its rules: the other files name the directory too.
    let is_plain = path.starts_with('/') && !path.contains(['%', '\\']);
    is_plain.then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finder_states_its_modules() {
        let finder = "import sys\nMAPPING: dict[str, str] = {'torch': '/src/py torch/torch', 'functorch': '/src/functorch'}\n\
                      NAMESPACES: dict[str, list[str]] = {}\n";
        let expected = [("torch", "/src/py torch/torch"), ("functorch", "/src/functorch")];
        assert_eq!(modules(finder), expected.map(|(name, dir)| (name.to_owned(), PathBuf::from(dir))));
        for none in ["", "MAPPING = {}", "MAPPING = {'a': 'relative'}", "MAPPING = {'a': '\\x41'}", "MAPPING = {"] {
            assert_eq!(modules(none), [], "{none}");
        }
    }

    #[test]
    fn a_direct_url_states_the_source_directory() {
        let text = r#"{"dir_info": {"editable": true}, "url": "file:///home/me/pytorch"}"#;
        assert_eq!(source_dir(text), Some(PathBuf::from("/home/me/pytorch")));
        assert_eq!(source_dir(r#"{"url": "file:///a%20b"}"#), None);
        assert_eq!(source_dir(r#"{"url": "https://example.org"}"#), None);
    }
}
