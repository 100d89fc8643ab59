//! What the user has decided in pip's variable and configuration.

use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_probe::facts;

use super::decision::Decision;
use super::requirements_file::{decisions_in_files, text};
use crate::packages::settings::pip_settings;

/// Returns the setting by which the pip of the Python with this prefix would change another place or other packages, as a
/// clause. The commands ignore such variables, but not the files, unless they name a directory themselves.
pub(super) fn redirection(prefix: Option<&Path>, has_directory: bool) -> Option<String> {
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
pub(super) fn decisions(prefix: Option<&Path>) -> Vec<Decision> {
    let in_variable = facts::variable("PIP_CONSTRAINT").unwrap_or_default();
    let texts: Vec<String> = pip_settings(prefix).iter().filter_map(|file| text(file)).collect();
    let in_settings = texts.iter().flat_map(|text| values(text)).filter(|(key, _)| key == "constraint");
    let in_settings = in_settings.flat_map(|(_, files)| decisions_in_files(files));
    decisions_in_files(&in_variable.to_string_lossy()).into_iter().chain(in_settings).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_continue_on_indented_lines() {
        let text = "[wheel]\nconstraint = /no\n  /no\n[global]\nConstraint =\n    /a.txt\n\t/b.txt\n    # /old.txt\nprefix = /x\n# no value\n";
        let expected = [("constraint", "/a.txt"), ("constraint", "/b.txt"), ("prefix", "/x")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value)).to_vec();
        assert_eq!(values(text), expected);
        let indented = "  [install]\n  constraint: /a.txt\n   /b.txt\n  prefix = /x\n[global]\n  no_deps = 1\n";
        assert_eq!(values(indented), [expected, vec![("no-deps".to_owned(), "1")]].concat());
    }
}
