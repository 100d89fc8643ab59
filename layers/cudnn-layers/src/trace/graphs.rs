//! Reports the backend API calls to the shadow, and retrieves graph labels from it.

use std::sync::Arc;

use cudnn_sys::types::{cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendDescriptorType_t};

use crate::shadow;
use crate::shadow::elements::{Kind, Raw};
use crate::wrappers::{Call, Id};

/// Call this before a call. Handles descriptors that are about to be destroyed.
#[inline]
pub(super) fn before(call: &Call<'_>) -> Option<shadow::Destruction> {
    if call.function != Id::CudnnBackendDestroyDescriptor {
        return None;
    }
    let [descriptor] = call.bits();
    Some(shadow::destroying(raw(descriptor)))
}

/// Call this after a successful call.
#[inline]
pub(super) fn after(call: &Call<'_>, destruction: Option<shadow::Destruction>) {
    match call.function {
        Id::CudnnBackendCreateDescriptor => {
            let [kind, to] = call.bits();
            // SAFETY: cuDNN has written the descriptor.
            if let Some(descriptor) = unsafe { (to as *const Raw).as_ref() } {
                shadow::created(cudnnBackendDescriptorType_t(number(kind)), *descriptor);
            }
        }
        Id::CudnnBackendInitialize => {
            let [descriptor] = call.bits();
            shadow::initialized(raw(descriptor));
        }
        Id::CudnnBackendSetAttribute => {
            let [descriptor, name, ty, count, elements] = call.bits();
            let name = cudnnBackendAttributeName_t(number(name));
            let ty = cudnnBackendAttributeType_t(number(ty));
            // SAFETY: these are the arguments of a successful call.
            unsafe { shadow::attribute_set(raw(descriptor), name, ty, count.cast_signed(), elements as *const _) };
        }
        Id::CudnnBackendGetAttribute => {
            let [descriptor, name, ty, requested, count, elements] = call.bits();
            let name = cudnnBackendAttributeName_t(number(name));
            let ty = cudnnBackendAttributeType_t(number(ty));
            let (requested, count) = (requested.cast_signed(), count as *const i64);
            // SAFETY: these are the arguments of a successful call.
            unsafe { shadow::attribute_read(raw(descriptor), name, ty, requested, count, elements as *const _) };
        }
        Id::CudnnBackendFinalize => {
            let [descriptor] = call.bits();
            shadow::finalized(raw(descriptor));
        }
        Id::CudnnBackendDestroyDescriptor => {
            if let Some(destruction) = destruction {
                destruction.succeeded();
            }
        }
        Id::CudnnGetExecutionPlanWorkspaceSize => {
            let [_, plan, _, size] = call.bits();
            // SAFETY: cuDNN has written the size.
            if let Some(size) = unsafe { (size as *const usize).as_ref() } {
                shadow::workspace_read(raw(plan), *size);
            }
        }
        _ => {}
    }
}

/// Returns the label of the plan or descriptor that was passed to a call.
#[inline(always)]
pub(super) fn label(call: &Call<'_>) -> Option<Arc<str>> {
    // Checked inline, because most functions take neither and should stay fast.
    if has_subject(call.function) { shadow::label(subject(call)?) } else { None }
}

#[inline(always)]
fn has_subject(function: Id) -> bool {
    matches!(
        function,
        Id::CudnnBackendFinalize
            | Id::CudnnBackendExecute
            | Id::CudnnBackendPopulateCudaGraph
            | Id::CudnnBackendUpdateCudaGraph
    )
}

/// Returns whether a call is counted per graph: executions, and calls that may take long before the first execution.
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
    match call.function {
        Id::CudnnBackendFinalize => {
            let [descriptor] = call.bits();
            Some(raw(descriptor))
        }
        Id::CudnnBackendExecute | Id::CudnnBackendPopulateCudaGraph | Id::CudnnBackendUpdateCudaGraph => {
            let [_, plan] = call.bits();
            Some(raw(plan))
        }
        _ => None,
    }
}

fn raw(address: u64) -> Raw {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Truncates the value to the width of an enum.
fn number(bits: u64) -> u32 {
    bits as u32
}
