//! Contents as bytes that are equal for equal contents: a graph, an operation, a tensor, with all that is below it.
//! Neither addresses, nor the order in which attributes were set, nor how descriptors are shared have a part in them.
//! The devices for which a content is are listed beside the bytes: a program names them by handles or by descriptions.
//!
//! A content has such a form only if each attribute was set exactly as cuDNN declares it. Otherwise contents could be
//! equal here that cuDNN reads differently.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::content::{Attribute, Content};
use super::content::{Child, Value};
use super::elements::{Kind, Name, Type};
use super::handles::Handle;

/// Why a content has no canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Obstacle {
    /// A descriptor whose creation, or one of whose attributes, was not seen.
    Unseen,
    /// A descriptor of which it is not certain what cuDNN has.
    Uncertain,
    /// A kind of descriptor that these bindings do not know.
    UnknownKind(Kind),
    /// An attribute that was set in a way that cuDNN does not declare.
    Undeclared(Name),
    /// More elements than are kept.
    TooLarge(Name),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Unseen => f.write_str("a descriptor was not seen from its creation on"),
            Obstacle::Uncertain => {
                f.write_str("a descriptor was set twice, refused a change, was emptied, or was read from another one")
            }
            Obstacle::UnknownKind(kind) => write!(f, "{kind:?} is newer than this layer"),
            Obstacle::Undeclared(name) => write!(f, "{name:?} was set in a way that this layer does not know"),
            Obstacle::TooLarge(name) => write!(f, "{name:?} is too large"),
        }
    }
}

/// A device that a content names.
#[derive(Clone, Debug)]
pub(crate) enum Device {
    /// That of a handle.
    Handle(Handle),
    /// The one with this description in JSON; `None` if the descriptor was made in another way.
    Described(Option<super::elements::Bytes>),
}

/// Several contents, and what they have in common once.
#[derive(Default)]
pub(crate) struct Canonical {
    /// Each different content below, children before parents.
    nodes: Vec<Vec<u8>>,
    by_bytes: HashMap<Vec<u8>, u32>,
    /// With the contents, so that no other one gets the address of one that is here.
    by_address: HashMap<*const Content, (u32, Arc<Content>)>,
    /// The devices that attributes name, which the bytes do not have.
    pub(crate) devices: Vec<Device>,
}

impl Canonical {
    /// Adds a content and what is below it. Returns its number, which the bytes of others refer to.
    ///
    /// # Errors
    /// If a part of it is not understood.
    pub(crate) fn add(&mut self, content: &Arc<Content>) -> Result<u32, Obstacle> {
        if let Some((number, _)) = self.by_address.get(&Arc::as_ptr(content)) {
            return Ok(*number);
        }
        // What cuDNN filled, only cuDNN knows.
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

    /// Whether an attribute names the device, which is listed then.
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

    /// All contents. The numbers that [`add`](Canonical::add) returned are places in it.
    pub(crate) fn write(&self, to: &mut Bytes) {
        to.number(self.nodes.len() as u32);
        for node in &self.nodes {
            to.block(node);
        }
    }
}

/// Bytes that can be read in one way only.
#[derive(Default)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    pub(crate) fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    pub(crate) fn signed(&mut self, number: i64) {
        self.0.extend(number.to_le_bytes());
    }

    /// Bytes with their length before them.
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
    fn neither_order_nor_sharing_counts() {
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
    fn what_is_not_understood_has_no_form() {
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
    fn devices_are_listed_and_have_no_part_in_the_form() {
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
