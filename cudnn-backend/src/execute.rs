//! Runs a plan on GPU memory.

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::cudnn::{self, Error, check, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use crate::descriptor::Descriptor;
use crate::gpu::Memory;
use crate::handle::Handle;
use crate::plan::Plan;

/// The memory for running a plan: the workspace, and a buffer for the id of every non-virtual tensor.
pub struct VariantPack<'a> {
    descriptor: Descriptor,
    memory: PhantomData<&'a Memory>,
}

impl<'a> VariantPack<'a> {
    /// Assigns memory to the ids.
    ///
    /// # Errors
    /// Returns an error if cuDNN rejects the pack.
    pub fn new(tensors: &[(i64, &'a Memory)], workspace: &'a Memory) -> Result<Self, Error> {
        let uids: Vec<i64> = tensors.iter().map(|(uid, _)| *uid).collect();
        let pointers: Vec<*const c_void> = tensors.iter().map(|(_, memory)| memory.address()).collect();
        let descriptor = Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &uids)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &pointers)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[workspace.address()])?
            .finalize()?;
        Ok(VariantPack { descriptor, memory: PhantomData })
    }

    /// Returns cuDNN's finalized descriptor of the pack.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }
}

impl Plan {
    /// Queues the plan on the handle's stream without waiting for it.
    ///
    /// # Safety
    /// Every buffer of the pack must be as large as the tensor, the workspace as large as the plan requires, and the
    /// handle must belong to the plan. The buffers may be dropped immediately, because they are freed on the default
    /// stream after all work that is queued there. If the handle uses another stream (`cudnnSetStream`), synchronize it
    /// first.
    ///
    /// # Errors
    /// Returns an error if cuDNN rejects the pack, or cannot queue the work.
    pub unsafe fn execute(&self, handle: &Handle, pack: &VariantPack<'_>) -> Result<(), Error> {
        // SAFETY: plan and pack are finalized and live; the caller guarantees the rest.
        unsafe { check!(cudnn::cudnnBackendExecute(handle.raw(), self.descriptor.raw(), pack.descriptor.raw())) }
    }
}
