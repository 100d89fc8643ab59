//! The layer's replacements of cuDNN functions.
//!
//! They report the program's calls to the shadow, and redirect calls that use a restored plan. Calls cost one extra
//! hash lookup, except for cheaper calls at every step with a variant pack.

#![allow(non_snake_case, reason = "these are cuDNN's function names")]

use std::ffi::{c_char, c_void};

use cudnn_layer_api::wrappers::Replacement;
use cudnn_sys::types::{cudaGraph_t, cudnnHandle_t, cudnnStatus_t};

use super::state::STATE;
use super::{finalize, restored};
use crate::cudnn::ABSENT;
use crate::last_error;
use crate::program_memory::accepted_word;
use crate::shadow;
use crate::shadow::calls::{configuration_set, is_variant_pack_attribute, raw};
use crate::shadow::elements::{Kind, Name, Raw, Type};
use crate::shadow::handles;
use crate::trial;

type Status = cudnnStatus_t;

const SUCCESS: Status = Status::CUDNN_STATUS_SUCCESS;

pub(super) const REPLACEMENTS: &[Replacement] = &[
    Replacement::cudnnCreate(create),
    Replacement::cudnnDestroy(destroy),
    Replacement::cudnnGetLastErrorString(get_last_error_string),
    Replacement::cudnnBackendCreateDescriptor(create_descriptor),
    Replacement::cudnnBackendDestroyDescriptor(destroy_descriptor),
    Replacement::cudnnBackendInitialize(initialize),
    Replacement::cudnnBackendSetAttribute(set_attribute),
    Replacement::cudnnBackendGetAttribute(get_attribute),
    Replacement::cudnnBackendFinalize(finalize),
    Replacement::cudnnBackendExecute(execute),
    Replacement::cudnnBackendPopulateCudaGraph(populate_cuda_graph),
    Replacement::cudnnBackendUpdateCudaGraph(update_cuda_graph),
    Replacement::cudnnGetExecutionPlanWorkspaceSize(get_workspace_size),
];

/// Binds the next function in the chain to a local variable with its name.
macro_rules! next {
    ($state:ident, $function:ident) => {
        let Some(($state, next)) = STATE.get().and_then(|state| Some((state, state.cudnn.$function()?))) else {
            return ABSENT;
        };
        let $function = next;
    };
}

unsafe extern "C-unwind" fn create(handle: *mut cudnnHandle_t) -> Status {
    next!(_state, cudnnCreate);
    // SAFETY: guaranteed by the caller.
    let status = unsafe { cudnnCreate(handle) };
    // SAFETY: cuDNN has written the handle.
    if let (SUCCESS, Some(handle)) = (status, unsafe { accepted_word(handle.expose_provenance() as u64) }) {
        handles::created(handle as usize);
    }
    status
}

unsafe extern "C-unwind" fn destroy(handle: cudnnHandle_t) -> Status {
    next!(_state, cudnnDestroy);
    handles::destroying(handle.addr());
    // SAFETY: guaranteed by the caller.
    unsafe { cudnnDestroy(handle) }
}

unsafe extern "C-unwind" fn get_last_error_string(message: *mut c_char, size: usize) {
    let Some(state) = STATE.get() else { return };
    // SAFETY: guaranteed by the caller.
    unsafe { last_error::get(&state.cudnn, message, size) }
}

unsafe extern "C-unwind" fn create_descriptor(kind: Kind, descriptor: *mut Raw) -> Status {
    next!(state, cudnnBackendCreateDescriptor);
    // SAFETY: guaranteed by the caller.
    let status = unsafe { cudnnBackendCreateDescriptor(kind, descriptor) };
    // SAFETY: cuDNN has written the descriptor.
    if let (SUCCESS, Some(created)) = (status, unsafe { accepted_word(descriptor.expose_provenance() as u64) }) {
        // A restored plan may still have this address.
        finalize::destroy_restored(state, raw(created));
        if kind != Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR {
            shadow::created(kind, raw(created));
        }
    }
    status
}

unsafe extern "C-unwind" fn destroy_descriptor(descriptor: Raw) -> Status {
    next!(state, cudnnBackendDestroyDescriptor);
    finalize::destroy_restored(state, descriptor);
    let destruction = shadow::destroying(descriptor);
    if destruction.kind() == Some(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        finalize::forget(descriptor);
    }
    // SAFETY: guaranteed by the caller.
    let status = unsafe { cudnnBackendDestroyDescriptor(descriptor) };
    if status == SUCCESS {
        destruction.succeeded();
    }
    status
}

unsafe extern "C-unwind" fn initialize(descriptor: Raw) -> Status {
    next!(state, cudnnBackendInitialize);
    if let Some(restored) = restored::find(descriptor) {
        finalize::complete(&state.cudnn, restored, descriptor);
    }
    finalize::forget(descriptor);
    // SAFETY: guaranteed by the caller.
    let status = unsafe { cudnnBackendInitialize(descriptor) };
    if status == SUCCESS {
        finalize::destroy_restored(state, descriptor);
        shadow::initialized(descriptor);
    } else {
        shadow::failed(descriptor);
    }
    status
}

unsafe extern "C-unwind" fn set_attribute(
    descriptor: Raw,
    name: Name,
    ty: Type,
    count: i64,
    elements: *const c_void,
) -> Status {
    next!(state, cudnnBackendSetAttribute);
    // A restored plan is finalized, so cuDNN refuses to change it.
    let complete = |restored| finalize::completed(&state.cudnn, restored, descriptor);
    let asked = restored::find(descriptor).map_or(descriptor, complete);
    if is_variant_pack_attribute(name) {
        // SAFETY: guaranteed by the caller.
        return unsafe { cudnnBackendSetAttribute(asked, name, ty, count, elements) };
    }
    // SAFETY: guaranteed by the caller.
    let status = unsafe { cudnnBackendSetAttribute(asked, name, ty, count, elements) };
    if status != SUCCESS {
        shadow::failed(descriptor);
        return status;
    }
    // SAFETY: these are the arguments of a successful call.
    unsafe { shadow::attribute_set(descriptor, name, ty, count, elements) };
    // SAFETY: as above.
    if let Some(configuration) = unsafe { configuration_set(name, ty, count, elements) } {
        // SAFETY: the caller guarantees that the descriptors are live.
        unsafe { finalize::configured(state, descriptor, configuration) };
    }
    status
}

unsafe extern "C-unwind" fn get_attribute(
    descriptor: Raw,
    name: Name,
    ty: Type,
    requested: i64,
    count: *mut i64,
    elements: *mut c_void,
) -> Status {
    next!(state, cudnnBackendGetAttribute);
    let mut asked = descriptor;
    if let Some(restored) = restored::find(descriptor) {
        // Only these attributes are known to be equal, as tests confirm. For others, cuDNN builds the plan.
        let is_same = matches!(
            name,
            Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE | Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION
        );
        let is_built = !is_same && finalize::complete(&state.cudnn, restored, descriptor);
        if !is_built {
            asked = finalize::plan_for(state, descriptor);
        }
    }
    // SAFETY: guaranteed by the caller.
    let status = unsafe { cudnnBackendGetAttribute(asked, name, ty, requested, count, elements) };
    if status == SUCCESS && ty == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR {
        // SAFETY: these are the arguments of a successful call.
        unsafe { shadow::attribute_read(descriptor, name, ty, requested, count, elements) };
    }
    status
}

unsafe extern "C-unwind" fn finalize(descriptor: Raw) -> Status {
    next!(state, cudnnBackendFinalize);
    if trial::is_running() {
        // SAFETY: guaranteed by the caller.
        return unsafe { cudnnBackendFinalize(descriptor) };
    }
    // SAFETY: guaranteed by the caller.
    unsafe { finalize::finalize(state, descriptor) }
}

/// Defines replacements of functions that use a plan.
macro_rules! with_plan {
    ($($name:ident: $function:ident($($argument:ident: $type:ty),*);)*) => { $(
        unsafe extern "C-unwind" fn $name(handle: cudnnHandle_t, plan: Raw, $($argument: $type),*) -> Status {
            next!(state, $function);
            // SAFETY: guaranteed by the caller. A restored plan computes the same as the original.
            unsafe { $function(handle, finalize::plan_for(state, plan), $($argument),*) }
        }
    )* };
}
with_plan! {
    execute: cudnnBackendExecute(pack: Raw);
    populate_cuda_graph: cudnnBackendPopulateCudaGraph(pack: Raw, graph: cudaGraph_t);
    update_cuda_graph: cudnnBackendUpdateCudaGraph(pack: Raw, graph: cudaGraph_t);
    get_workspace_size: cudnnGetExecutionPlanWorkspaceSize(pack: Raw, size: *mut usize);
}
