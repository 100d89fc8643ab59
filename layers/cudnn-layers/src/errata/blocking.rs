//! Decides whether a plan is blocked when the program finalizes it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use cudnn_layer_api::Host;
use cudnn_os::cancel::ThreadStateGuard;

use super::rule::{Rule, Rules};
use super::subject::Subject;
use crate::configuration::Configuration;
use crate::cudnn::Cudnn;
use crate::last_error::{self, hide_errors};
use crate::lock::Lock;
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name, Raw};
use crate::shadow::handles::Handle;

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
pub(super) static STATE: OnceLock<State> = OnceLock::new();

/// The configurations of plans that are not finalized yet, by the address of the plan.
pub(super) static CONFIGURATIONS: Lock<Option<HashMap<usize, Configuration>>> = Lock::new(None);

/// Reads the configuration that the program has set in a plan. It is read now because the program may destroy its
/// descriptor before it finalizes the plan.
///
/// # Safety
/// The configuration is finalized and live.
pub(super) unsafe fn configured(state: &State, plan: Raw, configuration: Raw) {
    forget(plan);
    if !state.needs_configuration {
        return;
    }
    // SAFETY: guaranteed by the caller.
    let read = hide_errors(&state.cudnn, || unsafe { Configuration::read(&state.cudnn, configuration) });
    if let (Ok(read), Some(mut all)) = (read, CONFIGURATIONS.lock()) {
        all.get_or_insert_default().insert(plan.addr(), read);
    }
}

/// Discards the configuration of a plan.
pub(super) fn forget(plan: Raw) {
    let _former = take(plan);
}

fn take(plan: Raw) -> Option<Configuration> {
    CONFIGURATIONS.lock()?.as_mut()?.remove(&plan.addr())
}

/// Returns whether a rule blocks this plan. If so, the rule becomes the text of the thread's last error.
pub(super) fn is_blocked(state: &State, descriptor: Raw) -> bool {
    let plan = shadow::content(descriptor)
        .filter(|content| content.kind == Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && !content.is_finalized);
    let Some(plan) = plan else { return false };
    let configuration = take(descriptor);
    let Some(graph) = shadow::graph_of(&plan) else { return false };
    // Thread cancellation must not unwind from here.
    let _guard = ThreadStateGuard::new();
    let capability = || compute_capability(state, &plan, graph);
    let subject = Subject::new(shadow::operations(graph), configuration.as_ref());
    let Some(rule) = state.rules.iter().find(|rule| rule.matches(&subject, &capability)) else { return false };
    let label = shadow::label(descriptor);
    let text = explain(rule, configuration.as_ref(), label.as_deref().unwrap_or("a plan"));
    // Only the first plan of each rule is a warning, because programs may build thousands.
    match rule.is_first_use() {
        true => state.host.warning(&text),
        false => state.host.info(&text),
    }
    last_error::set(&state.cudnn, &text);
    true
}

fn explain(rule: &Rule, configuration: Option<&Configuration>, label: &str) -> String {
    let engine = configuration.filter(|_| !label.contains("; engine "));
    let engine = engine.map_or(String::new(), |read| format!("; engine {}", read.engine()));
    format!("blocked by the erratum {}: {}: {label}{engine}", rule.name, rule.reason)
}

/// Returns the compute capability of the plan's device in tenths, or `None` if cuDNN does not describe the device.
fn compute_capability(state: &State, plan: &Content, graph: &Content) -> Option<u32> {
    let described = plan.child(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    let json: Arc<[u8]> = match described.and_then(|it| it.elements(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)) {
        Some(json) => json.as_slice().into(),
        None => {
            let places = [
                (described.map(Arc::as_ref), Name::CUDNN_ATTR_DEVICEPROP_HANDLE),
                (Some(plan), Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE),
                (Some(graph), Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE),
            ];
            let handle = places.into_iter().find_map(|(content, name)| content?.elements(name));
            let handle = Handle::all_in(handle?.as_slice()).next()?;
            hide_errors(&state.cudnn, || state.cudnn.device_of(handle))?
        }
    };
    let json = json.split(|byte| *byte == 0).next()?;
    let description: serde_json::Value = serde_json::from_slice(json).ok()?;
    // 900 for 9.0, 1210 for 12.1.
    u32::try_from(description.get("deviceVer")?.as_u64()? / 10).ok()
}
