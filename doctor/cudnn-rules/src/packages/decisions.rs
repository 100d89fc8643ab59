//! What the user has decided about versions: constraints and overrides of uv, constraints of pip, and pins of conda. A
//! change that contradicts them fails, or is undone later.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_frameworks::{applies, exclude_each_other, normalized};
use cudnn_probe::{facts, read_bounded};
use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::conda::workspace_of_pixi;
use super::environment::{python_in, root_of, version_name};
use super::requirement::package_name;
use super::restore::dotted;
use super::settings::{pip_settings, uv_settings};
use super::{PackageChange, Pip, Site, uv};

/// The maximum length of a file with decisions in bytes.
const MAX_LEN: u64 = 1 << 20;

/// A requirement that the user has written, and where.
#[derive(Clone, Debug)]
struct Decision {
    file: PathBuf,
    requirement: String,
    kind: DecisionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecisionKind {
    Constraint,
    /// uv replaces all other requirements of the package by this one, so that it installs none if the marker of this one
    /// does not apply.
    Override,
    /// uv installs no version.
    Exclusion,
}

/// Returns the decision that forbids a change, as a clause: `/x/pyproject.toml decides nvidia-cudnn-cu12<9.19`.
pub fn forbidding(change: &PackageChange) -> Option<String> {
    let root = match &change.site {
        Site::Environment(root) | Site::Interpreter { root, .. } | Site::Conda(root) => Some(root.as_path()),
        Site::Directory { pip: Pip::Environment(root), .. } => Some(root.as_path()),
        Site::Directory { pip: Pip::Interpreter(program), .. } => root_of(program),
        Site::Directory { pip: Pip::Any, .. } | Site::OnPath | Site::NewEnvironment { .. } | Site::System => None,
    };
    let decisions = match (&change.site, change.site.python_root().filter(|root| uv::serves(root))) {
        (Site::System, _) => return None,
        (Site::Conda(root), _) => {
            let pinned = decisions_in(&root.join("conda-meta/pinned"));
            let of_conda = |pin: Decision| Decision { requirement: of_conda(&pin.requirement), ..pin };
            pinned.into_iter().chain(pixi_decisions(root)).map(of_conda).collect()
        }
        (_, Some(root)) => uv_decisions(root),
        (site, None) => match redirection(root, matches!(site, Site::Directory { .. })) {
            Some(redirection) => return Some(redirection),
            None => pip_decisions(root),
        },
    };
    let python = root.and_then(python_version);
    let forbids = |wanted: &str, decision: &&Decision| {
        normalized(package_name(wanted)) == normalized(package_name(&decision.requirement))
            && match (decision.kind, applies(&decision.requirement, python)) {
                (DecisionKind::Exclusion, _) => true,
                (kind, false) => kind == DecisionKind::Override,
                (_, true) => alternatives(&decision.requirement)
                    .iter()
                    .all(|versions| exclude_each_other(&with_known_versions(wanted), versions)),
            }
    };
    change.installed().find_map(|wanted| {
        let decision = decisions.iter().find(|decision| forbids(wanted, decision))?;
        let verb = if decision.kind == DecisionKind::Exclusion { "excludes" } else { "decides" };
        Some(format!("{} {verb} {}", decision.file.printable(), decision.requirement.printable()))
    })
}

/// Adds to a requirement without a version what is known about all versions of the wheel: those of CUDA's libraries start
/// with the CUDA release in the name, and only cuDNN 9 solves a finding, unless the remedy names another version.
fn with_known_versions(wanted: &str) -> String {
    const OF_CUDA: [&str; 3] = ["nvidia-cublas-cu", "nvidia-cuda-nvrtc-cu", "nvidia-cuda-runtime-cu"];
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |start: &str| wanted.strip_prefix(start).filter(is_number);
    match (OF_CUDA.into_iter().find_map(number), number("nvidia-cudnn-cu")) {
        (Some(cuda), _) => format!("{wanted}=={cuda}.*"),
        (None, Some(_)) => format!("{wanted}>=9"),
        (None, None) => wanted.to_owned(),
    }
}

/// Returns the version of the Python in the environment at this root, as far as names of files show it.
fn python_version(root: &Path) -> Option<(u32, u32)> {
    let version = dotted(version_name(&python_in(root), root)?.to_str()?);
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the decisions in the project that contains the environment, in the project of the working directory, where the
/// printed command runs, in uv's configuration, and in the files that uv's variables name.
fn uv_decisions(root: &Path) -> Vec<Decision> {
    let in_variable = |name: &str, kind| {
        let files = files_of_variable(name).into_iter().flat_map(|file| decisions_in(&file));
        files.map(move |decision| Decision { kind, ..decision }).collect::<Vec<_>>()
    };
    let kinds = [
        (DecisionKind::Override, "UV_OVERRIDE", "override-dependencies"),
        (DecisionKind::Constraint, "UV_CONSTRAINT", "constraint-dependencies"),
        (DecisionKind::Exclusion, "UV_EXCLUDE", "exclude-dependencies"),
    ];
    let mut found: Vec<Decision> = kinds.into_iter().flat_map(|(kind, name, _)| in_variable(name, kind)).collect();
    let working_dir = facts::current_dir().ok();
    let above = [root.parent(), working_dir.as_deref()].into_iter().flatten();
    let in_dir = |dir: &Path| ["uv.toml", "pyproject.toml"].into_iter().find_map(|name| uv_file(dir.join(name)));
    let projects = above.filter_map(|dir| dir.ancestors().find_map(in_dir));
    let mut read = BTreeSet::new();
    // uv reads nothing else then.
    let value = |name| facts::variable(name).filter(|value| !value.is_empty());
    let files: Vec<(PathBuf, Table)> = match value("UV_CONFIG_FILE") {
        Some(file) => uv_file(file.into()).into_iter().collect(),
        None if value("UV_NO_CONFIG").is_some_and(|value| value == "1" || value == "true") => Vec::new(),
        None => projects.chain(uv_settings().into_iter().filter_map(uv_file)).collect(),
    };
    for (file, settings) in files {
        if !read.insert(file.clone()) {
            continue;
        }
        for (kind, _, key) in kinds {
            let requirements = settings.get(key).and_then(Item::as_array).into_iter().flatten();
            found.extend(requirements.filter_map(|one| one.as_str()).map(|requirement| Decision {
                file: file.clone(),
                requirement: requirement.trim().to_owned(),
                kind,
            }));
        }
    }
    found
}

/// Returns uv's settings in this file. `None` if it contains none.
fn uv_file(file: PathBuf) -> Option<(PathBuf, Table)> {
    let mut settings = table(&file)?;
    if file.ends_with("pyproject.toml") {
        settings = settings.get("tool")?.as_table_like()?.get("uv")?.clone().into_table().ok()?;
    }
    Some((file, settings))
}

/// Parses a TOML file.
fn table(file: &Path) -> Option<Table> {
    Some(text(file)?.parse::<DocumentMut>().ok()?.as_table().clone())
}

/// Returns the versions in the manifest of the pixi environment at this root. `pixi add` would replace them.
fn pixi_decisions(root: &Path) -> Vec<Decision> {
    let mut found = Vec::new();
    let Some(dir) = workspace_of_pixi(root) else { return found };
    for file in ["pixi.toml", "pyproject.toml"].map(|name| dir.join(name)) {
        let Some(manifest) = table(&file) else { continue };
        let tables = if file.ends_with("pixi.toml") {
            Some(&manifest as &dyn TableLike)
        } else {
            manifest.get("tool").and_then(|tool| tool.get("pixi")).and_then(Item::as_table_like)
        };
        let mut tables: Vec<&dyn TableLike> = tables.into_iter().collect();
        while let Some(table) = tables.pop() {
            for (name, inner) in table.iter().filter_map(|(name, value)| Some((name, value.as_table_like()?))) {
                if !name.ends_with("dependencies") {
                    tables.push(inner);
                    continue;
                }
                // `"9.10.*"` or `{ version = "9.10.*", channel = "conda-forge" }`
                found.extend(inner.iter().map(|(package, value)| {
                    let version = value.as_str().or_else(|| value.get("version")?.as_str()).unwrap_or_default();
                    let requirement = format!("{package} {version}");
                    Decision { file: file.clone(), requirement, kind: DecisionKind::Constraint }
                }));
            }
        }
    }
    found
}

/// Returns the setting by which the pip of the Python with this prefix would change another place or other packages, as a
/// clause. The commands ignore such variables, but not the files, unless they name a directory themselves.
fn redirection(prefix: Option<&Path>, has_directory: bool) -> Option<String> {
    const OF_PLACE: [&str; 4] = ["prefix", "python", "root", "target"];
    const OF_PACKAGES: [&str; 3] = ["editable", "group", "requirement"];
    pip_settings(prefix).into_iter().find_map(|file| {
        let text = text(&file)?;
        let (key, value, changed) = values(&text).into_iter().find_map(|(key, value)| match key.as_str() {
            "target" if has_directory => None,
            name if OF_PLACE.contains(&name) => Some((key, value, "another place")),
            name if OF_PACKAGES.contains(&name) => Some((key, value, "other packages, too")),
            _ => None,
        })?;
        let line = format!("{key} = {value}").printable();
        Some(format!("{} has `{line}`, so that pip would change {changed}", file.printable()))
    })
}

/// Returns the decisions in the files that pip's variable and configuration name.
fn pip_decisions(prefix: Option<&Path>) -> Vec<Decision> {
    let in_settings = pip_settings(prefix).into_iter().filter_map(|file| text(&file)).flat_map(|text| {
        let constraints = values(&text).into_iter().filter(|(key, _)| *key == "constraint");
        constraints
            .flat_map(|(_, value)| value.split_whitespace().map(|file| without_scheme(file).into()))
            .collect::<Vec<PathBuf>>()
    });
    files_of_variable("PIP_CONSTRAINT").into_iter().chain(in_settings).flat_map(|file| decisions_in(&file)).collect()
}

/// Returns the values in pip's configuration that `pip install` reads with their keys, as Python's `configparser` reads
/// them: a line with more indentation than the key above continues its value.
fn values(text: &str) -> Vec<(String, &str)> {
    let mut values = Vec::new();
    let mut above: Option<(String, usize)> = None;
    let mut is_read = true;
    for line in text.lines() {
        let content = line.trim();
        let indent = line.len() - line.trim_start().len();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        match &above {
            Some((key, indent_of_key)) if indent > *indent_of_key => {
                values.extend(is_read.then(|| (key.clone(), content)));
            }
            _ if content.starts_with('[') => {
                above = None;
                is_read = content.starts_with("[global]") || content.starts_with("[install]");
            }
            _ => {
                let pair = content.split_once(['=', ':']);
                let pair = pair.map(|(key, value)| (key.trim().to_lowercase().replace('_', "-"), value.trim()));
                above = pair.as_ref().map(|(key, _)| (key.clone(), indent));
                values.extend(pair.filter(|_| is_read));
            }
        }
    }
    values.retain(|(_, value)| !value.is_empty());
    values
}

/// Returns the files in a variable, which are separated by spaces.
fn files_of_variable(name: &str) -> Vec<PathBuf> {
    let value = facts::variable(name).unwrap_or_default().to_string_lossy().into_owned();
    value.split_whitespace().map(|file| without_scheme(file).into()).collect()
}

/// Returns the text of a file. Requirements are ASCII, but comments may have any encoding.
fn text(file: &Path) -> Option<String> {
    Some(decoded(&read_bounded(file, MAX_LEN).ok()?))
}

/// Decodes a text in the encoding of its byte order mark, like pip, or else in UTF-8.
fn decoded(bytes: &[u8]) -> String {
    let of_16 = |rest: &[u8], number: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = rest.as_chunks().0.iter().copied().map(number).collect();
        String::from_utf16_lossy(&units)
    };
    let of_32 = |rest: &[u8], number: fn([u8; 4]) -> u32| -> String {
        let units = rest.as_chunks().0.iter().copied().map(number);
        units.map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    match bytes {
        [0xff, 0xfe, 0, 0, rest @ ..] => of_32(rest, u32::from_le_bytes),
        [0, 0, 0xfe, 0xff, rest @ ..] => of_32(rest, u32::from_be_bytes),
        [0xff, 0xfe, rest @ ..] => of_16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => of_16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => String::from_utf8_lossy(rest).into_owned(),
    }
}

/// Replaces variables such as `${HOME}` in a line, like pip. Unset ones stay.
fn expanded(line: &str) -> String {
    let mut pieces = line.split("${");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let is_name = |name: &str| {
            let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            !name.is_empty() && name.chars().all(is_of_name)
        };
        let named = piece.split_once('}').filter(|(name, _)| is_name(name));
        let value = named.and_then(|(name, rest)| Some((facts::variable(name)?.into_string().ok()?, rest)));
        match value.filter(|(value, _)| !value.is_empty()) {
            Some((value, rest)) => text.extend([value.as_str(), rest]),
            None => text.extend(["${", piece]),
        }
    }
    text
}

/// Returns the decisions in a file with one requirement per line, and in the files that it names with `-c` or `-r`.
fn decisions_in(file: &Path) -> Vec<Decision> {
    /// More files than a person writes.
    const MAX_FILES: usize = 32;
    let mut found = Vec::new();
    let mut files = vec![file.to_owned()];
    let mut read = BTreeSet::new();
    while let Some(file) = files.pop() {
        if read.len() >= MAX_FILES || !read.insert(file.clone()) {
            continue;
        }
        for line in joined_lines(&text(&file).unwrap_or_default()) {
            // A comment is a word of its own, because URLs contain this character, too.
            let line = line.as_str();
            let mut before = line.match_indices('#').map(|(at, _)| line.get(..at).unwrap_or_default());
            let line = expanded(before.find(|text| text.is_empty() || text.ends_with([' ', '\t'])).unwrap_or(line));
            let line = line.split(" --").next().unwrap_or_default().trim();
            let of_file =
                ["-c", "-r", "--constraint", "--requirement"].iter().find_map(|option| line.strip_prefix(option));
            if let Some(other) = of_file {
                let other = other.trim_start_matches([' ', '\t', '=']);
                files.extend(file.parent().map(|dir| dir.join(without_scheme(other))));
            } else if !line.is_empty() && !line.starts_with('-') {
                let requirement = of_wheel(line).unwrap_or_else(|| line.to_owned());
                found.push(Decision { file: file.clone(), requirement, kind: DecisionKind::Constraint });
            }
        }
    }
    found
}

/// Returns the requirement of a line that is only the path or URL of a wheel: `name @ URL`.
fn of_wheel(line: &str) -> Option<String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-[], ".contains(c);
    let is_named = line.split_once('@').is_some_and(|(name, _)| name.chars().all(is_of_name));
    let (name, _) = name_and_version(line)?;
    (!is_named).then(|| format!("{name} @ {line}"))
}

/// Returns the name and the version in the name of the wheel at the end of a path or URL.
fn name_and_version(place: &str) -> Option<(&str, &str)> {
    let path = place.split([';', '?', '#']).next()?.trim();
    let mut parts = path.rsplit(['/', '\\']).next()?.strip_suffix(".whl")?.split('-');
    Some((parts.next()?, parts.next()?))
}

/// Returns the requirements with versions that one states, of which conda separates several by `|`. If it names a wheel,
/// that is the wheel's version. None if it names another file or URL, whose version is unknown.
fn alternatives(requirement: &str) -> Vec<String> {
    if let Some((name, place)) = requirement.split(';').next().and_then(|requirement| requirement.split_once('@')) {
        let version = name_and_version(place).map(|(_, version)| version);
        return version.map(|version| format!("{}=={version}", name.trim())).into_iter().collect();
    }
    let mut versions = requirement.split('|');
    let first = versions.next().unwrap_or_default();
    let name = package_name(first);
    std::iter::once(first.to_owned()).chain(versions.map(|version| format!("{name} {version}"))).collect()
}

/// Returns the name and the versions in a specification of conda, without the build: `cudnn 8.9.*` for `cudnn=8.9=h1_0`.
fn of_conda(specification: &str) -> String {
    let name = package_name(specification);
    let rest = specification.split_once(name).map_or("", |(_, rest)| rest).trim();
    let in_brackets = rest
        .split_once("version=")
        .and_then(|(_, version)| version.split(['"', '\'', ',', ']']).find(|part| !part.is_empty()));
    let version = match (in_brackets, rest.strip_prefix("==")) {
        (Some(version), _) => version.to_owned(),
        (None, Some(exact)) => format!("=={}", exact.split([' ', '=']).next().unwrap_or_default()),
        (None, None) => match rest.strip_prefix('=') {
            Some(start) => format!("{}.*", start.split([' ', '=']).next().unwrap_or_default().trim_end_matches(".*")),
            None => rest.split(' ').next().unwrap_or_default().to_owned(),
        },
    };
    format!("{name} {version}")
}

/// Returns the lines of a file with requirements. A backslash continues a line, except for a comment.
fn joined_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut start = String::new();
    for line in text.lines() {
        let is_comment = line.trim_start().starts_with('#');
        match line.strip_suffix('\\').filter(|_| !is_comment) {
            Some(part) => start = format!("{start}{part} "),
            None if is_comment => lines.push(std::mem::take(&mut start)),
            None => lines.push(std::mem::take(&mut start) + line),
        }
    }
    lines.push(start);
    lines
}

/// Returns the path of a `file:` URL. Other text stays the same.
fn without_scheme(file: &str) -> &str {
    let prefixes = ["file://localhost/", "file:///", "file:/"];
    let path = prefixes.iter().find_map(|prefix| Some(file.strip_prefix(prefix)?.len() + 1));
    path.and_then(|len| file.get(file.len() - len..)).unwrap_or(file)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test writes the files that the rules read")]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
