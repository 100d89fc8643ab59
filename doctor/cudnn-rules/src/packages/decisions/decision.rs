//! A requirement that the user has written, and whether it forbids a version.

use std::path::{Path, PathBuf};

use cudnn_frameworks::{applies, exclude_each_other, normalized};

use crate::packages::requirement::package_name;

/// A requirement that the user has written, and where.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) file: PathBuf,
    pub(super) requirement: String,
    pub(super) kind: DecisionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionKind {
    Constraint,
    /// uv replaces all other requirements of the package by this one, so that it installs none if the marker of this one
    /// does not apply.
    Override,
    /// uv installs no version.
    Exclusion,
    /// The manifest of pixi states something that `pixi add` would remove.
    Manifest,
    /// The file does not exist, so that pip and uv install nothing.
    MissingFile,
}

impl Decision {
    /// Returns the constraint in this file.
    pub(super) fn constraint(file: &Path, requirement: String) -> Decision {
        Decision { file: file.to_owned(), requirement, kind: DecisionKind::Constraint }
    }

    /// Returns the decision of a setting that names a file without creating it.
    pub(super) fn missing(file: &Path) -> Decision {
        Decision { file: file.to_owned(), requirement: String::new(), kind: DecisionKind::MissingFile }
    }

    /// Returns whether the decision excludes all versions of a requirement in an environment with this version of Python.
    pub(super) fn forbids(&self, wanted: &str, python: Option<&str>) -> bool {
        self.kind == DecisionKind::MissingFile
            || normalized(package_name(wanted)) == normalized(package_name(&self.requirement))
                && match (self.kind, applies(&self.requirement, python)) {
                    (DecisionKind::Exclusion | DecisionKind::MissingFile, _) => true,
                    (kind, false) => kind == DecisionKind::Override,
                    (_, true) => alternatives(&self.requirement)
                        .iter()
                        .all(|versions| exclude_each_other(&with_known_versions(wanted), versions)),
                }
    }
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

/// Returns the name and the version in the name of the wheel at the end of a path or URL.
pub(super) fn name_and_version(place: &str) -> Option<(&str, &str)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_of_conda_may_have_alternatives() {
        assert_eq!(alternatives("cudnn 7.*|8.*"), ["cudnn 7.*", "cudnn 8.*"]);
        for (pin, is_excluded) in [("cudnn 7.*|8.*", true), ("cudnn 8.*|9.*", false), ("cudnn ", false)] {
            let pin = Decision::constraint(Path::new("pinned"), pin.to_owned());
            assert_eq!(pin.forbids("cudnn>=9", None), is_excluded, "{}", pin.requirement);
        }
    }
}
