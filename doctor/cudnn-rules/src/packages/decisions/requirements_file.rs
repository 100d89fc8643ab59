//! Reads files with one requirement per line like pip and uv do, in UTF-8 or UTF-16.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_frameworks::requirement_error;
use cudnn_probe::{Os, facts};
use percent_encoding::percent_decode_str;

use super::decision::{Decision, name_and_version};
use crate::packages::decision_file::contents;

/// Returns the decisions in the files of a setting, which are separated by spaces and relative to this directory.
pub(super) fn decisions_in_files(setting: &str, dir: &Path) -> Vec<Decision> {
    setting.split_whitespace().flat_map(|file| decisions_in(&dir.join(path(file)))).collect()
}

/// Returns the decisions in a file and in the files that it includes with `-c` or `-r`, and the lines that pip refuses.
pub(super) fn decisions_in(file: &Path) -> Vec<Decision> {
    const MAX_FILES: usize = 32;
    let mut found = Vec::new();
    let mut files = vec![file.to_owned()];
    let mut read = BTreeSet::new();
    while let Some(file) = files.pop() {
        // pip downloads a URL, which follows the directory of the including file.
        let is_url = file.to_string_lossy().contains("://");
        if read.len() >= MAX_FILES || !read.insert(file.clone()) || is_url {
            continue;
        }
        let text = text(&file).unwrap_or_else(|reason| {
            found.push(Decision::refused_constraints(&file, &reason));
            String::new()
        });
        for line in joined_lines(&text) {
            // A comment starts after a space, because URLs contain this character, too.
            let line = expanded(line.replace('\t', " ").split(" #").next().unwrap_or_default());
            let words: Vec<&str> = line.split(' ').collect();
            let first_option = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
            let (requirement, options) = words.split_at(first_option);
            let requirement = requirement.join(" ").trim().to_owned();
            if requirement.is_empty() {
                let options = shlex::split(&options.join(" ")).unwrap_or_default();
                let other = file_in_options(&options);
                files.extend(other.zip(file.parent()).map(|(other, dir)| dir.join(path(other))));
                if options.first().is_none_or(|option| is_known_option(option)) {
                    continue;
                }
            }
            let requirement = requirement_of_wheel(&requirement).unwrap_or(requirement);
            found.push(match requirement_error(&requirement) {
                None => Decision::constraint(&file, requirement),
                Some(_) => Decision::refused_constraints(&file, &format!("has the line `{}`", line.trim().printable())),
            });
        }
    }
    found
}

/// Returns the file that the options of a line name. pip reads only one.
fn file_in_options(options: &[String]) -> Option<&str> {
    let value = |short: &str, long: &str| {
        let mut rest = options.iter();
        // `-cX`, `-c X`, `--constraint=X`, `--constraint X`, or the start of this name: `--constr X`
        let value = rest.find_map(|option| match option.split_once('=').unwrap_or((option, "")) {
            (name, value) if name.len() > 2 && long.starts_with(name) => Some(value),
            _ => option.strip_prefix(short),
        })?;
        Some(value).filter(|value| !value.is_empty()).or_else(|| rest.next().map(String::as_str))
    };
    value("-r", "--requirement").or_else(|| value("-c", "--constraint"))
}

/// Returns whether a line of such a file may start with this option. pip accepts the start of a name, and rejects
/// editable constraints.
fn is_known_option(option: &str) -> bool {
    const LONG: &str = "--constraint --extra-index-url --find-links --index-url --no-binary --no-index --only-binary --pre \
                        --prefer-binary --pypi-url --require-hashes --requirement --trusted-host --use-feature";
    let name = option.split('=').next().unwrap_or_default();
    let is_short = || ["-c", "-f", "-i", "-r"].iter().any(|known| name.starts_with(known));
    if name.starts_with("--") { LONG.split_whitespace().any(|known| known.starts_with(name)) } else { is_short() }
}

/// Returns the requirement of a line that is only the path or URL of a wheel: `name @ URL`.
fn requirement_of_wheel(line: &str) -> Option<String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-[], ".contains(c);
    let is_named = line.split_once('@').is_some_and(|(name, _)| name.chars().all(is_of_name));
    let (name, _) = name_and_version(line)?;
    (!is_named).then(|| format!("{name} @ {line}"))
}

/// Returns the path in a setting: a `file:` URL or a path.
fn path(file: &str) -> PathBuf {
    let url = file.split_once(':').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("file"));
    let prefixes = ["//localhost/", "///", "/"];
    match url.and_then(|(_, place)| prefixes.iter().find_map(|prefix| place.strip_prefix(prefix))) {
        Some(rest) => {
            // On Windows, a drive follows: `file:///C:/x`.
            let root = if Os::HOST == Os::Windows { "" } else { "/" };
            PathBuf::from(format!("{root}{}", percent_decode_str(rest).decode_utf8_lossy()))
        }
        None => file.into(),
    }
}

/// The characters that end a line for Python's `splitlines`, which pip uses, and newer Pythons for `.pth` files.
pub const PYTHON_LINE_ENDS: [char; 10] =
    ['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}'];

/// Returns the lines of a file with requirements, split like Python's `splitlines` does. A backslash continues a line,
/// except for a comment.
fn joined_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut start = String::new();
    for line in text.replace("\r\n", "\n").split(PYTHON_LINE_ENDS) {
        let is_comment = line.trim_start().starts_with('#');
        match line.strip_suffix('\\').filter(|_| !is_comment) {
            Some(part) => start += part,
            None => lines.push(std::mem::take(&mut start) + if is_comment { " " } else { "" } + line),
        }
    }
    lines.push(start);
    lines
}

/// Replaces variables such as `${HOME}` in a line, like pip. Unset variables stay.
fn expanded(line: &str) -> String {
    let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let names = line.split("${").skip(1).filter_map(|piece| Some(piece.split_once('}')?.0));
    names.filter(|name| !name.is_empty() && name.chars().all(is_of_name)).fold(line.to_owned(), |line, name| {
        let value = facts::variable(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty());
        value.map_or(line.clone(), |value| line.replace(&format!("${{{name}}}"), &value))
    })
}

/// Returns the text of a file in UTF-16 with a byte order mark, in an encoding that one of the first lines declares, or
/// in UTF-8. Requirements are ASCII, but comments may have any encoding. The error is a predicate.
fn text(file: &Path) -> Result<String, String> {
    let bytes = contents(file)?.ok_or("does not exist, but a setting of pip or uv names it")?;
    let from_16 = |rest: &[u8], number: fn([u8; 2]) -> u16| {
        let (units, odd) = rest.as_chunks();
        String::from_utf16(&units.iter().copied().map(number).collect::<Vec<u16>>()).ok().filter(|_| odd.is_empty())
    };
    let declares = |bytes: &[u8]| {
        let mut lines = bytes.split(|byte| *byte == b'\n').take(2).map(String::from_utf8_lossy);
        lines.any(|line| line.starts_with('#') && (line.contains("coding:") || line.contains("coding=")))
    };
    let text = match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => from_16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => from_16(rest, u16::from_be_bytes),
        rest if declares(rest) => Some(String::from_utf8_lossy(rest).into_owned()),
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => String::from_utf8(rest.to_vec()).ok(),
    };
    text.ok_or_else(|| "is in an encoding that pip does not expect".to_owned())
}

#[cfg(test)]
mod tests;
