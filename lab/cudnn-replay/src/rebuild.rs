//! Creates the descriptors of a graph with the loaded cuDNN.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device;
use cudnn_graph::rebuild::{self, Backend, Target};
use cudnn_graph::{Graph, Node};
use cudnn_loader::{
    self as cudnn, Error, check, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptor_t as Raw, cudnnBackendDescriptorType_t as Kind,
};

use crate::device::check_json;

/// A descriptor that was refused.
pub type Refused = rebuild::Refused<Error>;

/// Returns the last descriptor, which is the graph or the descriptor of a failed call. The target's handle or device
/// replaces the program's handles.
///
/// # Errors
/// Returns the descriptor that cuDNN refused, that needs a handle, or that must not be passed to cuDNN.
pub fn rebuild(graph: &Graph, target: device::Target<'_>) -> Result<Descriptor, Refused> {
    check_json(graph).map_err(|place| Refused { error: None, place })?;
    let target = match target {
        device::Target::Handle(handle) => Target::Handle(handle.raw()),
        device::Target::Device(device) => Target::Device(device.raw()),
    };
    // SAFETY: the elements were checked, and the target outlives the call; the descriptor has no other owner.
    unsafe { rebuild::rebuild(graph, target, &Loaded).map(|raw| Descriptor::from_raw(raw)) }
}

pub(crate) fn is_graph(node: &Node) -> bool {
    node.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && node.is_finalized
}

struct Loaded;

impl Backend for Loaded {
    type Error = Error;

    fn create(&self, kind: Kind) -> Result<Raw, Error> {
        let mut raw = null_mut();
        // SAFETY: cuDNN writes the new descriptor to `raw`.
        unsafe { check!(cudnn::cudnnBackendCreateDescriptor(kind, &raw mut raw)) }?;
        Ok(raw)
    }

    unsafe fn set(
        &self,
        descriptor: Raw,
        name: Name,
        ty: Type,
        count: i64,
        elements: *const c_void,
    ) -> Result<(), Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { check!(cudnn::cudnnBackendSetAttribute(descriptor, name, ty, count, elements)) }
    }

    unsafe fn finalize(&self, descriptor: Raw) -> Result<(), Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { check!(cudnn::cudnnBackendFinalize(descriptor)) }
    }

    unsafe fn destroy(&self, descriptor: Raw) {
        // SAFETY: guaranteed by the caller. A failure only leaks the descriptor.
        let _ = unsafe { cudnn::cudnnBackendDestroyDescriptor(descriptor) };
    }
}
