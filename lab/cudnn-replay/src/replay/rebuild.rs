//! Creates cuDNN's descriptors for a graph.

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::Target;
use cudnn_capture_file::{Attribute, Graph, Node, Value};
use cudnn_loader::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind,
};

use crate::device::check_json;

/// A descriptor that cuDNN has refused.
pub(super) struct Refused {
    /// cuDNN's error. `None` if the descriptor needs something that is missing here, or must not be given to cuDNN.
    pub(super) error: Option<Error>,
    /// The descriptor and, if one was refused, the attribute.
    pub(super) place: String,
}

/// Returns the last descriptor, which is the graph or the descriptor of a failed call. The program's handles are replaced
/// by the target's handle or device.
pub(super) fn rebuild(graph: &Graph, target: Target<'_>) -> Result<Descriptor, Refused> {
    check_json(graph).map_err(|place| Refused { error: None, place })?;
    let mut made = Vec::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        let refused = |attribute: Option<&Attribute>| {
            let attribute = attribute.map(|attribute| format!(", {}", name(attribute.name.name(), attribute.name.0)));
            let place = format!(
                "descriptor {index} ({}){}",
                name(node.kind.name(), node.kind.0),
                attribute.unwrap_or_default()
            );
            move |error| Refused { error: Some(error), place }
        };
        let is_root = index + 1 == graph.nodes().len();
        let mut descriptor = Descriptor::new(node.kind).map_err(refused(None))?;
        for attribute in attributes(node) {
            descriptor = set(descriptor, attribute, &made).map_err(refused(Some(attribute)))?;
        }
        let (handle_attribute, device_attribute) = target_attributes(node.kind);
        match (target, handle_attribute, device_attribute) {
            (Target::Handle(handle), Some(attribute), _) if is_graph(node) && is_root || has_handle(node) => {
                descriptor = descriptor.set(attribute, &[handle.raw()]).map_err(refused(None))?;
            }
            (Target::Device(device), _, Some(attribute)) if node.value(attribute).is_none() => {
                descriptor = descriptor.set_descriptors(attribute, &[device]).map_err(refused(None))?;
            }
            // Graphs for described devices work without a handle.
            (Target::Device(_), Some(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE), _) => {}
            _ if has_handle(node) => {
                let place = format!("descriptor {index} ({}) needs a handle", name(node.kind.name(), node.kind.0));
                return Err(Refused { error: None, place });
            }
            _ => {}
        }
        made.push(if node.is_finalized { descriptor.finalize().map_err(refused(None))? } else { descriptor });
    }
    made.pop().ok_or_else(|| Refused { error: None, place: "the graph has no descriptors".to_owned() })
}

/// Returns whether a descriptor is a graph that can be planned.
pub(super) fn is_graph(node: &Node) -> bool {
    node.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && node.is_finalized
}

/// Returns the attributes that do not depend on the process.
fn attributes(node: &Node) -> impl Iterator<Item = &Attribute> {
    node.attributes.iter().filter(|attribute| !matches!(attribute.value, Value::Handles(_)))
}

fn has_handle(node: &Node) -> bool {
    node.attributes.iter().any(|attribute| matches!(attribute.value, Value::Handles(_)))
}

/// Returns the attributes of a kind that select the device: one for a handle, and one for a description.
#[allow(deprecated, reason = "cuDNN 9.0 to 9.7 have no device property, which replaces the handle")]
fn target_attributes(kind: Kind) -> (Option<Name>, Option<Name>) {
    match kind {
        Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => (Some(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE), None),
        Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
            (Some(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE), Some(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP))
        }
        Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR => (Some(Name::CUDNN_ATTR_DEVICEPROP_HANDLE), None),
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR => (None, Some(Name::CUDNN_ATTR_ENGINE_DEVICEPROP)),
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => (None, Some(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)),
        _ => (None, None),
    }
}

fn set(descriptor: Descriptor, attribute: &Attribute, made: &[Descriptor]) -> Result<Descriptor, Error> {
    let Attribute { name, ty, value } = attribute;
    if let Value::Nodes(places) = value {
        let children: Vec<&Descriptor> = places.iter().filter_map(|place| made.get(*place)).collect();
        return descriptor.set_descriptors(*name, &children);
    }
    let bytes = value.to_bytes(*ty);
    // Elements may need to be aligned to their size.
    let mut aligned = vec![0_u64; bytes.len().div_ceil(8)];
    // SAFETY: `aligned` is at least as long as `bytes`, and the two do not overlap.
    unsafe { aligned.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    let count = match *ty {
        // Texts are as long as their bytes, even if a damaged file states another count.
        Type::CUDNN_TYPE_CHAR => bytes.len() as i64,
        _ => value.count(*ty),
    };
    // SAFETY: the bytes contain that many elements of this type.
    unsafe { descriptor.set_raw(*name, *ty, count, aligned.as_ptr().cast()) }
}

/// Returns the name of an enumerator, or its number if it is unknown.
fn name(name: Option<&std::ffi::CStr>, number: impl Into<i64>) -> String {
    match name {
        Some(name) => name.to_string_lossy().into_owned(),
        None => format!("#{}", number.into()),
    }
}
