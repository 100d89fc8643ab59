//! What the user has decided about versions: constraints and overrides of uv, constraints of pip, and pins of conda. A
//! change that contradicts them fails, or is undone later.

use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_frameworks::{exclude_each_other, normalized};
use cudnn_probe::{facts, read_bounded};

use super::requirement::package_name;
use super::settings::pip_settings;
use super::{PackageChange, Site, uv};

/// The maximum length of a file with decisions in bytes.
const MAX_LEN: u64 = 1 << 20;

/// A requirement that the user has written, and where.
#[derive(Debug)]
struct Decision {
    file: PathBuf,
    requirement: String,
}

/// Returns the decision that forbids a change, as a clause: `/x/pyproject.toml decides nvidia-cudnn-cu12<9.19`.
pub(crate) fn forbidding(change: &PackageChange) -> Option<String> {
    if let Some(redirection) = redirection(&change.site) {
        return Some(redirection);
    }
    let decisions = decisions(&change.site);
    let forbids = |wanted: &String, decision: &&Decision| {
        normalized(package_name(wanted)) == normalized(package_name(&decision.requirement))
            && exclude_each_other(wanted, &decision.requirement)
    };
    change.install.iter().find_map(|wanted| {
        let decision = decisions.iter().find(|decision| forbids(wanted, decision))?;
        Some(format!("{} decides {}", decision.file.printable(), decision.requirement.printable()))
    })
}

fn decisions(site: &Site) -> Vec<Decision> {
    match site {
        Site::Environment(root) if uv::serves(root) => uv_decisions(root),
        Site::Environment(root) | Site::Interpreter { root, .. } => pip_decisions(Some(root)),
        Site::OnPath | Site::NewEnvironment { .. } => pip_decisions(None),
        Site::Conda(root) => decisions_in(&root.join("conda-meta/pinned")),
        Site::Directory { .. } | Site::System => Vec::new(),
    }
}

/// Returns the decisions in the project that contains the environment, and in the files that uv's variables name.
fn uv_decisions(root: &Path) -> Vec<Decision> {
    let variables = ["UV_OVERRIDE", "UV_CONSTRAINT"].into_iter().flat_map(files_of_variable);
    let mut found: Vec<Decision> = variables.flat_map(|file| decisions_in(&file)).collect();
    for dir in root.ancestors().skip(1) {
        let of_project = ["uv.toml", "pyproject.toml"].map(|name| dir.join(name));
        let project = of_project.iter().find_map(|file| Some((file, text(file)?)));
        if let Some((file, text)) = project {
            let table = if file.ends_with("uv.toml") { "" } else { "tool.uv" };
            let lists = ["override-dependencies", "constraint-dependencies"].map(|key| list(&text, table, key));
            found.extend(lists.concat().into_iter().map(|requirement| Decision { file: file.clone(), requirement }));
            break;
        }
    }
    found
}

/// Returns the setting by which pip would change another place or other packages, as a clause. The commands ignore such variables, but not
/// the files.
fn redirection(site: &Site) -> Option<String> {
    const OF_PLACE: [&str; 4] = ["prefix", "python", "root", "target"];
    const OF_PACKAGES: [&str; 3] = ["editable", "group", "requirement"];
    let root = match site {
        Site::Environment(root) if !uv::serves(root) => root,
        Site::Interpreter { root, .. } => root,
        _ => return None,
    };
    pip_settings(Some(root)).into_iter().find_map(|file| {
        let text = text(&file)?;
        let (line, changed) = text.lines().find_map(|line| match key_and_value(line)?.0 {
            key if OF_PLACE.contains(&key) => Some((line, "another place")),
            key if OF_PACKAGES.contains(&key) => Some((line, "other packages, too")),
            _ => None,
        })?;
        let line = line.trim().printable();
        Some(format!("{} has `{line}`, so that pip would change {changed}", file.printable()))
    })
}

/// Parses a line of pip's configuration.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    Some((key.trim(), value.trim()))
}

/// Returns the decisions in the files that pip's variable and configuration name.
fn pip_decisions(root: Option<&Path>) -> Vec<Decision> {
    let constraints = pip_settings(root).into_iter().filter_map(|file| text(&file)).flat_map(|text| {
        let values = text.lines().filter_map(key_and_value).filter(|(key, _)| *key == "constraint");
        values
            .flat_map(|(_, value)| value.split_whitespace().map(PathBuf::from).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    });
    files_of_variable("PIP_CONSTRAINT").into_iter().chain(constraints).flat_map(|file| decisions_in(&file)).collect()
}

/// Returns the files in a variable, which are separated by spaces.
fn files_of_variable(name: &str) -> Vec<PathBuf> {
    let value = facts::variable(name).unwrap_or_default().to_string_lossy().into_owned();
    value.split_whitespace().map(PathBuf::from).collect()
}

fn text(file: &Path) -> Option<String> {
    String::from_utf8(read_bounded(file, MAX_LEN).ok()?).ok()
}

/// Returns the decisions in a file with one requirement per line.
fn decisions_in(file: &Path) -> Vec<Decision> {
    let text = text(file).unwrap_or_default();
    let lines = text.lines().map(|line| line.split(['#', ';']).next().unwrap_or_default().trim());
    let requirements = lines.filter(|line| !line.is_empty() && !line.starts_with('-'));
    requirements.map(|line| Decision { file: file.to_owned(), requirement: line.to_owned() }).collect()
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
        found.push(item.split(';').next().unwrap_or_default().trim().to_owned());
        rest = left;
    }
    found
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_uv_are_found_in_their_table() {
        let text = "[project]\nconstraint-dependencies = [\"a\"]\n[tool.uv]\n# constraint-dependencies = [\"b\"]\n\
                    constraint-dependencies = [\n  \"x[y]<2; python_version > '3'\", # c ]\n  'z==1',\n]\n[tool.uv.x]\n";
        assert_eq!(list(text, "tool.uv", "constraint-dependencies"), ["x[y]<2", "z==1"]);
        assert_eq!(list(text, "tool.uv", "override-dependencies"), Vec::<String>::new());
        assert_eq!(list("override-dependencies = [\"a==1\"]", "", "override-dependencies"), ["a==1"]);
        assert_eq!(list("x = [\"a", "", "x"), Vec::<String>::new());
    }
}
