//! What the user has decided about versions: constraints and overrides of uv, constraints of pip, pins of conda, and holds of
//! apt. A change that contradicts them fails, or is undone later.

mod apt;
mod conda;
mod decision;
mod pip;
mod requirements_file;
mod uv;

use std::path::Path;

use cudnn_cli::escape::Printable;

use super::environment::{python_in, root_of, setting, version_name};
use super::restore::dotted;
use super::{PackageChange, Pip, Site};
use decision::{Decision, DecisionKind};
pub use uv::uv_project_settings;

/// Returns the decision that forbids a change, as a clause: `/x/pyproject.toml decides nvidia-cudnn-cu12<9.19`.
pub fn forbidding(change: &PackageChange) -> Option<String> {
    let root = match &change.site {
        Site::Environment(root) | Site::Interpreter { root, .. } | Site::Conda(root) => Some(root.as_path()),
        Site::Directory { pip: Pip::Environment(root), .. } => Some(root.as_path()),
        Site::Directory { pip: Pip::Interpreter(program), .. } => root_of(program),
        Site::Directory { pip: Pip::Any, .. } | Site::OnPath | Site::NewEnvironment { .. } | Site::System => None,
    };
    let has_directory = matches!(change.site, Site::Directory { .. });
    let of_uv = change.site.python_root().filter(|root| super::uv::serves(root));
    let redirection = match (&change.site, of_uv) {
        (Site::System | Site::Conda(_), _) => None,
        (_, Some(root)) => uv::redirection(root, has_directory),
        (_, None) => pip::redirection(root, has_directory),
    };
    if redirection.is_some() {
        return redirection;
    }
    let decisions = match (&change.site, of_uv) {
        (Site::System, _) => return apt::hold(change),
        (Site::Conda(root), _) => conda::decisions(root),
        (_, Some(root)) => uv::decisions(root),
        (_, None) => pip::decisions(root),
    };
    let python = root.and_then(python_version);
    change.installed().find_map(|wanted| {
        // To install a package again, no manifest is edited.
        let is_edited = change.install.contains(wanted);
        let concerns = |decision: &&Decision| is_edited || decision.kind != DecisionKind::Manifest;
        let decision =
            decisions.iter().filter(concerns).find(|decision| decision.forbids(wanted, python.as_deref()))?;
        let (file, requirement) = (decision.file.printable(), decision.requirement.printable());
        Some(match decision.kind {
            DecisionKind::Exclusion => format!("{file} excludes {requirement}"),
            DecisionKind::MissingFile => format!("{file} does not exist, but a setting of pip or uv names it"),
            DecisionKind::Constraint | DecisionKind::Manifest | DecisionKind::Override => {
                format!("{file} decides {requirement}")
            }
        })
    })
}

/// Returns the version of the Python in the environment at this root, as far as its settings or names of files show it:
/// `3.12.1` or `3.12`.
fn python_version(root: &Path) -> Option<String> {
    let stated = setting(root, "version").or_else(|| setting(root, "version_info"));
    // virtualenv writes `3.12.1.final.0`.
    let stated = stated.map(|version| version.split('.').take(3).collect::<Vec<_>>().join("."));
    stated.or_else(|| Some(dotted(version_name(&python_in(root), root)?.to_str()?)))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test writes the files that the rules read")]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
