//! Determines the state of the user's shell after the plan's lines have been pasted, for the check that follows the
//! steps.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_cli::shell::SEARCH_PATH;
use cudnn_cli::shell::SEPARATOR;
use cudnn_probe::{DIR_VARIABLE, Requirements, check_dir};
use cudnn_rules::context::Context;
use cudnn_rules::plan::{Line, Plan};
use cudnn_rules::remedy::{Action, Variable};
use cudnn_rules::shell;

use super::run::{Output, run};

/// Returns the variables as they will be after the user pastes the plan's shell lines. `None` means unset.
pub(crate) fn variables(plan: &Plan, context: &Context) -> Vec<(String, Option<OsString>)> {
    let mut variables: Vec<(String, Option<OsString>)> = Vec::new();
    for step in &plan.steps {
        let Action::Variable(variable) = &step.action else { continue };
        let current = |name: &str| {
            let known = variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            known.unwrap_or_else(|| std::env::var_os(name))
        };
        let first = |dir: &Path| {
            let dir = shell::name_for_search(dir);
            let rest = current(SEARCH_PATH).unwrap_or_default();
            let mut value = dir.into_os_string();
            if !rest.is_empty() {
                value.push(SEPARATOR.encode_utf8(&mut [0; 4]));
                value.push(rest);
            }
            (SEARCH_PATH.to_owned(), Some(value))
        };
        let new = match variable {
            Variable::Set { name, value } => vec![(name.clone(), Some(value.clone()))],
            Variable::Unset(name) => vec![(name.clone(), None)],
            Variable::Without { name, entries } => {
                let kept = shell::kept_entries(name, &current(name).unwrap_or_default(), entries);
                vec![((*name).to_owned(), Some(kept).filter(|kept| !kept.is_empty()))]
            }
            Variable::Search(dir) => vec![first(dir)],
            Variable::Use(dir) => {
                let Some(dir) = usable_below(dir, context) else { continue };
                vec![first(&dir), (DIR_VARIABLE.to_owned(), Some(dir.into_os_string()))]
            }
        };
        variables.extend(new);
    }
    variables
}

/// Returns the directory that `env` selects below this root.
fn usable_below(root: &Path, context: &Context) -> Option<PathBuf> {
    let candidates = context.search.under_root(root);
    candidates.iter().find_map(|one| check_dir(one, &Requirements::default()).ok()).map(|found| found.dir)
}

/// Creates the links that the plan's shell lines also create, because the final check needs them.
pub(crate) fn create_links(plan: &Plan, context: &Context, output: Output) {
    let dirs = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Variable(Variable::Search(dir)) => Some(dir.clone()),
        Action::Variable(Variable::Use(dir)) => usable_below(dir, context),
        _ => None,
    });
    for link in dirs.filter(|dir| shell::search_first(dir).is_none()).filter_map(|dir| shell::link_to(&dir)) {
        // Without the link, the check reports the problem again.
        let _ = run(&Line::Run(link.commands), output, None);
    }
}
