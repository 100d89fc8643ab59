//! Creates the descriptors of a graph with the loaded cuDNN.

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device;
use cudnn_graph::rebuild::{self, Functions, Target};
use cudnn_graph::{Graph, Node};
use cudnn_loader::{self as cudnn, Error, cudnnBackendDescriptorType_t as Kind, signatures};

use crate::device::check_json;

/// A descriptor that was refused.
pub type Refused = rebuild::Refused<Error>;

/// Returns a function of the loader, with a type that permits unwinding.
macro_rules! function {
    ($name:ident) => {
        // SAFETY: the types differ only in unwinding, and the loader's functions do not unwind.
        unsafe { std::mem::transmute::<signatures::$name, signatures::unwinding::$name>(cudnn::$name) }
    };
}

const FUNCTIONS: Functions<Error> = Functions {
    create: function!(cudnnBackendCreateDescriptor),
    set: function!(cudnnBackendSetAttribute),
    finalize: function!(cudnnBackendFinalize),
    destroy: function!(cudnnBackendDestroyDescriptor),
    // SAFETY: all functions are those of the loaded cuDNN.
    check: |status, function| unsafe { Error::check(status, function, cudnn::cudnnGetLastErrorString) },
};

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
    unsafe { rebuild::rebuild(graph, target, &FUNCTIONS).map(|raw| Descriptor::from_raw(raw)) }
}

pub(crate) fn is_graph(node: &Node) -> bool {
    node.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && node.is_finalized
}
