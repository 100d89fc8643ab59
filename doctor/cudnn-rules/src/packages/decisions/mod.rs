//! Finds the user's decisions about versions: constraints and overrides of uv, constraints of pip, pins of conda, and
//! holds of apt. A change that contradicts them fails, or is undone later. Unusable settings of the installer also make
//! a change fail.

mod apt;
mod conda;
mod decision;
mod pip;
mod requirements_file;
mod uv;

use std::path::Path;

use cudnn_frameworks::{Environment, Platform};
use cudnn_probe::Host;

use super::environment::root_of;
use super::installed_pip::python_of_pip;
use super::{PackageChange, Pip, Site, contents};
use decision::{Decision, DecisionKind};
pub use requirements_file::PYTHON_LINE_ENDS;
pub use uv::{UV_DIRS, uv_project_settings, uv_working_dir};

/// Returns the decision that forbids a change, as a clause: `/x/pyproject.toml decides nvidia-cudnn-cu12<9.19`.
pub fn forbidding(change: &PackageChange) -> Option<String> {
    if let Some(reason) = change.refused_link().or_else(|| change.read_only_dir()) {
        return Some(reason);
    }
    let root = match &change.site {
        Site::Environment(root) | Site::Interpreter { root, .. } | Site::Conda(root) => Some(root.clone()),
        Site::Directory { pip: Pip::Environment(root), .. } => Some(root.clone()),
        Site::Directory { pip: Pip::Interpreter(program), .. } | Site::User { program, .. } => {
            root_of(program).map(Path::to_owned)
        }
        Site::Directory { pip: Pip::Any, .. } | Site::OnPath => python_of_pip().map(|python| python.root),
        Site::NewEnvironment { .. } | Site::System => None,
    };
    let decisions = match (&change.site, change.site.python_root().filter(|root| super::uv::serves(root))) {
        (Site::System, _) => return apt::hold(change),
        (Site::Conda(root), _) => conda::decisions(root),
        (site, Some(root)) => uv::decisions(root, matches!(site, Site::Directory { .. })),
        (_, None) => pip::decisions(change, root.as_deref()),
    };
    let forbids_all = |decision: &&Decision| match decision.kind {
        DecisionKind::NoChange => true,
        DecisionKind::NoInstallation => change.installs_any(),
        _ => false,
    };
    let environment = root.map(|root| Environment::at(&root, &Host::current()));
    let platform = environment.as_ref().map_or_else(Platform::default, Platform::of);
    let forbids_one = |wanted: &String| {
        // A reinstallation leaves the manifest unchanged.
        let is_edited = change.install.contains(wanted);
        let mut concerning = decisions.iter().filter(|one| is_edited || one.kind != DecisionKind::Manifest);
        concerning.find(|one| one.forbids(wanted, &platform, &decisions))
    };
    let forbids_requirement = |required: String| {
        let mut concerning = decisions.iter().filter(|one| one.narrows(&platform));
        concerning.find(|one| one.forbids(&required, &platform, &decisions))
    };
    let of_wheels =
        || change.with_requirements().filter_map(|one| contents::wheel(one)).flat_map(|wheel| wheel.requires);
    let required: Vec<String> = match &change.site {
        Site::Conda(root) => conda::required(change, root),
        _ => of_wheels().collect(),
    };
    let forbidding = decisions.iter().find(forbids_all);
    let forbidding = forbidding.or_else(|| change.installed().find_map(forbids_one));
    let forbidding = forbidding.or_else(|| required.into_iter().find_map(forbids_requirement));
    forbidding.map(Decision::to_string)
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
