//! Reads the engines of the configurations that plans are built from, also if the program destroys a configuration
//! first.

use std::collections::HashMap;
use std::sync::Arc;

use cudnn_os::cancel::ThreadStateGuard;

use super::State;
use crate::engine::Choice;
use crate::last_error::hide_errors;
use crate::lock::Lock;
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::elements::{Name, Raw};
use crate::trial;

/// A configuration that a plan was given.
#[derive(Clone)]
enum Configuration {
    /// The address.
    Live(usize),
    /// The engine of a configuration that was destroyed.
    Destroyed(Arc<Choice>),
}

/// The configurations of plans before finalizing, by the address of the plan.
static CONFIGURATIONS: Lock<Option<HashMap<usize, Configuration>>> = Lock::new(None);
/// More plans than are built at the same time.
const MAX_CONFIGURATIONS: usize = 4096;

/// Remembers the configuration of a plan.
pub(super) fn set(plan: Raw, configuration: Raw) {
    if let Some(mut all) = CONFIGURATIONS.lock() {
        let all = all.get_or_insert_default();
        if all.len() >= MAX_CONFIGURATIONS {
            all.clear();
        }
        all.insert(plan.addr(), Configuration::Live(configuration.addr()));
    }
}

/// Reads the engine of a configuration that is about to be destroyed, if a plan may still be built from it.
pub(super) fn destroying(state: &State, configuration: Raw) {
    let is_this = |known: &Configuration| matches!(known, Configuration::Live(it) if *it == configuration.addr());
    let plans: Vec<usize> = CONFIGURATIONS
        .lock()
        .and_then(|all| {
            let all = all.as_ref()?.iter();
            Some(all.filter(|(_, known)| is_this(known)).map(|(plan, _)| *plan).collect())
        })
        .unwrap_or_default();
    if plans.is_empty() {
        return;
    }
    // Thread cancellation must not unwind from here.
    let _guard = ThreadStateGuard::new();
    for plan in plans {
        let content = shadow::content(std::ptr::with_exposed_provenance_mut(plan));
        let choice = content.and_then(|content| read(state, configuration, &content));
        if let Some(all) = CONFIGURATIONS.lock().as_mut().and_then(|all| all.as_mut()) {
            match choice {
                Some(choice) => all.insert(plan, Configuration::Destroyed(Arc::new(choice))),
                None => all.remove(&plan),
            };
        }
    }
}

/// Returns the engine that a plan was given, if the configuration is still the same. Forgets the configuration.
pub(super) fn take(state: &State, plan: Raw, content: &Content) -> Option<Arc<Choice>> {
    match forget(plan)? {
        Configuration::Live(address) => {
            read(state, std::ptr::with_exposed_provenance_mut(address), content).map(Arc::new)
        }
        Configuration::Destroyed(choice) => Some(choice),
    }
}

fn forget(plan: Raw) -> Option<Configuration> {
    CONFIGURATIONS.lock()?.as_mut()?.remove(&plan.addr())
}

/// Follows the destruction of a plan.
pub(super) fn plan_destroyed(plan: Raw) {
    let _configuration = forget(plan);
}

/// Returns the engine of a configuration, if it is still the one that the plan was given.
fn read(state: &State, configuration: Raw, plan: &Content) -> Option<Choice> {
    let set = plan.child(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)?;
    let current = shadow::content(configuration)?;
    if !Arc::ptr_eq(set, &current) || !current.is_finalized {
        return None;
    }
    // SAFETY: the configuration is finalized and live, according to the shadow.
    Some(hide_errors(&state.cudnn, || trial::run(|| unsafe { Choice::read(&state.cudnn, configuration) })))
}

/// Takes the lock before a fork.
pub(super) fn before_fork() {
    CONFIGURATIONS.hold_for_fork();
}

/// Releases the lock in the parent after a fork.
pub(super) fn after_fork() {
    CONFIGURATIONS.release_after_fork();
}

/// Releases the lock in the child after a fork.
pub(super) fn in_child() {
    CONFIGURATIONS.release_in_child(None);
}
