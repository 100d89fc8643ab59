//! Reports returned calls to the shadow and restores error texts, for layers that call cuDNN themselves.

use cudnn_sys::types::cudnnStatus_t;

use crate::last_error;
use crate::shadow::{self, Destruction, calls};
use crate::wrappers::{Call, Id};

pub(crate) fn is_followed(function: Id) -> bool {
    matches!(function, Id::CudnnCreate | Id::CudnnDestroy | Id::CudnnGetLastErrorString)
        || calls::is_descriptor_function(function)
}

/// Returns whether a function uses descriptors or handles, including the ones that execute plans.
pub(crate) fn uses_descriptors(function: Id) -> bool {
    is_followed(function) || calls::is_execution(function) || function == Id::CudnnGetExecutionPlanWorkspaceSize
}

pub(crate) fn returned(call: &Call<'_>, status: Option<cudnnStatus_t>, destruction: Option<Destruction>) {
    match call.function {
        Id::CudnnGetLastErrorString => {
            let [message, size] = call.bits();
            // SAFETY: these are the arguments of the call that has just returned.
            unsafe { last_error::add_saved(message as *mut _, size as usize) };
        }
        _ if status == Some(cudnnStatus_t::CUDNN_STATUS_SUCCESS) => calls::after(call, destruction),
        Id::CudnnBackendSetAttribute | Id::CudnnBackendInitialize => shadow::failed(calls::descriptor(call)),
        _ => {}
    }
}
