//! Reads the engines of the configurations that plans are built from, also if the program destroys a configuration
//! first.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudnn_os::cancel::ThreadStateGuard;

use super::State;
use crate::engine::Choice;
use crate::last_error::own_calls;
use crate::lock::Lock;
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::elements::{Name, Raw};

/// A configuration that a plan was given.
#[derive(Clone)]
enum Configuration {
    /// The address.
    Live(usize),
    /// The engine of a configuration that was destroyed.
    Destroyed(Arc<Choice>),
}

/// The configurations of plans before finalizing.
#[derive(Default)]
pub(super) struct Configurations {
    /// By the address of the plan.
    of_plans: BTreeMap<usize, Configuration>,
    /// The addresses of the plans by the address of a live configuration, because programs destroy many configurations.
    plans: BTreeMap<usize, Vec<usize>>,
}

impl Configurations {
    fn insert(&mut self, plan: usize, configuration: usize) {
        self.remove(plan);
        if self.of_plans.len() >= MAX_CONFIGURATIONS {
            *self = Configurations::default();
        }
        self.of_plans.insert(plan, Configuration::Live(configuration));
        self.plans.entry(configuration).or_default().push(plan);
    }

    fn remove(&mut self, plan: usize) -> Option<Configuration> {
        let former = self.of_plans.remove(&plan)?;
        if let Configuration::Live(configuration) = former
            && let Some(plans) = self.plans.get_mut(&configuration)
        {
            plans.retain(|it| *it != plan);
            if plans.is_empty() {
                self.plans.remove(&configuration);
            }
        }
        Some(former)
    }
}

pub(super) static CONFIGURATIONS: Lock<Option<Configurations>> = Lock::new(None);
/// More plans than are built at the same time.
const MAX_CONFIGURATIONS: usize = 4096;

/// Remembers the configuration of a plan.
pub(super) fn set(plan: Raw, configuration: Raw) {
    if let Some(mut all) = CONFIGURATIONS.lock() {
        all.get_or_insert_default().insert(plan.addr(), configuration.addr());
    }
}

/// Reads the engine of a configuration that is about to be destroyed, if a plan may still be built from it.
pub(super) fn destroying(state: &State, configuration: Raw) {
    let plans = CONFIGURATIONS.lock().and_then(|all| all.as_ref()?.plans.get(&configuration.addr()).cloned());
    let Some(plans) = plans else { return };
    // Thread cancellation must not unwind from here.
    let _guard = ThreadStateGuard::new();
    for plan in plans {
        let content = shadow::content(std::ptr::with_exposed_provenance_mut(plan));
        let choice = content.and_then(|content| read(state, configuration, &content));
        if let Some(all) = CONFIGURATIONS.lock().as_mut().and_then(|all| all.as_mut()) {
            all.remove(plan);
            if let Some(choice) = choice {
                all.of_plans.insert(plan, Configuration::Destroyed(Arc::new(choice)));
            }
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
    CONFIGURATIONS.lock()?.as_mut()?.remove(plan.addr())
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
    Some(own_calls(&state.cudnn, || unsafe { Choice::read(&state.cudnn, configuration) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_found_by_their_configuration() {
        let mut all = Configurations::default();
        all.insert(1, 10);
        all.insert(2, 10);
        all.insert(3, 20);
        assert_eq!(all.plans[&10], [1, 2]);
        // The program sets another configuration.
        all.insert(1, 20);
        assert_eq!((&all.plans[&10], &all.plans[&20]), (&vec![2], &vec![3, 1]));
        assert!(matches!(all.remove(2), Some(Configuration::Live(10))));
        assert!(all.remove(2).is_none() && !all.plans.contains_key(&10));
        for plan in 0..=MAX_CONFIGURATIONS {
            all.insert(plan, 30);
        }
        assert!(all.of_plans.len() <= MAX_CONFIGURATIONS && all.plans.len() == 1);
    }
}
