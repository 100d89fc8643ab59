//! Stores data about the engine configurations of plans until the plans are finalized. A configuration is read when the
//! program sets it in a plan, because the program may destroy it before it finalizes the plan.

use std::sync::Arc;

use crate::lock::HeldAtFork;
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::elements::{Name, Raw};
use crate::table::Table;

const CONFIGURATION: Name = Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;

/// The configurations of unfinalized plans, by the address of the plan.
pub(crate) struct PlanConfigurations<T>(Table<PlanConfiguration<T>>);

#[derive(Clone)]
pub(crate) struct PlanConfiguration<T> {
    /// The shadow's record of the configuration when it was set.
    content: Arc<Content>,
    read: T,
}

impl<T: Send> PlanConfigurations<T> {
    pub(crate) const fn new() -> Self {
        PlanConfigurations(Table::new(usize::MAX))
    }

    /// Stores the result of `read` for the finalized configuration that the program has set in a plan.
    pub(crate) fn set(&self, plan: Raw, read: impl FnOnce() -> Option<T>) {
        // Reading an unfinalized configuration is an error, which a callback would receive.
        let content = shadow::content(plan).and_then(|plan| plan.child(CONFIGURATION).cloned());
        let content = content.filter(|content| content.is_finalized);
        match content.and_then(|content| Some(PlanConfiguration { content, read: read()? })) {
            Some(configured) => _ = self.0.insert(plan.addr(), configured),
            None => _ = self.take(plan),
        }
    }

    /// Removes the configuration of a plan that is finalized, emptied or destroyed.
    pub(crate) fn take(&self, plan: Raw) -> Option<PlanConfiguration<T>> {
        self.0.remove(plan.addr())
    }

    pub(crate) fn get(&self, plan: Raw) -> Option<PlanConfiguration<T>>
    where
        T: Clone,
    {
        self.0.get(plan.addr())
    }

    pub(crate) const fn table(&'static self) -> &'static dyn HeldAtFork
    where
        T: 'static,
    {
        &self.0
    }
}

impl<T> PlanConfiguration<T> {
    /// Returns the stored data, unless the plan was given another configuration later.
    pub(crate) fn current(self, plan: &Content) -> Option<T> {
        let is_current = plan.child(CONFIGURATION).is_some_and(|content| Arc::ptr_eq(content, &self.content));
        is_current.then_some(self.read)
    }
}
