//! Represents a decision of the user, which may forbid versions.

use std::fmt;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_frameworks::{Platform, applies, exclude_each_other, normalized};

use crate::packages::contents::{CONDA_FOLLOWERS, CONDA_LIBRARIES};
use crate::packages::requirement::{package_name, with_known_major};

#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) source: PathBuf,
    /// The requirement. For `NoInstallation` and `NoChange`, the effect of the file as a predicate.
    pub(super) text: String,
    pub(super) kind: DecisionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionKind {
    Constraint,
    /// uv uses this instead of all other requirements of the package. If the markers of all overrides exclude the
    /// environment, it installs no version.
    Override,
    /// uv installs no version.
    Exclusion,
    /// The manifest of pixi contains details that `pixi add` would remove.
    Manifest,
    /// The installer refuses all installations.
    NoInstallation,
    /// The installer refuses all changes, or makes other changes.
    NoChange,
}

impl Decision {
    pub(super) fn constraint(file: &Path, requirement: String) -> Decision {
        Decision { source: file.to_owned(), text: requirement, kind: DecisionKind::Constraint }
    }

    /// Returns the decision of a file with constraints that the installer refuses, with the reason as a predicate.
    pub(super) fn refused_constraints(file: &Path, reason: &str) -> Decision {
        let text = format!("{reason}, so that nothing can be installed");
        Decision { source: file.to_owned(), text, kind: DecisionKind::NoInstallation }
    }

    /// Returns the decision of settings that this installer refuses, with the reason as a predicate.
    pub(super) fn refused_settings(file: &Path, reason: &str, installer: &str) -> Decision {
        let text = format!("{reason}, so that {installer} would fail");
        Decision { source: file.to_owned(), text, kind: DecisionKind::NoChange }
    }

    pub(super) fn redirection(source: &Path, setting: &str, installer: &str, changed: &str) -> Decision {
        let text = format!("has `{}`, so that {installer} would change {changed}", setting.printable());
        Decision { source: source.to_owned(), text, kind: DecisionKind::NoChange }
    }

    /// Like a redirection that concerns only installations.
    pub(super) fn policy(source: &Path, setting: &str, installer: &str, changed: &str) -> Decision {
        Decision { kind: DecisionKind::NoInstallation, ..Decision::redirection(source, setting, installer, changed) }
    }

    /// Returns whether the decision is about this requirement's package, or about a package that conda installs in the
    /// same version.
    fn is_about(&self, wanted: &str) -> bool {
        let [wanted, own] = [wanted, &self.text].map(|requirement| normalized(package_name(requirement)));
        let is_of_conda = |name: &str| name == CONDA_LIBRARIES || CONDA_FOLLOWERS.contains(&name);
        wanted == own || self.kind != DecisionKind::Manifest && is_of_conda(&wanted) && is_of_conda(&own)
    }

    /// Returns whether the decision selects versions of a package that another one requires. Without one, or with an
    /// exclusion, the other is installed alone.
    pub(super) fn narrows(&self, platform: &Platform) -> bool {
        match self.kind {
            DecisionKind::Constraint => true,
            DecisionKind::Override => applies(&self.text, platform, &[]),
            _ => false,
        }
    }

    /// Returns whether the decision, which is one of several, excludes all versions of a requirement on this platform.
    pub(super) fn forbids(&self, wanted: &str, platform: &Platform, all: &[Decision]) -> bool {
        let is_applied = |one: &Decision| one.kind == DecisionKind::Override && applies(&one.text, platform, &[]);
        match self.kind {
            DecisionKind::NoInstallation | DecisionKind::NoChange => true,
            _ if !self.is_about(wanted) => false,
            DecisionKind::Exclusion => true,
            kind if !applies(&self.text, platform, &[]) => {
                let mut others = all.iter().filter(|one| one.is_about(wanted));
                kind == DecisionKind::Override && !others.any(is_applied)
            }
            _ => {
                let wanted = with_known_major(wanted);
                alternatives(&self.text).iter().all(|versions| exclude_each_other(&wanted, versions))
            }
        }
    }
}

/// Writes a clause: `/x/pyproject.toml decides nvidia-cudnn-cu12<9.19`.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.kind {
            DecisionKind::Exclusion => "excludes ",
            DecisionKind::NoInstallation | DecisionKind::NoChange => "",
            DecisionKind::Constraint | DecisionKind::Manifest | DecisionKind::Override => "decides ",
        };
        write!(f, "{} {verb}{}", self.source.printable(), self.text.printable())
    }
}

/// Returns the name and the version of the wheel at the end of a path or URL.
pub(super) fn name_and_version(place: &str) -> Option<(&str, &str)> {
    let path = place.split([';', '?', '#']).next()?.trim();
    let mut parts = path.rsplit(['/', '\\']).next()?.strip_suffix(".whl")?.split('-');
    Some((parts.next()?, parts.next()?))
}

/// Splits a requirement into alternatives with versions, which conda separates by `|`. A wheel's file name contains the
/// version, but for other files and URLs, the version is unknown and the list empty.
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
            assert_eq!(pin.forbids("cudnn>=9", &Platform::default(), &[]), is_excluded, "{}", pin.text);
        }
    }
}
