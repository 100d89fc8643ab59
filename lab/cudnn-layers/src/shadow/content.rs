//! Stores the attributes of a descriptor as an immutable snapshot.
//!
//! Changing a shared content replaces it, so that parents keep the state that a child had when it was added.

use std::sync::Arc;

use cudnn_graph::element_size;

use super::elements::{Bytes, Kind, MAX_BYTES, Name, Type, numbers};
use super::facts::DescriptorFacts;
use crate::program_memory::{accepted, accepted_text};

const MAX_ATTRIBUTES: usize = 256;
/// Maximum nesting of descriptors. cuDNN uses about 8 levels: plan, configuration, engine, graph, operation, tensor,
/// and a tensor of offsets.
const MAX_DEPTH: u8 = 32;

#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) kind: Kind,
    /// The attributes in the order in which they were first set.
    pub(crate) attributes: Vec<RecordedAttribute>,
    pub(crate) is_finalized: bool,
    /// The reason for which a layer refused the descriptor after cuDNN had finalized it.
    pub(crate) refusal: Option<Arc<str>>,
    /// Whether attributes were dropped because there are too many. Missing elements are marked by [`RecordedValue`].
    pub(crate) lacks_attributes: bool,
    /// cuDNN's state of the descriptor is uncertain, for one of these reasons:
    ///
    /// - cuDNN refused a change.
    /// - The descriptor was reinitialized.
    /// - cuDNN filled it with more than it reports.
    /// - An attribute was set again to a different value. cuDNN replaces most values, but adds operations to a graph.
    pub(crate) is_uncertain: bool,
    /// The descriptor from which this one was read.
    pub(crate) origin: Option<Arc<Content>>,
    /// The values that the program has read, or `None` for kinds without useful values.
    pub(crate) facts: Option<Arc<DescriptorFacts>>,
    depth: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct RecordedAttribute {
    pub(crate) name: Name,
    pub(crate) ty: Type,
    /// The count that the program passed.
    pub(crate) count: i64,
    pub(crate) value: RecordedValue,
}

#[derive(Clone, Debug)]
pub(crate) enum RecordedValue {
    /// A copy of the program's memory.
    Elements(Bytes),
    /// The contents of the descriptors at the time when the attribute was set.
    Descriptors(Arc<[Child]>),
    /// Not read, because cuDNN declares a different type or number of elements. See [`cudnn_graph::declared`].
    Undeclared,
    TooLarge,
}

/// The content of a descriptor, or `None` for a null pointer or a descriptor with an unknown origin.
pub(crate) type Child = Option<Arc<Content>>;

impl RecordedAttribute {
    /// Returns whether both are the same call, because two layers may report it.
    fn is_same(&self, other: &RecordedAttribute) -> bool {
        let is_same = match (&self.value, &other.value) {
            (RecordedValue::Elements(one), RecordedValue::Elements(other)) => one.as_slice() == other.as_slice(),
            (RecordedValue::Descriptors(one), RecordedValue::Descriptors(other)) => {
                let is_same = |(one, other): (&Child, &Child)| match (one, other) {
                    (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                    _ => false,
                };
                one.len() == other.len() && one.iter().zip(other.iter()).all(is_same)
            }
            (RecordedValue::Undeclared, RecordedValue::Undeclared) => true,
            _ => false,
        };
        is_same && (self.ty, self.count) == (other.ty, other.count)
    }
}

impl Content {
    pub(super) fn new(kind: Kind) -> Content {
        // These kinds are created often, and cuDNN does not add values to them.
        let is_plain =
            matches!(kind, Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR | Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        Content {
            kind,
            attributes: Vec::new(),
            is_finalized: false,
            refusal: None,
            lacks_attributes: false,
            is_uncertain: false,
            origin: None,
            facts: (!is_plain).then(Arc::default),
            depth: 0,
        }
    }

    pub(super) fn uncertain(self) -> Content {
        Content { is_uncertain: true, ..self }
    }

    /// Returns the content of a descriptor that cuDNN filled when the program read an attribute.
    pub(super) fn read_from(kind: Kind, origin: Arc<Content>, facts: Arc<DescriptorFacts>) -> Content {
        let depth = origin.depth.saturating_add(1);
        Content {
            is_finalized: true,
            origin: (depth < MAX_DEPTH).then_some(origin),
            facts: Some(facts),
            depth,
            ..Content::new(kind)
        }
    }

    pub(super) fn set(&mut self, mut attribute: RecordedAttribute) -> Option<RecordedAttribute> {
        if let RecordedValue::Descriptors(children) = &attribute.value {
            let deepest = children.iter().flatten().map(|child| child.depth).max();
            let depth = deepest.unwrap_or(0).saturating_add(1);
            if depth < MAX_DEPTH {
                self.depth = self.depth.max(depth);
            } else {
                attribute.value = RecordedValue::TooLarge;
            }
        }
        let is_full = self.attributes.len() >= MAX_ATTRIBUTES;
        match self.attributes.iter_mut().find(|known| known.name == attribute.name) {
            Some(known) => {
                self.is_uncertain |= !known.is_same(&attribute);
                Some(std::mem::replace(known, attribute))
            }
            None if is_full => {
                self.lacks_attributes = true;
                Some(attribute)
            }
            None => {
                self.attributes.push(attribute);
                None
            }
        }
    }

    pub(crate) fn without(&self, names: &[Name]) -> Content {
        let kept = self.attributes.iter().filter(|attribute| !names.contains(&attribute.name));
        Content { attributes: kept.cloned().collect(), origin: None, facts: None, ..self.clone() }
    }

    /// Returns the ids and addresses of a variant pack as bytes, if they are certain.
    pub(crate) fn variant_pack(&self) -> Option<[&[[u8; 8]]; 2]> {
        if self.kind != Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR || self.is_uncertain || self.lacks_attributes {
            return None;
        }
        let elements = |name, ty| match self.attribute(name) {
            None | Some(RecordedAttribute { count: 0, .. }) => Some(&[][..]),
            Some(RecordedAttribute { value: RecordedValue::Elements(bytes), ty: actual, .. }) if *actual == ty => {
                Some(bytes.as_slice().as_chunks().0)
            }
            _ => None,
        };
        let ids = elements(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::CUDNN_TYPE_INT64)?;
        let addresses = elements(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR)?;
        (ids.len() == addresses.len()).then_some([ids, addresses])
    }

    pub(crate) fn attribute(&self, name: Name) -> Option<&RecordedAttribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Returns the first descriptor of an attribute, if the program has set it.
    pub(crate) fn child(&self, name: Name) -> Option<&Arc<Content>> {
        self.children(name).first()?.as_ref()
    }

    pub(crate) fn children(&self, name: Name) -> &[Child] {
        match self.attribute(name) {
            Some(RecordedAttribute { value: RecordedValue::Descriptors(children), .. }) => children,
            _ => &[],
        }
    }

    /// Returns the integers of an attribute that the program has set or read.
    pub(crate) fn numbers(&self, name: Name) -> Vec<i64> {
        if let Some(RecordedAttribute { ty, value: RecordedValue::Elements(bytes), .. }) = self.attribute(name) {
            return numbers(*ty, bytes.as_slice());
        }
        self.facts.as_ref().map(|facts| facts.numbers(name)).unwrap_or_default()
    }

    pub(crate) fn number(&self, name: Name) -> Option<i64> {
        self.numbers(name).first().copied()
    }

    pub(crate) fn elements(&self, name: Name) -> Option<&Bytes> {
        match &self.attribute(name)?.value {
            RecordedValue::Elements(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A counter that increases when the program reads a value that may appear in the label.
    #[inline]
    pub(super) fn version(&self) -> u32 {
        let below = match self.kind {
            Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => self.child(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
            Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => self.child(Name::CUDNN_ATTR_ENGINECFG_ENGINE),
            _ => None,
        };
        let own = self.facts.as_ref().map_or(0, |facts| facts.version());
        below.map_or(own, |below| own.wrapping_add(below.version()))
    }
}

/// Returns a copy of elements other than descriptors, or the value to store instead.
///
/// # Safety
/// `elements` points to `count` elements of the type, and no thread modifies them during the call. A text may be
/// shorter than `count` if it ends with a NUL.
#[inline]
pub(super) unsafe fn elements_of(ty: Type, count: i64, elements: *const u8) -> RecordedValue {
    let Some(size) = element_size(ty) else { return RecordedValue::Undeclared };
    let (address, count) = (elements.expose_provenance() as u64, usize::try_from(count).unwrap_or(0));
    let bytes = if ty == Type::CUDNN_TYPE_CHAR {
        // cuDNN may not have read past the end of the text.
        // SAFETY: guaranteed by the caller.
        Some(unsafe { accepted_text(address, count.min(MAX_BYTES + 1)) })
    } else {
        let len = count.checked_mul(size).filter(|len| *len <= MAX_BYTES);
        // SAFETY: guaranteed by the caller.
        len.map(|len| unsafe { accepted(address, len) })
    };
    match bytes {
        Some(bytes) if bytes.len() <= MAX_BYTES => RecordedValue::Elements(Bytes::new(bytes)),
        _ => RecordedValue::TooLarge,
    }
}
