//! Determines the variables of the user's shell after lines of the plan are pasted, for the check after the steps.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_probe::{Requirements, check_dir};
use cudnn_rules::context::Context;
use cudnn_rules::plan::Step;
use cudnn_rules::remedy::Action;

/// Returns the variables that these steps change. `None` means unset.
pub(crate) fn variables(steps: &[&Step], context: &Context) -> Vec<(String, Option<OsString>)> {
    let mut variables: Vec<(String, Option<OsString>)> = Vec::new();
    for step in steps {
        let Action::Variable(variable) = &step.action else { continue };
        let current = |name: &str| {
            let known = variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            known.unwrap_or_else(|| std::env::var_os(name))
        };
        variables.extend(variable.assigned(current, |dir| usable_below(dir, context)).into_iter().flatten());
    }
    variables
}

/// Returns the directory that `env` selects below this root.
fn usable_below(root: &Path, context: &Context) -> Option<PathBuf> {
    let candidates = context.search.under_root(root);
    candidates.iter().find_map(|one| check_dir(one, &Requirements::default()).ok()).map(|found| found.dir)
}
