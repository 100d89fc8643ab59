//! What the user has decided about versions: constraints and overrides of uv, constraints of pip, and pins of conda. A
//! change that contradicts them fails, or is undone later.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_frameworks::{applies, exclude_each_other, normalized};
use cudnn_probe::{facts, read_bounded};

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
    /// Whether uv replaces all other requirements of the package by this one, so that it installs none if the marker of
    /// this one does not apply.
    is_override: bool,
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
            pinned.into_iter().chain(pixi_decisions(root)).collect()
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
            && match applies(&decision.requirement, python) {
                true => exclude_each_other(wanted, &decision.requirement),
                false => decision.is_override,
            }
    };
    change.installed().find_map(|wanted| {
        let decision = decisions.iter().find(|decision| forbids(wanted, decision))?;
        Some(format!("{} decides {}", decision.file.printable(), decision.requirement.printable()))
    })
}

/// Returns the version of the Python in the environment at this root, as far as names of files show it.
fn python_version(root: &Path) -> Option<(u32, u32)> {
    let version = dotted(version_name(&python_in(root), root)?.to_str()?);
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the decisions in the project that contains the environment, in uv's configuration, and in the files that
/// uv's variables name.
fn uv_decisions(root: &Path) -> Vec<Decision> {
    let in_variable = |name: &str, is_override| {
        let files = files_of_variable(name).into_iter().flat_map(|file| decisions_in(&file));
        files.map(move |decision| Decision { is_override, ..decision }).collect::<Vec<_>>()
    };
    let mut found = [in_variable("UV_OVERRIDE", true), in_variable("UV_CONSTRAINT", false)].concat();
    let in_dir = |dir: &Path| {
        ["uv.toml", "pyproject.toml"].map(|name| dir.join(name)).into_iter().find(|file| text(file).is_some())
    };
    let project = root.ancestors().skip(1).find_map(in_dir);
    for file in project.into_iter().chain(uv_settings()) {
        let text = text(&file).unwrap_or_default();
        let table = if file.ends_with("pyproject.toml") { "tool.uv" } else { "" };
        for (key, is_override) in [("override-dependencies", true), ("constraint-dependencies", false)] {
            let requirements = list(&text, table, key).into_iter();
            found.extend(requirements.map(|requirement| Decision { file: file.clone(), requirement, is_override }));
        }
    }
    found
}

/// Returns the versions in the manifest of the pixi environment at this root. `pixi add` would replace them.
fn pixi_decisions(root: &Path) -> Vec<Decision> {
    let mut found = Vec::new();
    for name in ["pixi.toml", "pyproject.toml"] {
        let Some(file) = workspace_of_pixi(root).map(|dir| dir.join(name)) else { continue };
        let text = text(&file).unwrap_or_default();
        let mut is_dependency = false;
        for line in text.lines().map(str::trim) {
            if let Some(table) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
                is_dependency =
                    table.ends_with("dependencies") && (name == "pixi.toml" || table.starts_with("tool.pixi."));
            } else if let Some((package, value)) = line.split_once('=').filter(|_| is_dependency) {
                // `"9.10.*"` or `{ version = "9.10.*", channel = "conda-forge" }`
                let value = value.split_once("version").map_or(value, |(_, version)| version);
                let version = value.split(['"', '\'']).nth(1).unwrap_or_default();
                let requirement = format!("{} {version}", package.trim());
                found.push(Decision { file: file.clone(), requirement, is_override: false });
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

/// Returns the values in pip's configuration with their keys, as Python's `configparser` reads them: a line with more
/// indentation than the key above continues its value.
fn values(text: &str) -> Vec<(String, &str)> {
    let mut values = Vec::new();
    let mut above: Option<(String, usize)> = None;
    for line in text.lines() {
        let content = line.trim();
        let indent = line.len() - line.trim_start().len();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        match &above {
            Some((key, indent_of_key)) if indent > *indent_of_key => values.push((key.clone(), content)),
            _ => {
                let pair = content.split_once(['=', ':']).filter(|_| !content.starts_with('['));
                let pair = pair.map(|(key, value)| (key.trim().to_lowercase().replace('_', "-"), value.trim()));
                above = pair.as_ref().map(|(key, _)| (key.clone(), indent));
                values.extend(pair);
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

fn text(file: &Path) -> Option<String> {
    String::from_utf8(read_bounded(file, MAX_LEN).ok()?).ok()
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
        // A backslash continues a line.
        let text = text(&file).unwrap_or_default().replace("\r\n", "\n").replace("\\\n", " ");
        for line in text.lines() {
            // A comment is a word of its own, because URLs contain this character, too.
            let line =
                if line.trim_start().starts_with('#') { "" } else { line.split(" #").next().unwrap_or_default() };
            let line = line.split(" --").next().unwrap_or_default().trim();
            let of_file =
                ["-c", "-r", "--constraint", "--requirement"].iter().find_map(|option| line.strip_prefix(option));
            if let Some(other) = of_file {
                let other = other.trim_start_matches([' ', '\t', '=']);
                files.extend(file.parent().map(|dir| dir.join(without_scheme(other))));
            } else if !line.is_empty() && !line.starts_with('-') {
                found.push(Decision { file: file.clone(), requirement: line.to_owned(), is_override: false });
            }
        }
    }
    found
}

/// Returns the path of a `file:` URL. Other text stays the same.
fn without_scheme(file: &str) -> &str {
    file.strip_prefix("file://").unwrap_or(file)
}

/// Returns the strings of a list in a TOML file, without reading the rest of the file.
fn list(text: &str, table: &str, key: &str) -> Vec<String> {
    let mut current = String::new();
    let mut lines = text.lines();
    let mut value = String::new();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            current = name.trim().to_owned();
        } else if let Some((name, start)) = line.split_once('=')
            && (current.as_str(), name.trim()) == (table, key)
        {
            let rest = lines.clone().map(without_comment);
            let all = std::iter::once(without_comment(start)).chain(rest);
            for part in all {
                value.push_str(part);
                if part.trim_end().ends_with(']') {
                    break;
                }
            }
            break;
        }
    }
    // Requirements contain no quotes, except in markers, where they are of the other kind.
    let mut found = Vec::new();
    let mut rest = value.as_str();
    while let Some(start) = rest.find(['"', '\'']) {
        let (quote, after) = (rest.get(start..=start).unwrap_or_default(), rest.get(start + 1..).unwrap_or_default());
        let Some((item, left)) = after.split_once(quote) else { break };
        found.push(item.trim().to_owned());
        rest = left;
    }
    found
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test writes the files that the rules read")]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
