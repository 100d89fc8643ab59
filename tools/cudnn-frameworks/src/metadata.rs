//! A package's metadata: `METADATA` of a `.dist-info` directory, or `PKG-INFO` of an `.egg-info`. Reads the few headers
//! that matter, within limits.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use cudnn_probe::read_bounded;

/// The most bytes of a file of metadata: its end is the package's description. And the most requirements.
const MAX_LEN: u64 = 1 << 20;
const MAX_REQUIREMENTS: usize = 4_000;

/// What the metadata states.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    /// As written: `nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux"`.
    pub(crate) requirements: Vec<String>,
}

/// The file with the metadata in a package's metadata directory. An `.egg-info` may itself be that file.
pub(crate) fn file(info_dir: &Path) -> PathBuf {
    let is_egg = is_egg(info_dir);
    if is_egg && info_dir.is_file() {
        return info_dir.to_owned();
    }
    info_dir.join(if is_egg { "PKG-INFO" } else { "METADATA" })
}

fn is_egg(info_dir: &Path) -> bool {
    info_dir.extension().is_some_and(|extension| extension == "egg-info") || info_dir.ends_with("EGG-INFO")
}

/// Reads the metadata in a package's metadata directory.
///
/// # Errors
/// The reason why it cannot be read.
pub(crate) fn read(info_dir: &Path) -> Result<Metadata, String> {
    let file = file(info_dir);
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let explain = |error: Error| match error.kind() {
        // Ours: "is a pipe", "has a gigabyte".
        ErrorKind::Other => format!("{name} {error}"),
        _ => format!("{name} cannot be read: {error}"),
    };
    let bytes = read_bounded(&file, MAX_LEN).map_err(explain)?;
    if bytes.contains(&0) {
        return Err(format!("{name} is not text"));
    }
    let mut metadata = parse(&String::from_utf8_lossy(&bytes));
    if is_egg(info_dir) && metadata.requirements.is_empty() {
        let text = read_bounded(&info_dir.join("requires.txt"), MAX_LEN).unwrap_or_default();
        metadata.requirements = egg_requirements(&String::from_utf8_lossy(&text));
    }
    Ok(metadata)
}

/// Where the metadata is not text in UTF-8: the number of the first byte that is not, from 1.
pub(crate) fn undecodable_byte(info_dir: &Path) -> Option<usize> {
    let bytes = read_bounded(&file(info_dir), MAX_LEN).ok()?;
    let error = std::str::from_utf8(&bytes).err()?;
    // Whoever reads the package for a framework reports it as no text.
    (!bytes.contains(&0)).then_some(error.valid_up_to() + 1)
}

/// The headers, up to the first empty line. A line that begins with a blank continues the one before.
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

/// The requirements of setuptools' `requires.txt`: those below `[extra]` or `[extra:marker]` have that condition.
fn egg_requirements(text: &str) -> Vec<String> {
    let mut condition = String::new();
    let mut found = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let (extra, marker) = section.split_once(':').unwrap_or((section, ""));
            let extra = if extra.is_empty() { String::new() } else { format!("extra == {extra:?}") };
            let and = if extra.is_empty() || marker.is_empty() { "" } else { " and " };
            let marker = if and.is_empty() { marker.to_owned() } else { format!("({marker})") };
            condition = format!("{extra}{and}{marker}");
        } else if found.len() < MAX_REQUIREMENTS {
            let semicolon = if condition.is_empty() { "" } else { "; " };
            found.push(format!("{line}{semicolon}{condition}"));
        }
    }
    found
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

    #[test]
    fn sections_of_an_egg_are_conditions() {
        let text = "a>=1\n\n[gpu]\nb==2\n\n[:sys_platform == 'linux']\nc\n[gpu:os_name == 'a' or os_name == 'b']\nd\n";
        let expected = [
            "a>=1",
            "b==2; extra == \"gpu\"",
            "c; sys_platform == 'linux'",
            "d; extra == \"gpu\" and (os_name == 'a' or os_name == 'b')",
        ];
        assert_eq!(egg_requirements(text), expected);
    }
}
