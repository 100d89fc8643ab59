//! What the user has decided about versions: constraints and overrides of uv, constraints of pip, and pins of conda. A
//! change that contradicts them fails, or is undone later.

mod conda;
mod decision;
mod pip;
mod requirements_file;
mod uv;

use std::path::Path;

use cudnn_cli::escape::Printable;

use super::environment::{python_in, root_of, version_name};
use super::restore::dotted;
use super::{PackageChange, Pip, Site};
use decision::DecisionKind;

/// Returns the decision that forbids a change, as a clause: `/x/pyproject.toml decides nvidia-cudnn-cu12<9.19`.
pub fn forbidding(change: &PackageChange) -> Option<String> {
    let root = match &change.site {
        Site::Environment(root) | Site::Interpreter { root, .. } | Site::Conda(root) => Some(root.as_path()),
        Site::Directory { pip: Pip::Environment(root), .. } => Some(root.as_path()),
        Site::Directory { pip: Pip::Interpreter(program), .. } => root_of(program),
        Site::Directory { pip: Pip::Any, .. } | Site::OnPath | Site::NewEnvironment { .. } | Site::System => None,
    };
    let decisions = match (&change.site, change.site.python_root().filter(|root| super::uv::serves(root))) {
        (Site::System, _) => return None,
        (Site::Conda(root), _) => conda::decisions(root),
        (_, Some(root)) => uv::decisions(root),
        (site, None) => match pip::redirection(root, matches!(site, Site::Directory { .. })) {
            Some(redirection) => return Some(redirection),
            None => pip::decisions(root),
        },
    };
    let python = root.and_then(python_version);
    change.installed().find_map(|wanted| {
        let decision = decisions.iter().find(|decision| decision.forbids(wanted, python))?;
        let verb = if decision.kind == DecisionKind::Exclusion { "excludes" } else { "decides" };
        Some(format!("{} {verb} {}", decision.file.printable(), decision.requirement.printable()))
    })
}

/// Returns the version of the Python in the environment at this root, as far as names of files show it.
fn python_version(root: &Path) -> Option<(u32, u32)> {
    let version = dotted(version_name(&python_in(root), root)?.to_str()?);
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test writes the files that the rules read")]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
