//! Serializes the contents of descriptors, so that equal contents have equal bytes.
//!
//! The bytes cover a graph, operation or tensor with everything below it. They are independent of addresses, of the
//! order of attributes, and of sharing between descriptors. Devices are listed separately, because a program may refer
//! to them by handle or by description.
//!
//! This fails unless all attributes were set exactly as cuDNN declares them. Otherwise cuDNN could interpret equal
//! bytes in different ways.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::content::{Attribute, Content};
use super::content::{Child, Value};
use super::elements::{Kind, Name, Type};
use super::handles::Handle;

/// The reason why a content cannot be serialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Obstacle {
    /// The creation of a descriptor, or the setting of an attribute, was not seen.
    Unseen,
    /// The attributes of a descriptor are uncertain.
    Uncertain,
    /// The kind of descriptor is newer than these bindings.
    UnknownKind(Kind),
    /// An attribute was set with elements that cuDNN does not declare.
    Undeclared(Name),
    /// The attribute has too many elements.
    TooLarge(Name),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Unseen => f.write_str("the history of a descriptor is incomplete"),
            Obstacle::Uncertain => {
                f.write_str("a descriptor was set twice, rejected a change, was reset, or was read from another one")
            }
            Obstacle::UnknownKind(kind) => write!(f, "{kind:?} is unknown to this layer"),
            Obstacle::Undeclared(name) => write!(f, "{name:?} was set to undeclared elements"),
            Obstacle::TooLarge(name) => write!(f, "{name:?} is too large"),
        }
    }
}

/// A device that a content refers to.
#[derive(Clone, Debug)]
pub(crate) enum Device {
    /// The device of a handle.
    Handle(Handle),
    /// A device with this JSON description; `None` if the descriptor was created in a different way.
    Described(Option<super::elements::Bytes>),
}

/// Serialized contents without duplicates.
#[derive(Default)]
pub(crate) struct Canonical {
    /// The distinct contents, children before parents.
    nodes: Vec<Vec<u8>>,
    by_bytes: BTreeMap<Vec<u8>, u32>,
    /// Keeps the contents alive, because a new content could otherwise reuse a known address.
    by_address: BTreeMap<*const Content, (u32, Arc<Content>)>,
    /// The devices that attributes refer to. They are not part of the bytes.
    pub(crate) devices: Vec<Device>,
}

impl Canonical {
    /// Adds a content with everything below it. Returns the index that parents use to refer to it.
    ///
    /// # Errors
    /// The reason why a part of the content cannot be serialized.
    pub(crate) fn add(&mut self, content: &Arc<Content>) -> Result<u32, Obstacle> {
        if let Some((number, _)) = self.by_address.get(&Arc::as_ptr(content)) {
            return Ok(*number);
        }
        // The attributes of descriptors that cuDNN filled are unknown.
        if content.lacks_attributes || content.origin.is_some() {
            return Err(Obstacle::Unseen);
        }
        if content.is_uncertain {
            return Err(Obstacle::Uncertain);
        }
        if content.kind.name().is_none() {
            return Err(Obstacle::UnknownKind(content.kind));
        }
        let mut attributes: Vec<_> = content.attributes.iter().collect();
        attributes.retain(|attribute| !self.is_device(attribute));
        attributes.sort_by_key(|attribute| attribute.name.0);
        let mut bytes = Bytes::default();
        bytes.number(i64::from(content.kind.0) as u32);
        bytes.number(u32::from(content.is_finalized));
        bytes.number(attributes.len() as u32);
        for attribute in attributes {
            let (name, ty) = (attribute.name, attribute.ty);
            bytes.number(i64::from(name.0) as u32);
            bytes.number(i64::from(ty.0) as u32);
            bytes.0.extend(attribute.count.to_le_bytes());
            match &attribute.value {
                Value::Elements(elements) => bytes.block(elements.as_slice()),
                Value::Descriptors(children) => {
                    let numbers = children.iter().map(|child| match child {
                        Child::Known(child) => self.add(child),
                        Child::Unknown => Err(Obstacle::Unseen),
                    });
                    let numbers = numbers.collect::<Result<Vec<u32>, _>>()?;
                    bytes.block(&numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>());
                }
                Value::Undeclared => return Err(Obstacle::Undeclared(name)),
                Value::TooLarge => return Err(Obstacle::TooLarge(name)),
            }
        }
        let next = self.nodes.len() as u32;
        let number = *self.by_bytes.entry(bytes.0.clone()).or_insert(next);
        if number == next {
            self.nodes.push(bytes.0);
        }
        self.by_address.insert(Arc::as_ptr(content), (number, content.clone()));
        Ok(number)
    }

    /// Adds the device to the list if the attribute refers to one. Returns whether it does.
    fn is_device(&mut self, attribute: &Attribute) -> bool {
        match (&attribute.value, attribute.name) {
            (Value::Elements(elements), _) if attribute.ty == Type::CUDNN_TYPE_HANDLE => {
                self.devices.extend(Handle::all_in(elements.as_slice()).map(Device::Handle));
                true
            }
            (
                Value::Descriptors(children),
                Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP
                | Name::CUDNN_ATTR_ENGINE_DEVICEPROP
                | Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
            ) => {
                self.devices.extend(children.iter().map(|child| {
                    let text = child.content().and_then(|child| {
                        let is_one = child.attributes.len() == 1 && !child.lacks_attributes && !child.is_uncertain;
                        is_one
                            .then(|| child.elements(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).cloned())
                            .flatten()
                    });
                    Device::Described(text)
                }));
                true
            }
            _ => false,
        }
    }

    /// Writes all contents. The numbers that [`add`](Canonical::add) returned are indices into them.
    pub(crate) fn write(&self, to: &mut Bytes) {
        to.number(self.nodes.len() as u32);
        for node in &self.nodes {
            to.block(node);
        }
    }
}

/// A buffer with an unambiguous encoding.
#[derive(Default)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    pub(crate) fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    pub(crate) fn signed(&mut self, number: i64) {
        self.0.extend(number.to_le_bytes());
    }

    /// Writes the length, followed by the bytes.
    pub(crate) fn block(&mut self, bytes: &[u8]) {
        self.0.extend((bytes.len() as u64).to_le_bytes());
        self.0.extend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::content::Attribute;

    fn elements(name: Name, ty: Type, bytes: &[u8]) -> Attribute {
        let value = Value::Elements(super::super::elements::Bytes::new(bytes));
        Attribute { name, ty, count: 1, value }
    }

    fn content(kind: Kind, attributes: Vec<Attribute>) -> Arc<Content> {
        let mut content = Content::new(kind);
        attributes.into_iter().for_each(|attribute| _ = content.set(attribute));
        content.is_finalized = true;
        Arc::new(content)
    }

    fn tensor(uid: u8, is_reversed: bool) -> Arc<Content> {
        let mut attributes = vec![
            elements(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, &[uid, 0, 0, 0, 0, 0, 0, 0]),
            elements(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[2, 0, 0, 0]),
        ];
        if is_reversed {
            attributes.reverse();
        }
        content(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR, attributes)
    }

    fn operation(tensors: [&Arc<Content>; 2]) -> Arc<Content> {
        let names = [Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC];
        let attributes = names.into_iter().zip(tensors).map(|(name, tensor)| {
            let value = Value::Descriptors([Child::Known(tensor.clone())].into());
            Attribute { name, ty: Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, count: 1, value }
        });
        content(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, attributes.collect())
    }

    fn bytes(content: &Arc<Content>) -> Result<Vec<u8>, Obstacle> {
        let mut canonical = Canonical::default();
        let number = canonical.add(content)?;
        let mut bytes = Bytes::default();
        canonical.write(&mut bytes);
        bytes.number(number);
        Ok(bytes.0)
    }

    #[test]
    fn order_and_sharing_are_ignored() {
        let (one, two) = (tensor(1, false), tensor(2, false));
        let expected = bytes(&operation([&one, &two]));
        assert!(expected.is_ok());
        assert_eq!(bytes(&operation([&tensor(1, true), &tensor(2, true)])), expected);
        assert_ne!(bytes(&operation([&two, &one])), expected);
        let shared = bytes(&operation([&one, &one]));
        assert_eq!(bytes(&operation([&one, &tensor(1, false)])), shared);
        assert_ne!(shared, expected);
    }

    #[test]
    fn uncertain_contents_cannot_be_serialized() {
        let of = |attribute| bytes(&content(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR, vec![attribute]));
        let name = Name::CUDNN_ATTR_TENSOR_UNIQUE_ID;
        let ty = Type::CUDNN_TYPE_INT64;
        let valued = |value| Attribute { name, ty, count: 1, value };
        assert_eq!(of(valued(Value::Undeclared)), Err(Obstacle::Undeclared(name)));
        assert_eq!(of(valued(Value::TooLarge)), Err(Obstacle::TooLarge(name)));
        assert_eq!(of(valued(Value::Descriptors([Child::Unknown].into()))), Err(Obstacle::Unseen));
        assert_eq!(bytes(&content(Kind(9999), Vec::new())), Err(Obstacle::UnknownKind(Kind(9999))));
        let mut lacking = Content::clone(&tensor(1, false));
        lacking.lacks_attributes = true;
        assert_eq!(bytes(&Arc::new(lacking)), Err(Obstacle::Unseen));
    }

    #[test]
    fn devices_are_listed_and_not_serialized() {
        let name = Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE;
        let graph = |handle: Option<Handle>| {
            let handle = handle.map(|handle| elements(name, Type::CUDNN_TYPE_HANDLE, &handle.to_bytes()));
            content(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, handle.into_iter().collect())
        };
        let handle = Handle { address: 64, id: 7 };
        assert_eq!(bytes(&graph(Some(handle))), bytes(&graph(None)));
        let mut canonical = Canonical::default();
        assert!(canonical.add(&graph(Some(handle))).is_ok());
        assert!(matches!(canonical.devices.as_slice(), [Device::Handle(listed)] if *listed == handle));
    }
}
