//! Checks whether the Python of the active virtual environment matches the installed packages.

use cudnn_probe::facts::PathFacts;
use std::path::PathBuf;

use cudnn_frameworks::installation::site_packages;
use cudnn_probe::Origin;

use super::finding::{Finding, LOST_PYTHON};
use crate::context::Context;
use crate::packages::python_problem;
use crate::plan::restore_python;

/// C028: the active virtual environment contains packages that its Python cannot import.
pub(super) fn finding(context: &Context) -> Option<Finding> {
    let environments = context.search.environments();
    let mut roots = environments.iter().filter_map(|origin| match origin {
        Origin::VirtualEnvironment(root) => Some(root),
        _ => None,
    });
    let root = roots.find(|root| python_problem(root).is_some())?;
    let has_cudnn = |dir: PathBuf| dir.join("nvidia").leads_to_dir();
    if !site_packages(root).any(has_cudnn) {
        return None;
    }
    let (what, help) = restore_python(root)?;
    let note = "programs that are started by this Python do not import the packages of the environment";
    Some(Finding::new(LOST_PYTHON, what).note(note).remedy(help))
}
