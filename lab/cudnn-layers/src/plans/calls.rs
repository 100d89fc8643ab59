//! Reports the program's calls to the shadow, and redirects calls that use a restored plan.
//!
//! Calls cost one extra hash lookup, except for cheaper calls at every step with a variant pack.

use cudnn_sys::types::cudnnStatus_t as Status;

use super::state::{STATE, State};
use super::{Plans, finalize, restored};
use crate::program_memory::accepted_word;
use crate::shadow::calls::{self, number, raw};
use crate::shadow::elements::{Kind, Name, Type};
use crate::wrappers::{Call, Id, Intercept, Next, Returned};
use crate::{follow, trial};

static NEXT: Next = Next::new();

impl Intercept for Plans {
    const NEXT: &'static Next = &NEXT;

    fn intercept<R: Returned>(call: &Call<'_>, next: impl FnOnce() -> R) -> R {
        let Some(state) = STATE.get() else { return next() };
        if call.function == Id::CudnnBackendFinalize && !trial::is_running() {
            // SAFETY: this is the argument of the call.
            let status = unsafe { finalize::finalize(state, calls::descriptor(call)) };
            return R::from_status(status).unwrap_or_else(next);
        }
        before(state, call);
        let destruction = calls::before(call);
        if destruction.as_ref().and_then(|it| it.kind()) == Some(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
            finalize::forget(calls::descriptor(call));
        }
        let returned = redirected(state, call).and_then(R::from_status).unwrap_or_else(next);
        let status = returned.status();
        let makes_variant_pack = calls::makes_variant_pack(call);
        if !makes_variant_pack && is_reported(call) {
            follow::returned(call, status, destruction);
        }
        // The attributes of a variant pack concern no plan, and are set at every step.
        let is_frequent = makes_variant_pack && call.function == Id::CudnnBackendSetAttribute;
        if status == Some(Status::CUDNN_STATUS_SUCCESS) && !is_frequent {
            succeeded(state, call);
        }
        returned
    }
}

/// Returns whether the shadow needs a call that makes no variant pack. Programs read other values often.
fn is_reported(call: &Call<'_>) -> bool {
    match call.function {
        Id::CudnnBackendGetAttribute => {
            let [_, _, ty] = call.bits();
            Type(number(ty)) == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR
        }
        function => function != Id::CudnnGetExecutionPlanWorkspaceSize,
    }
}

fn before(state: &State, call: &Call<'_>) {
    match call.function {
        Id::CudnnBackendDestroyDescriptor => finalize::destroy_restored(state, calls::descriptor(call)),
        Id::CudnnBackendInitialize => {
            let descriptor = calls::descriptor(call);
            if let Some(restored) = restored::find(descriptor) {
                finalize::complete(&state.cudnn, restored, descriptor);
            }
            finalize::forget(descriptor);
        }
        _ => {}
    }
}

/// Makes a call that uses a restored plan, with the descriptor that can answer it. Returns `None` for other calls.
fn redirected(state: &State, call: &Call<'_>) -> Option<Status> {
    match call.function {
        Id::CudnnBackendSetAttribute => {
            let [descriptor, name, ty, count, elements] = call.bits();
            // A restored plan is finalized, so cuDNN refuses to change it.
            let asked = finalize::completed(&state.cudnn, restored::find(raw(descriptor))?, raw(descriptor));
            let (set, count) = (NEXT.cudnnBackendSetAttribute()?, count.cast_signed());
            // SAFETY: these are the arguments of the call.
            Some(unsafe { set(asked, Name(number(name)), Type(number(ty)), count, elements as *const _) })
        }
        Id::CudnnBackendGetAttribute => {
            let [descriptor, name, ty, requested, count, elements] = call.bits();
            let (descriptor, name) = (raw(descriptor), Name(number(name)));
            let restored = restored::find(descriptor)?;
            // Only these attributes are known to be equal, as tests confirm. For others, cuDNN builds the plan.
            let is_same = matches!(
                name,
                Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE | Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION
            );
            if !is_same && finalize::complete(&state.cudnn, restored, descriptor) {
                return None;
            }
            let (get, asked) = (NEXT.cudnnBackendGetAttribute()?, finalize::plan_for(state, descriptor));
            let requested = requested.cast_signed();
            // SAFETY: these are the arguments of the call.
            Some(unsafe { get(asked, name, Type(number(ty)), requested, count as *mut _, elements as *mut _) })
        }
        function if calls::is_execution(function) || function == Id::CudnnGetExecutionPlanWorkspaceSize => {
            let [handle, plan, pack, last] = call.bits();
            let (handle, plan, pack) = (handle as *mut _, raw(plan), raw(pack));
            let asked = Some(finalize::plan_for(state, plan)).filter(|asked| *asked != plan)?;
            // SAFETY: these are the arguments of the call. A restored plan computes the same as the original.
            Some(unsafe {
                match function {
                    Id::CudnnBackendExecute => NEXT.cudnnBackendExecute()?(handle, asked, pack),
                    Id::CudnnBackendPopulateCudaGraph => {
                        NEXT.cudnnBackendPopulateCudaGraph()?(handle, asked, pack, last as *mut _)
                    }
                    Id::CudnnBackendUpdateCudaGraph => {
                        NEXT.cudnnBackendUpdateCudaGraph()?(handle, asked, pack, last as *mut _)
                    }
                    _ => NEXT.cudnnGetExecutionPlanWorkspaceSize()?(handle, asked, pack, last as *mut _),
                }
            })
        }
        _ => None,
    }
}

fn succeeded(state: &State, call: &Call<'_>) {
    match call.function {
        Id::CudnnBackendCreateDescriptor => {
            let [_, to] = call.bits();
            // A restored plan may still have this address.
            // SAFETY: cuDNN has written the descriptor.
            if let Some(created) = unsafe { accepted_word(to) } {
                finalize::destroy_restored(state, raw(created));
            }
        }
        Id::CudnnBackendInitialize => finalize::destroy_restored(state, calls::descriptor(call)),
        Id::CudnnBackendSetAttribute => {
            if let Some((plan, configuration)) = calls::configured(call).filter(|_| !trial::is_running()) {
                // SAFETY: cuDNN has accepted both descriptors in this call, so they are live.
                unsafe { finalize::configured(state, plan, configuration) };
            }
        }
        _ => {}
    }
}
