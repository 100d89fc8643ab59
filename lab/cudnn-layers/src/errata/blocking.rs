//! Decides whether a plan is blocked when the program finalizes it.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_graph::Operation;
use cudnn_layer_api::Host;
use cudnn_os::cancel::ThreadStateGuard;

use super::rule::{Rule, Rules};
use crate::active::Active;
use crate::cudnn::Cudnn;
use crate::device;
use crate::engine::Choice;
use crate::json::parsed;
use crate::last_error::{self, own_calls};
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name, Raw};
use crate::table::Table;

/// The layer's state after it has started.
pub(super) struct State {
    pub(super) host: Host,
    pub(super) cudnn: Cudnn,
    /// The rules for this release of cuDNN.
    pub(super) rules: Rules,
    /// Whether a rule depends on the engine or the knobs.
    pub(super) needs_configuration: bool,
}

/// Set when the layer starts.
pub(super) static STATE: Active<State> = Active::new();

/// A plan that is not finalized yet.
#[derive(Clone)]
pub(super) struct Configured {
    /// The shadow's record of the configuration when it was set. It shows whether a different one was set later.
    content: Arc<Content>,
    choice: Arc<Choice>,
}

/// Maps addresses of the program's plans.
pub(super) static CONFIGURED: Table<Configured> = Table::new(usize::MAX);

const CONFIGURATION: Name = Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;

/// Reads the configuration that the program has set in a plan. It is read now because the program may destroy its
/// descriptor before it finalizes the plan.
///
/// # Safety
/// The configuration is live.
pub(super) unsafe fn configured(state: &State, plan: Raw, configuration: Raw) {
    if !state.needs_configuration {
        return;
    }
    // cuDNN accepts a configuration that is not finalized, but reading it is an error, which a callback would see.
    let content = shadow::content(plan).and_then(|plan| plan.child(CONFIGURATION).cloned());
    let Some(content) = content.filter(|content| content.is_finalized) else { return forget(state, plan) };
    // SAFETY: guaranteed by the caller.
    let choice = own_calls(&state.cudnn, || unsafe { Choice::read(&state.cudnn, configuration) });
    let configured = Configured { content, choice: Arc::new(choice) };
    CONFIGURED.insert(plan.addr(), configured);
}

/// Discards the record of a plan that is finalized, emptied or destroyed.
pub(super) fn forget(state: &State, plan: Raw) {
    if state.needs_configuration {
        CONFIGURED.remove(plan.addr());
    }
}

/// Returns whether a rule blocks this plan. If so, the rule becomes the text of the thread's last error.
pub(super) fn is_blocked(state: &State, descriptor: Raw) -> bool {
    let plan = shadow::content(descriptor)
        .filter(|content| content.kind == Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && !content.is_finalized);
    let Some(plan) = plan else { return false };
    // After a missed call, the graph may be a different one.
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if state.host.missed_calls() > 0 {
        if !IS_REPORTED.swap(true, Ordering::Relaxed) {
            state.host.error("plans are no longer blocked, because calls have bypassed this layer");
        }
        return false;
    }
    let is_certain = |content: &Content| !content.is_uncertain && !content.lacks_attributes;
    let Some(graph) = shadow::graph_of(&plan).filter(|graph| is_certain(graph)) else { return false };
    // Thread cancellation must not unwind from here.
    let _guard = ThreadStateGuard::new();
    let configured = CONFIGURED.get(descriptor.addr());
    let is_current = |set: &Configured| plan.child(CONFIGURATION).is_some_and(|now| Arc::ptr_eq(now, &set.content));
    let configured = configured.filter(is_current);
    let choice = configured.as_ref().map(|configured| &*configured.choice);
    let capability = OnceCell::new();
    let capability = || *capability.get_or_init(|| compute_capability(state, &plan));
    let graph = shadow::known_parts(graph);
    let operations = Operation::nested_in(&graph);
    let Some(rule) = state.rules.iter().find(|rule| rule.matches(&operations, choice, &capability)) else {
        return false;
    };
    let label = shadow::label(descriptor);
    let text = explain(rule, choice, label.as_deref().unwrap_or("a plan"));
    // Only the first plan of each rule is a warning, because programs may build thousands.
    match rule.is_first_use() {
        true => state.host.warning(&text),
        false => state.host.info(&text),
    }
    last_error::set(&state.cudnn, &text);
    true
}

fn explain(rule: &Rule, choice: Option<&Choice>, label: &str) -> String {
    let engine = choice.and_then(|choice| choice.engine).filter(|_| !label.contains("; engine "));
    let engine = engine.map_or(String::new(), |engine| format!("; engine {engine}"));
    format!("blocked by the erratum {}: {}: {label}{engine}", rule.name, rule.reason)
}

/// Returns the compute capability of the plan's device in tenths, or `None` if cuDNN does not describe the device.
fn compute_capability(state: &State, plan: &Arc<Content>) -> Option<u32> {
    device::compute_capability(&parsed(&device::description(&state.cudnn, plan)?)?)
}
