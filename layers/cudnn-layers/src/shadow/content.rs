//! What one descriptor has been given. Never changes while somebody else has it: a descriptor that gets more attributes
//! gets another content then. So a parent keeps what its children were when it got them, whatever becomes of them.

use std::sync::Arc;

use super::elements::{Bytes, Kind, MAX_BYTES, Name, Type, bytes_at, element_size, numbers};
use super::facts::Facts;

/// More attributes than any kind of descriptor has.
const MAX_ATTRIBUTES: usize = 256;
/// Descriptors below descriptors. cuDNN's have some 8 levels: a plan, its configuration, the engine, the graph, the
/// operation, the tensor, the tensor with its offsets.
const MAX_DEPTH: u8 = 32;

/// What a descriptor has been given.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) kind: Kind,
    /// In the order in which they were first set.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) is_finalized: bool,
    /// It was given more attributes than are kept. See also [`Value`] for those of which no elements are kept.
    pub(crate) lacks_attributes: bool,
    /// What cuDNN has of it is not certain in each release. A change of it was refused; it was emptied; cuDNN filled it
    /// with more than it states; or an attribute was set again, to something else: cuDNN replaces most values, but adds
    /// operations to those that a graph has.
    pub(crate) is_uncertain: bool,
    /// The descriptor that this one was read from.
    pub(crate) origin: Option<Arc<Content>>,
    /// What the program has read from it. `None` for kinds of which there is nothing to learn.
    pub(crate) facts: Option<Arc<Facts>>,
    depth: u8,
}

/// An attribute that the program has set.
#[derive(Clone, Debug)]
pub(crate) struct Attribute {
    pub(crate) name: Name,
    pub(crate) ty: Type,
    /// As the program gave it.
    pub(crate) count: i64,
    pub(crate) value: Value,
}

/// The elements of an attribute.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// As in the program's memory.
    Elements(Bytes),
    /// The descriptors' contents at the time when the attribute was set.
    Descriptors(Arc<[Child]>),
    /// Not read: cuDNN does not declare elements of this type, or not in this number. See
    /// [`declared`](super::declared).
    Undeclared,
    /// Not kept, because of the size.
    TooLarge,
}

/// An element that is a descriptor.
#[derive(Clone, Debug)]
pub(crate) enum Child {
    Known(Arc<Content>),
    /// A null pointer, or a descriptor that was not seen to be created.
    Unknown,
}

impl Attribute {
    /// The very same: two layers may report one call.
    fn is_same(&self, other: &Attribute) -> bool {
        let is_same = match (&self.value, &other.value) {
            (Value::Elements(one), Value::Elements(other)) => one.as_slice() == other.as_slice(),
            (Value::Descriptors(one), Value::Descriptors(other)) => {
                let is_same = |(one, other): (&Child, &Child)| match (one.content(), other.content()) {
                    (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                    _ => false,
                };
                one.len() == other.len() && one.iter().zip(other.iter()).all(is_same)
            }
            (Value::Undeclared, Value::Undeclared) => true,
            _ => false,
        };
        is_same && (self.ty, self.count) == (other.ty, other.count)
    }
}

impl Content {
    /// A descriptor that was just created.
    pub(super) fn new(kind: Kind) -> Content {
        // They know nothing that the program did not set, and a program makes many.
        let is_plain =
            matches!(kind, Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR | Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        Content {
            kind,
            attributes: Vec::new(),
            is_finalized: false,
            lacks_attributes: false,
            is_uncertain: false,
            origin: None,
            facts: (!is_plain).then(Arc::default),
            depth: 0,
        }
    }

    /// A descriptor that `cudnnBackendInitialize` has emptied.
    pub(super) fn emptied(kind: Kind) -> Content {
        Content::new(kind).uncertain()
    }

    /// The same, but that cuDNN may have something else.
    pub(super) fn uncertain(self) -> Content {
        Content { is_uncertain: true, ..self }
    }

    /// A descriptor that cuDNN filled when the program read an attribute of another one.
    pub(super) fn read_from(kind: Kind, origin: Arc<Content>, facts: Arc<Facts>) -> Content {
        let depth = origin.depth.saturating_add(1);
        Content {
            is_finalized: true,
            origin: (depth < MAX_DEPTH).then_some(origin),
            facts: Some(facts),
            depth,
            ..Content::new(kind)
        }
    }

    /// Sets an attribute. Returns the one that it had before.
    pub(super) fn set(&mut self, mut attribute: Attribute) -> Option<Attribute> {
        if let Value::Descriptors(children) = &attribute.value {
            let deepest = children.iter().filter_map(Child::content).map(|child| child.depth).max();
            let depth = deepest.unwrap_or(0).saturating_add(1);
            if depth < MAX_DEPTH {
                self.depth = self.depth.max(depth);
            } else {
                attribute.value = Value::TooLarge;
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

    /// Sets an attribute to elements that are no descriptors.
    #[inline]
    pub(super) fn set_elements(&mut self, name: Name, ty: Type, count: i64, bytes: &[u8]) {
        let is_full = self.attributes.len() >= MAX_ATTRIBUTES;
        match self.attributes.iter_mut().find(|known| known.name == name) {
            Some(Attribute { ty: known_ty, count: known_count, value: Value::Elements(known), .. }) => {
                self.is_uncertain |= (*known_ty, *known_count, known.as_slice()) != (ty, count, bytes);
                (*known_ty, *known_count) = (ty, count);
                known.assign(bytes);
            }
            Some(known) => {
                self.is_uncertain = true;
                *known = Attribute { name, ty, count, value: Value::Elements(Bytes::new(bytes)) };
            }
            None if is_full => self.lacks_attributes = true,
            None => self.attributes.push(Attribute { name, ty, count, value: Value::Elements(Bytes::new(bytes)) }),
        }
    }

    /// What the program has set, without these attributes.
    pub(crate) fn without(&self, names: &[Name]) -> Content {
        let kept = self.attributes.iter().filter(|attribute| !names.contains(&attribute.name));
        Content { attributes: kept.cloned().collect(), origin: None, facts: None, ..self.clone() }
    }

    /// An attribute that the program has set.
    pub(crate) fn attribute(&self, name: Name) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// An attribute's first descriptor, if the program has set it.
    pub(crate) fn child(&self, name: Name) -> Option<&Arc<Content>> {
        self.children(name).first()?.content()
    }

    /// An attribute's descriptors, if the program has set it.
    pub(crate) fn children(&self, name: Name) -> &[Child] {
        match self.attribute(name) {
            Some(Attribute { value: Value::Descriptors(children), .. }) => children,
            _ => &[],
        }
    }

    /// An attribute's whole numbers, whether the program has set it or read it.
    pub(crate) fn numbers(&self, name: Name) -> Vec<i64> {
        if let Some(Attribute { ty, value: Value::Elements(bytes), .. }) = self.attribute(name) {
            return numbers(*ty, bytes.as_slice());
        }
        let fact = self.facts.as_ref().and_then(|facts| facts.elements(name));
        fact.map(|(ty, bytes)| numbers(ty, bytes.as_slice())).unwrap_or_default()
    }

    /// An attribute that is one whole number.
    pub(crate) fn number(&self, name: Name) -> Option<i64> {
        self.numbers(name).first().copied()
    }

    /// An attribute's elements, if the program has set it.
    pub(crate) fn elements(&self, name: Name) -> Option<&Bytes> {
        match &self.attribute(name)?.value {
            Value::Elements(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Grows whenever the program reads something that may appear in the label.
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

impl Child {
    pub(crate) fn content(&self) -> Option<&Arc<Content>> {
        match self {
            Child::Known(content) => Some(content),
            Child::Unknown => None,
        }
    }
}

/// The bytes of elements of any type but descriptors, or what is kept in their place.
///
/// # Safety
/// `elements` points to `count` elements of the type. Nobody writes them for as long as the slice lives. A text may be
/// shorter if it ends with a NUL.
#[inline]
pub(super) unsafe fn bytes_of<'a>(ty: Type, count: i64, elements: *const u8) -> Result<&'a [u8], Value> {
    let Some(size) = element_size(ty) else { return Err(Value::Undeclared) };
    let mut count = usize::try_from(count).unwrap_or(0);
    if ty == Type::CUDNN_TYPE_CHAR {
        // cuDNN may not have looked behind the end of the text.
        // SAFETY: the caller's obligation; no byte behind the first NUL is read.
        count = (0..count.min(MAX_BYTES + 1)).find(|at| unsafe { *elements.add(*at) } == 0).unwrap_or(count);
    }
    match count.checked_mul(size) {
        // SAFETY: the caller's obligation.
        Some(len) if len <= MAX_BYTES => Ok(unsafe { bytes_at(elements, len) }),
        _ => Err(Value::TooLarge),
    }
}
