//! Creates cuDNN's descriptors for a graph.

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::Target;
use cudnn_capture_file::{Attribute, Graph, Node, Value};
use cudnn_loader::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind,
};

/// A descriptor that cuDNN has refused.
pub(super) struct Refused {
    /// cuDNN's error. `None` if the graph has no descriptors.
    pub(super) error: Option<Error>,
    /// The descriptor and, if one was refused, the attribute.
    pub(super) place: String,
}

/// Returns the graph's descriptor. A graph that is planned for a handle receives this handle instead of the program's.
pub(super) fn rebuild(graph: &Graph, target: Target<'_>) -> Result<Descriptor, Refused> {
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
        if let Target::Handle(handle) = target
            && (is_root || has_handle(node))
            && let Some(attribute) = handle_attribute(node.kind)
        {
            descriptor = descriptor.set(attribute, &[handle.raw()]).map_err(refused(None))?;
        }
        made.push(if node.is_finalized { descriptor.finalize().map_err(refused(None))? } else { descriptor });
    }
    made.pop().ok_or_else(|| Refused { error: None, place: "the graph has no descriptors".to_owned() })
}

/// Returns the attributes that do not depend on the process.
fn attributes(node: &Node) -> impl Iterator<Item = &Attribute> {
    node.attributes.iter().filter(|attribute| !matches!(attribute.value, Value::Handles(_)))
}

fn has_handle(node: &Node) -> bool {
    node.attributes.iter().any(|attribute| matches!(attribute.value, Value::Handles(_)))
}

#[allow(deprecated, reason = "cuDNN 9.0 to 9.7 have no device property, which replaces the handle")]
fn handle_attribute(kind: Kind) -> Option<Name> {
    (kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR).then_some(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
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
