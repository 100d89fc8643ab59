//! Finds the devices to which a plan, an engine or a heuristics query refers.

use std::sync::Arc;

use cudnn_graph::MAX_NODES;

use super::content::{Content, RecordedValue};
use super::elements::{Bytes, Kind, Name, Type};
use super::handles::{self, Handle};

#[derive(Clone, Debug)]
pub(crate) enum ReferencedDevice {
    Handle(Handle),
    /// A device with this JSON description, up to the first NUL.
    Described(Bytes),
    /// A device that a descriptor has taken from a handle.
    DescribedByHandle(Handle),
    /// A device that was described in a different way.
    Unknown,
}

/// Returns the devices of a descriptor and its children. Its own devices come first.
pub(crate) fn devices(content: &Arc<Content>) -> Vec<ReferencedDevice> {
    let (mut found, mut remaining) = (Vec::new(), MAX_NODES);
    for level in std::iter::successors(Some(content), |content| super::toward_graph(content)) {
        add(level, super::toward_graph(level), &mut found, &mut remaining);
    }
    found
}

/// Returns a device of a descriptor and its children: a description, or otherwise the first live handle.
pub(crate) fn device(content: &Arc<Content>) -> Option<ReferencedDevice> {
    let mut all = devices(content);
    all.retain(|device| match device {
        ReferencedDevice::Handle(handle) | ReferencedDevice::DescribedByHandle(handle) => {
            handles::living(handle.address) == *handle
        }
        ReferencedDevice::Described(_) => true,
        ReferencedDevice::Unknown => false,
    });
    let described = all.iter().find(|device| !matches!(device, ReferencedDevice::Handle(_)));
    described.or(all.first()).cloned()
}

/// Adds the devices of a content and its children, except for the next level toward the graph.
fn add(content: &Content, below: Option<&Arc<Content>>, found: &mut Vec<ReferencedDevice>, remaining: &mut usize) {
    let Some(rest) = remaining.checked_sub(1) else { return };
    *remaining = rest;
    if rest == 0 {
        found.push(ReferencedDevice::Unknown);
    }
    if content.kind == Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR {
        found.push(described(content));
        return;
    }
    for attribute in &content.attributes {
        match &attribute.value {
            RecordedValue::Elements(elements) if attribute.ty == Type::CUDNN_TYPE_HANDLE => {
                found.extend(Handle::all_in(elements.as_slice()).map(ReferencedDevice::Handle));
            }
            RecordedValue::Descriptors(children) => {
                let others = children.iter().flatten();
                others
                    .filter(|child| below.is_none_or(|below| !Arc::ptr_eq(below, child)))
                    .for_each(|child| add(child, None, found, remaining));
            }
            _ => {}
        }
    }
}

fn described(device: &Content) -> ReferencedDevice {
    let [attribute] = device.attributes.as_slice() else { return ReferencedDevice::Unknown };
    match &attribute.value {
        _ if device.lacks_attributes || device.is_uncertain => ReferencedDevice::Unknown,
        RecordedValue::Elements(text) if attribute.name == Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION => {
            ReferencedDevice::Described(text.clone())
        }
        RecordedValue::Elements(handles) if attribute.name == Name::CUDNN_ATTR_DEVICEPROP_HANDLE => {
            Handle::all_in(handles.as_slice())
                .next()
                .map_or(ReferencedDevice::Unknown, ReferencedDevice::DescribedByHandle)
        }
        _ => ReferencedDevice::Unknown,
    }
}
