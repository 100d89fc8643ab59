//! Reports calls of the backend API to the shadow, for layers that wrap the functions generically.

use cudnn_sys::types::cudnnBackendHeurMode_t;

use super::elements::{Kind, Name, Raw, Type};
use super::handles;
use crate::program_memory::accepted_word;
use crate::wrappers::{Call, Id};

/// Call this before a call, which may destroy a handle or a descriptor.
#[inline]
pub(crate) fn before(call: &Call<'_>) -> Option<super::Destruction> {
    match call.function {
        Id::CudnnBackendDestroyDescriptor => Some(super::destroying(descriptor(call))),
        Id::CudnnDestroy => {
            let [handle] = call.bits();
            handles::destroying(handle as usize);
            None
        }
        _ => None,
    }
}

/// Call this after a successful call.
#[inline]
pub(crate) fn after(call: &Call<'_>, destruction: Option<super::Destruction>) {
    match call.function {
        Id::CudnnCreate => {
            let [to] = call.bits();
            // SAFETY: cuDNN has written the handle.
            if let Some(handle) = unsafe { accepted_word(to) } {
                handles::created(handle as usize);
            }
        }
        Id::CudnnBackendCreateDescriptor => {
            let [kind, to] = call.bits();
            // SAFETY: cuDNN has written the descriptor.
            if let Some(descriptor) = unsafe { accepted_word(to) } {
                super::created(Kind(number(kind)), raw(descriptor));
            }
        }
        Id::CudnnBackendInitialize => super::initialized(descriptor(call)),
        Id::CudnnBackendSetAttribute => {
            let [_, name, ty, count, elements] = call.bits();
            let name = Name(number(name));
            let ty = Type(number(ty));
            // SAFETY: these are the arguments of a successful call.
            unsafe { super::attribute_set(descriptor(call), name, ty, count.cast_signed(), elements as *const _) };
        }
        Id::CudnnBackendGetAttribute => {
            let [_, name, ty, requested, count, elements] = call.bits();
            let name = Name(number(name));
            let ty = Type(number(ty));
            let (requested, count) = (requested.cast_signed(), count as *const i64);
            // SAFETY: these are the arguments of a successful call.
            unsafe { super::attribute_read(descriptor(call), name, ty, requested, count, elements as *const _) };
        }
        Id::CudnnBackendFinalize => super::finalized(descriptor(call)),
        Id::CudnnBackendDestroyDescriptor => {
            if let Some(destruction) = destruction {
                destruction.succeeded();
            }
        }
        Id::CudnnGetExecutionPlanWorkspaceSize => {
            let [_, plan, _, size] = call.bits();
            // SAFETY: cuDNN has written the size.
            if let Some(size) = unsafe { accepted_word(size) } {
                super::workspace_read(raw(plan), size.cast_signed());
            }
        }
        _ => {}
    }
}

/// Returns the plan and its new configuration, if a successful call has set one.
pub(crate) fn configured(call: &Call<'_>) -> Option<(Raw, Raw)> {
    if call.function != Id::CudnnBackendSetAttribute {
        return None;
    }
    let [plan, name, ty, count, elements] = call.bits();
    let is_configuration = Name(number(name)) == Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG
        && Type(number(ty)) == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR
        && count == 1;
    // SAFETY: cuDNN has read the one descriptor.
    let configuration = is_configuration.then(|| unsafe { accepted_word(elements) }).flatten()?;
    Some((raw(plan), raw(configuration)))
}

/// Returns whether an attribute belongs to a variant pack, which programs usually create for every execution.
pub(crate) fn is_variant_pack_attribute(name: Name) -> bool {
    (Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS.0..Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS.0 + 100).contains(&name.0)
}

/// The mode in which the heuristics propose fallback engines.
pub(crate) const FALLBACK_MODE: i64 = cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_FALLBACK.0 as i64;

/// A call that reads the results of the heuristics.
pub(crate) struct HeuristicsQuery {
    pub(crate) heuristics: Raw,
    pub(crate) requested: usize,
    /// The address for the number of results, which may be null.
    pub(crate) count: u64,
    pub(crate) elements: u64,
}

impl HeuristicsQuery {
    /// Returns the query of a call, unless it only requests the number of results.
    pub(crate) fn of(call: &Call<'_>) -> Option<Self> {
        if call.function != Id::CudnnBackendGetAttribute {
            return None;
        }
        let [heuristics, name, ty, requested, count, elements] = call.bits();
        let is_query = Name(number(name)) == Name::CUDNN_ATTR_ENGINEHEUR_RESULTS
            && Type(number(ty)) == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR
            && elements != 0;
        let requested = usize::try_from(requested.cast_signed()).ok().filter(|requested| is_query && *requested > 0)?;
        Some(HeuristicsQuery { heuristics: raw(heuristics), requested, count, elements })
    }

    pub(crate) fn results(&self) -> Option<usize> {
        // SAFETY: cuDNN has written the number if the program has passed an address.
        let count = unsafe { accepted_word(self.count) }?;
        usize::try_from(count.cast_signed()).ok()
    }
}

/// Returns whether a call creates a variant pack or sets its attributes. Layers that ignore executions pass on these
/// frequent calls without a lookup.
pub(crate) fn makes_variant_pack(call: &Call<'_>) -> bool {
    match call.function {
        Id::CudnnBackendSetAttribute => {
            let [_, name] = call.bits();
            is_variant_pack_attribute(Name(number(name)))
        }
        Id::CudnnBackendCreateDescriptor => {
            let [kind] = call.bits();
            Kind(number(kind)) == Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR
        }
        _ => false,
    }
}

pub(crate) fn is_descriptor_function(function: Id) -> bool {
    matches!(
        function,
        Id::CudnnBackendCreateDescriptor
            | Id::CudnnBackendDestroyDescriptor
            | Id::CudnnBackendInitialize
            | Id::CudnnBackendSetAttribute
            | Id::CudnnBackendGetAttribute
            | Id::CudnnBackendFinalize
    )
}

/// Returns whether a function executes a plan with a handle and a variant pack, or adds it to a CUDA graph.
#[inline]
pub(crate) fn is_execution(function: Id) -> bool {
    matches!(function, Id::CudnnBackendExecute | Id::CudnnBackendPopulateCudaGraph | Id::CudnnBackendUpdateCudaGraph)
}

/// Returns the first argument of a call whose first argument is a descriptor.
pub(crate) fn descriptor(call: &Call<'_>) -> Raw {
    let [descriptor] = call.bits();
    raw(descriptor)
}

pub(crate) fn raw(address: u64) -> Raw {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

pub(crate) fn number(bits: u64) -> u32 {
    bits as u32
}
