//! Finds the settings that pip, uv, conda and pixi read, and the files and directories that these settings name. They
//! decide which code an installation executes.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cudnn_cli::command::Command;
use cudnn_cli::escape::Printable;
use cudnn_probe::facts::read_start;
use cudnn_probe::read_bounded;
use cudnn_rules::packages::{
    CONDA_ROOTS, PYTHON_LINE_ENDS, conda_settings, entries, pip_settings, pixi_settings, uv_project_settings,
    uv_settings,
};
use percent_encoding::percent_decode_str;

use super::foreign::{Distrust, changeable_by_others, changed_below, temporary_changeable_by_others};
use super::installer::{CERTIFICATES, PackageManager, TEMPORARY, adapted, variables};

const MAX_LEN: u64 = 1 << 20;

/// A source that root must not trust.
#[derive(Debug)]
pub(super) struct UntrustedSource {
    pub(super) distrust: Distrust,
    /// The variable or file that names the source.
    pub(super) named_by: Option<String>,
}

struct InstallerInput {
    path: PathBuf,
    named_by: Option<String>,
}

impl InstallerInput {
    fn named(by: &str, paths: Vec<PathBuf>) -> impl Iterator<Item = InstallerInput> {
        paths.into_iter().map(move |path| InstallerInput { path, named_by: Some(by.to_owned()) })
    }
}

/// Returns the files with settings for Pythons and conda environments in these prefixes.
fn files(installer: PackageManager, prefixes: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let roots = || prefixes.iter().cloned().collect::<Vec<_>>();
    match installer {
        PackageManager::Pip => {
            let prefixes = prefixes.iter().map(|prefix| Some(prefix.as_path()));
            prefixes.chain([None]).flat_map(pip_settings).collect()
        }
        PackageManager::Uv => uv_settings(),
        PackageManager::Conda => conda_settings(&roots()),
        PackageManager::Pixi => pixi_settings(&roots()),
    }
}

/// Returns why root must not trust the settings and packages that the installer reads in the root directory.
pub(super) fn foreign_source(
    installer: PackageManager,
    commands: &[&Command],
    prefixes: &BTreeSet<PathBuf>,
) -> Option<UntrustedSource> {
    let variables = variables(commands).into_iter().filter(|(_, value)| !value.is_empty());
    let variables = variables.map(|(name, value)| (adapted(&name, &value), name));
    let variables: Vec<(String, OsString)> =
        variables.filter_map(|(value, name)| Some((name.into_string().ok()?, value))).collect();
    if let Some(untrusted) = variables.iter().find_map(|(name, value)| foreign_place(name, value)) {
        return Some(untrusted);
    }
    if let Some(file) = Some(installer).filter(|one| *one == PackageManager::Uv).and_then(|_| uv_project_settings()) {
        return Some(UntrustedSource { distrust: Distrust::Unread(file), named_by: None });
    }
    let mut sources: Vec<InstallerInput> = Vec::new();
    sources.extend(files(installer, prefixes).into_iter().map(|path| InstallerInput { path, named_by: None }));
    // The files above include all settings in these directories.
    let is_read = |name: &str| installer.reads(name) && !CONDA_ROOTS.contains(&name);
    for (name, value) in variables.iter().filter(|(name, _)| is_read(name)) {
        let text = value.to_str().ok_or_else(not_utf8);
        // conda expands variables in settings.
        let has_variable = |value: &&str| installer == PackageManager::Conda && value.contains('$');
        let text = text.and_then(|value| if has_variable(&value) { Err("contains `$`".to_owned()) } else { Ok(value) });
        match text.and_then(|value| paths_in(value, Path::new("/"))) {
            Ok(paths) => sources.extend(InstallerInput::named(name, paths)),
            Err(reason) => return Some(not_understood(name.clone(), reason)),
        }
    }
    foreign_among(sources)
}

/// Returns why root must not trust the directory for temporary files, or the certificates, in this variable.
fn foreign_place(name: &str, value: &OsStr) -> Option<UntrustedSource> {
    let distrust = if TEMPORARY.contains(&name) {
        temporary_changeable_by_others(Path::new(value)).map(Distrust::Changeable)
    } else if CERTIFICATES.contains(&name) {
        changed_below(std::env::split_paths(value).collect())
    } else {
        None
    };
    distrust.map(|distrust| UntrustedSource { distrust, named_by: Some(name.to_owned()) })
}

fn not_understood(source: String, reason: String) -> UntrustedSource {
    UntrustedSource { distrust: Distrust::NotUnderstood(source, reason), named_by: None }
}

/// Returns why root must not trust these files and directories, the files that they name, or the files below them.
fn foreign_among(mut sources: Vec<InstallerInput>) -> Option<UntrustedSource> {
    let (mut seen, mut dirs) = (BTreeSet::new(), Vec::new());
    while let Some(source) = sources.pop() {
        let InstallerInput { path, named_by } = &source;
        // Installers treat this device as a file without settings.
        if path == Path::new("/dev/null") || !seen.insert(path.clone()) {
            continue;
        }
        if let Some(foreign) = changeable_by_others(path) {
            return Some(UntrustedSource { distrust: Distrust::Changeable(foreign), named_by: named_by.clone() });
        }
        if path.is_dir() {
            dirs.push(source);
        } else if path.exists() {
            let dir = path.parent().unwrap_or(Path::new("/"));
            match text_of(path).and_then(|text| paths_in(&text, dir)) {
                Ok(paths) => sources.extend(InstallerInput::named(&path.printable().to_string(), paths)),
                Err(reason) => return Some(not_understood(path.printable().to_string(), reason)),
            }
        }
    }
    dirs.into_iter().find_map(|InstallerInput { path, named_by }| match changed_below(vec![path.clone()]) {
        Some(distrust) => Some(UntrustedSource { distrust, named_by }),
        None if named_by.is_some() && has_pages(&path) => {
            Some(not_understood(path.printable().to_string(), PAGES.to_owned()))
        }
        None => None,
    })
}

/// The reason why a local index or channel is rejected.
const PAGES: &str = "has pages or a list of packages, which may link to any file";

/// Returns whether the directory is a local package index or conda channel.
fn has_pages(dir: &Path) -> bool {
    let has_page =
        |dir: &Path| ["index.html", "repodata.json", "repodata.json.zst"].iter().any(|page| dir.join(page).exists());
    has_page(dir) || entries(dir).any(|package| has_page(&package))
}

fn not_utf8() -> String {
    "is not UTF-8".to_owned()
}

/// Returns the text of a file with settings, or why it cannot be understood. Packages and programs, which contain zero
/// bytes, count as empty. So do certificates, because all installers reject settings that start like them.
fn text_of(file: &Path) -> Result<String, String> {
    const START_LEN: u64 = 8 << 10;
    // The marks of text in UTF-16 and UTF-32, which contains zero bytes.
    const MARKS: [&[u8]; 3] = [&[0xff, 0xfe], &[0xfe, 0xff], &[0, 0, 0xfe, 0xff]];
    if file.to_string_lossy().to_ascii_lowercase().contains(".htm") {
        return Err(PAGES.to_owned());
    }
    let start = read_start(file, START_LEN).map_err(|error| error.to_string())?;
    let is_binary = start.contains(&0) && !MARKS.iter().any(|mark| start.starts_with(mark));
    if is_binary || start.starts_with(b"-----BEGIN CERTIFICATE-----") {
        return Ok(String::new());
    }
    let bytes = read_bounded(file, MAX_LEN).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| not_utf8())?;
    // pip uses the encoding that such a line declares.
    let mut declarations = text.lines().take(2).map(str::to_ascii_lowercase).filter(|line| line.contains("coding"));
    if declarations.any(|line| !line.contains("utf-8") && !line.contains("utf8")) {
        return Err("declares an encoding that is not known to be UTF-8".to_owned());
    }
    let ends_a_line = |character: char| character != '\n' && PYTHON_LINE_ENDS.contains(&character);
    if text.replace("\r\n", "\n").contains(ends_a_line) {
        return Err("contains a character that ends a line only for some programs".to_owned());
    }
    if lines_of(&text).any(|line| quoted_in(line).is_none()) {
        return Err("contains a quote within a word".to_owned());
    }
    // Variables, escaped characters, and lines that are continued.
    let special = lines_of(&text).flat_map(str::chars).find(|character| ['$', '\\'].contains(character));
    match special {
        Some(character) => Err(format!("contains `{character}`")),
        None => Ok(text),
    }
}

/// Returns the texts in quotes, or `None` if a quote is within a word, where pip joins the parts like a shell does.
fn quoted_in(line: &str) -> Option<Vec<&str>> {
    let is_outside = |character: Option<char>, separators: &str| {
        character.is_none_or(|character| character.is_whitespace() || separators.contains(character))
    };
    let mut quoted = Vec::new();
    // A comment may contain single quotes.
    let mut rest = line.split(" #").next().unwrap_or_default();
    while let Some(start) = rest.find(['"', '\'']) {
        let (before, after) = rest.split_at_checked(start)?;
        let quote = after.chars().next()?;
        let after = after.strip_prefix(quote)?;
        let (text, after) = after.split_once(quote)?;
        let is_key = after.starts_with(": ") || after == ":";
        if !is_outside(before.chars().next_back(), "=,[{(") || !is_key && !is_outside(after.chars().next(), ",]});") {
            return None;
        }
        quoted.push(text);
        rest = after;
    }
    Some(quoted)
}

fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with(['#', ';']))
}

/// Returns everything in a text that an installer could take for a path, relative to this directory, to the root
/// directory or to the home directory, or as a URL. Missing paths are harmless if only root can create them. Home
/// directories of named users are an error.
fn paths_in(text: &str, dir: &Path) -> Result<Vec<PathBuf>, String> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let mut paths: Vec<PathBuf> = Vec::new();
    for line in lines_of(text) {
        // `~=` compares versions.
        let line = line.replace("~=", "==");
        let quoted = quoted_in(&line).unwrap_or_default().into_iter().map(str::to_owned);
        for word in words_in(&line).into_iter().chain(quoted) {
            match word.strip_prefix('~') {
                Some("") => paths.push(home.clone()),
                Some(rest) => match rest.strip_prefix('/') {
                    Some(rest) => paths.push(home.join(rest)),
                    None => return Err(format!("contains `{}`", word.printable())),
                },
                None => paths.push(dir.join(&word)),
            }
            paths.extend(word.find('/').and_then(|start| word.get(start..)).map(PathBuf::from));
        }
        // Commands run in the root directory.
        let value = line.split_once('=').map_or(line.as_str(), |(_, value)| value);
        paths.extend(words_in(value).into_iter().map(|word| Path::new("/").join(word)));
    }
    // Only root can change the root directory itself.
    paths.retain(|path| path.parent().is_some());
    Ok(paths)
}

/// Returns the words and the whole values of a line.
fn words_in(line: &str) -> BTreeSet<String> {
    const SEPARATORS: [char; 12] = ['=', ',', ';', '"', '\'', '[', ']', '{', '}', '(', ')', '@'];
    let values = line.split_once('=').map(|(_, value)| value).into_iter().chain([line]);
    let pieces = values.flat_map(|value| value.split(SEPARATORS).chain([value]));
    // A fragment follows the path of a URL.
    let pieces = pieces.flat_map(|piece| [piece, piece.split('#').next().unwrap_or_default()]);
    // Only an existing path may contain a space before a slash.
    let is_one = |piece: &&str| !piece.contains(" /") || Path::new(piece).exists();
    let words = pieces.flat_map(|piece| piece.split_whitespace().chain(Some(piece.trim()).filter(is_one)));
    // A value may follow the letter of an option.
    let of_option = |word: &str| word.strip_prefix('-').and_then(|rest| rest.get(1..)).map(str::to_owned);
    let decoded = |word: &str| percent_decode_str(word).decode_utf8_lossy().into_owned();
    let words = words.flat_map(|word| of_option(word).into_iter().chain([word.to_owned(), decoded(word)]));
    words.map(|word| word.replace("//localhost/", "///")).filter(|word| !word.is_empty()).collect()
}

#[cfg(all(test, unix))]
mod tests;
