//! Retrieves the labels of graphs from the shadow.

use std::sync::Arc;

use crate::shadow;
use crate::shadow::calls::{is_execution, raw};
use crate::shadow::elements::{Kind, Raw};
use crate::wrappers::{Call, Id};

/// Returns the label of the plan or descriptor that was passed to a call.
#[inline(always)]
pub(super) fn label(call: &Call<'_>) -> Option<Arc<str>> {
    // Checked inline so that the many functions without either stay fast.
    if has_subject(call.function) { shadow::label(subject(call)?) } else { None }
}

#[inline(always)]
fn has_subject(function: Id) -> bool {
    function == Id::CudnnBackendFinalize || is_execution(function)
}

/// Returns whether a call is counted per graph: executions, and calls before the first execution that may take long.
pub(super) fn is_counted(call: &Call<'_>) -> bool {
    if call.function != Id::CudnnBackendFinalize {
        return true;
    }
    let content = subject(call).and_then(shadow::content);
    content.is_some_and(|content| {
        matches!(
            content.kind,
            Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
                | Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR
        )
    })
}

fn subject(call: &Call<'_>) -> Option<Raw> {
    let [first, plan] = call.bits();
    has_subject(call.function).then(|| raw(if is_execution(call.function) { plan } else { first }))
}
