//! Decides whether a plan is blocked when the program finalizes it.

use std::cell::OnceCell;
use std::sync::Arc;

use cudnn_graph::Operation;
use cudnn_layer_api::Host;
use cudnn_os::cancel::ThreadStateGuard;

use super::rule::{BlockingRule, BlockingRules};
use crate::active::Active;
use crate::bypass::Bypass;
use crate::cudnn::Cudnn;
use crate::device;
use crate::engine::ChosenEngine;
use crate::json::parsed;
use crate::last_error::{self, own_calls};
use crate::plan_configurations::PlanConfigurations;
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Raw};

pub(super) struct State {
    pub(super) host: Host,
    pub(super) cudnn: Cudnn,
    pub(super) rules: BlockingRules,
    pub(super) needs_configuration: bool,
}

pub(super) static STATE: Active<State> = Active::new();

pub(super) static CHOICES: PlanConfigurations<Arc<ChosenEngine>> = PlanConfigurations::new();

/// # Safety
/// The configuration is live.
pub(super) unsafe fn configured(state: &State, plan: Raw, configuration: Raw) {
    if !state.needs_configuration {
        return;
    }
    // SAFETY: guaranteed by the caller.
    let configuration = unsafe { state.cudnn.descriptor(configuration) };
    CHOICES.set(plan, || Some(ChosenEngine::read_unnoticed(&configuration)));
}

/// Discards the engine of a plan that is finalized, emptied or destroyed.
pub(super) fn forget(state: &State, plan: Raw) {
    if state.needs_configuration {
        let _former = CHOICES.take(plan);
    }
}

/// Returns whether a rule blocks a finalized plan because of its workspace. The plan then counts as not finalized, and
/// the rule becomes the thread's last error.
pub(super) fn needs_too_much_workspace(state: &State, descriptor: Raw) -> bool {
    let is_plan = |content: &Arc<Content>| content.kind == Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
    if !state.rules.iter().any(BlockingRule::limits_workspace)
        || !shadow::content(descriptor).as_ref().is_some_and(is_plan)
    {
        return false;
    }
    // SAFETY: cuDNN has just finalized the plan, which is live during the call.
    let plan = unsafe { state.cudnn.descriptor(descriptor) };
    let size = own_calls(&state.cudnn, || plan.workspace_size());
    let refusal = size.ok().and_then(|size| refuse(state, descriptor, Some(size)));
    if let Some(refusal) = &refusal {
        // cuDNN does not finalize the plan again.
        shadow::refused(descriptor, refusal);
    }
    refusal.is_some()
}

/// Returns whether a rule blocks this plan before cuDNN finalizes it, or has blocked it afterwards. The rule then
/// becomes the thread's last error.
pub(super) fn is_blocked(state: &State, descriptor: Raw) -> bool {
    refuse(state, descriptor, None).is_some()
}

/// Reports the rule that blocks a plan, and returns the text. `workspace` is unknown before the plan is finalized.
fn refuse(state: &State, descriptor: Raw, workspace: Option<i64>) -> Option<Arc<str>> {
    let plan = shadow::content(descriptor).filter(|content| {
        content.kind == Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && content.is_finalized == workspace.is_some()
    })?;
    // After a missed call, the graph may have changed.
    static BYPASS: Bypass = Bypass::new("plans are no longer blocked");
    if !BYPASS.has_seen_all(state.host) {
        return None;
    }
    let _guard = ThreadStateGuard::new();
    let (text, is_first_of_rule) = match &plan.refusal {
        Some(text) => (text.clone(), false),
        None => {
            let (rule, text) = blocked_by(state, descriptor, &plan, workspace)?;
            (text.into(), rule.is_first_use())
        }
    };
    // Only the first plan of each rule is a warning, because programs may build thousands.
    match is_first_of_rule {
        true => state.host.warning(&text),
        false => state.host.info(&text),
    }
    last_error::set(&state.cudnn, &text);
    Some(text)
}

fn blocked_by<'a>(
    state: &'a State,
    descriptor: Raw,
    plan: &Arc<Content>,
    workspace: Option<i64>,
) -> Option<(&'a BlockingRule, String)> {
    let is_certain = |content: &Content| !content.is_uncertain && !content.lacks_attributes;
    let graph = shadow::graph_of(plan).filter(|graph| is_certain(graph))?;
    let choice = CHOICES.get(descriptor).and_then(|configured| configured.current(plan));
    let choice = choice.as_deref();
    let capability = OnceCell::new();
    let capability = || *capability.get_or_init(|| compute_capability(state, plan));
    let graph = shadow::known_parts(graph);
    let operations = Operation::nested_in(&graph);
    let rule = state.rules.iter().find(|rule| rule.matches(&operations, choice, &capability, workspace))?;
    let label = shadow::label(descriptor);
    Some((rule, explain(rule, choice, label.as_deref().unwrap_or("a plan"))))
}

fn explain(rule: &BlockingRule, choice: Option<&ChosenEngine>, label: &str) -> String {
    let engine = choice.and_then(|choice| choice.engine).filter(|_| !label.contains("; engine "));
    let engine = engine.map_or(String::new(), |engine| format!("; engine {engine}"));
    format!("blocked by the erratum {}: {}: {label}{engine}", rule.name, rule.reason)
}

/// Returns the compute capability of the plan's device in tenths, if cuDNN describes the device.
fn compute_capability(state: &State, plan: &Arc<Content>) -> Option<u32> {
    device::compute_capability(&parsed(&device::description(&state.cudnn, plan)?)?)
}
