//! Reads package metadata: `METADATA` in a `.dist-info` directory, or `PKG-INFO` in an `.egg-info`.

use cudnn_probe::facts::{self, PathFacts};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use cudnn_probe::read_bounded;

use crate::files::file_name;

/// The maximum number of requirements, and of bytes to read, because the package's description follows.
pub(super) const MAX_LEN: u64 = 1 << 20;
const MAX_REQUIREMENTS: usize = 4_000;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    /// The requirements as written: `nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux"`.
    pub(crate) requirements: Vec<String>,
}

/// Returns the file with a package's metadata. An `.egg-info` may itself be a file.
pub(crate) fn file(info_dir: &Path) -> PathBuf {
    let is_egg =
        info_dir.extension().is_some_and(|extension| extension == "egg-info") || info_dir.ends_with("EGG-INFO");
    if is_egg && info_dir.leads_to_file() {
        return info_dir.to_owned();
    }
    info_dir.join(if is_egg { "PKG-INFO" } else { "METADATA" })
}

/// Reads the metadata of a package. An error is the reason why it is unreadable.
pub(crate) fn read(info_dir: &Path) -> Result<Metadata, String> {
    let file = file(info_dir);
    let name = file_name(&file);
    let explain = |error: Error| match error.kind() {
        // Errors of this crate: "is a pipe", "has a gigabyte".
        ErrorKind::Other => format!("{name} {error}"),
        _ => format!("{name} cannot be read: {error}"),
    };
    let headers: std::io::Result<String> = facts::derive("headers of package", &file, || read_headers(&file));
    Ok(parse(&headers.map_err(explain)?))
}

/// Returns the text up to the first empty line.
fn read_headers(file: &Path) -> std::io::Result<String> {
    let bytes = read_bounded(file, MAX_LEN)?;
    if bytes.contains(&0) {
        return Err(Error::other("is not text"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let headers = text.lines().take_while(|line| !line.trim_start_matches('\u{feff}').trim().is_empty());
    Ok(headers.flat_map(|line| [line, "\n"]).collect())
}

/// A line that begins with a blank continues the previous header.
fn parse(text: &str) -> Metadata {
    let mut metadata = Metadata::default();
    let mut header = String::new();
    for line in text.trim_start_matches('\u{feff}').lines().take_while(|line| !line.trim().is_empty()).chain([""]) {
        if line.starts_with([' ', '\t']) {
            header.push(' ');
            header.push_str(line.trim());
            continue;
        }
        metadata.add(&header);
        line.clone_into(&mut header);
    }
    metadata
}

impl Metadata {
    fn add(&mut self, header: &str) {
        let Some((key, value)) = header.split_once(':') else { return };
        let value = value.trim();
        if key.eq_ignore_ascii_case("name") {
            self.name.get_or_insert_with(|| value.to_owned());
        } else if key.eq_ignore_ascii_case("version") {
            self.version.get_or_insert_with(|| value.to_owned());
        } else if key.eq_ignore_ascii_case("requires-dist") && self.requirements.len() < MAX_REQUIREMENTS {
            self.requirements.push(value.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_end_at_the_first_empty_line() {
        let text = "Metadata-Version: 2.4\nName: Torch\nrequires-dist: a\nRequires-Dist: b;\n  extra == 'x'\r\n\
                    Version: 2.0\nVersion: 3.0\n\nRequires-Dist: in the description\n";
        let metadata = parse(text);
        assert_eq!((metadata.name.as_deref(), metadata.version.as_deref()), (Some("Torch"), Some("2.0")));
        assert_eq!(metadata.requirements, ["a", "b; extra == 'x'"]);
        assert_eq!(parse(""), Metadata::default());
        assert_eq!(parse("\n\nName: x"), Metadata::default());
    }
}
