//! Parses the key of a cached plan. This allows building the plan again for a different device or release.

use std::path::Path;

use cudnn_sys::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
};

use super::key::FORMAT;
use super::variables::Variables;
use super::{device, environment as process};
use crate::shadow::elements::element_size;

/// The inputs of a plan, as parsed from a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// The graph with its operations and tensors, followed by the descriptors that refer to it. Children come before
    /// parents.
    pub descriptors: Vec<RecordedDescriptor>,
    /// The index of the graph in `descriptors`.
    pub graph: usize,
    /// The indices of the plan, its configuration, and the engine or heuristics, as set by the program.
    pub levels: Vec<usize>,
    /// The engine's index.
    pub engine: i64,
    /// The maximum number of multiprocessors, if limited.
    pub multiprocessors: Option<i32>,
    /// The engine's knobs, as pairs of type and value.
    pub knobs: Vec<(u32, i64)>,
    /// The part of the key after the device.
    rest: Vec<u8>,
}

/// A descriptor of the backend API.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedDescriptor {
    /// The kind of descriptor.
    pub kind: Kind,
    /// Whether the program finalized it.
    pub is_finalized: bool,
    /// The attributes that the program set.
    pub attributes: Vec<RecordedAttribute>,
}

/// An attribute of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedAttribute {
    /// The attribute's name.
    pub name: Name,
    /// The type of the elements.
    pub ty: Type,
    /// The number of elements.
    pub count: i64,
    /// The elements, as indices of descriptors or as raw bytes.
    pub elements: Elements,
}

/// The elements of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Elements {
    /// The raw bytes of the elements. There may be more bytes than `count` elements need.
    Bytes(Vec<u8>),
    /// Indices of descriptors, which are lower than the index of the descriptor that refers to them.
    Descriptors(Vec<usize>),
}

impl Recorded {
    /// Parses a key. Returns `None` if it was created by an incompatible release of this crate.
    #[must_use]
    pub fn parse(key: &[u8]) -> Option<Self> {
        let mut bytes = Reader(key);
        if bytes.block()? != FORMAT {
            return None;
        }
        let (_environment, _device) = (bytes.block()?, bytes.block()?);
        let rest = bytes.0.to_vec();
        let count = bytes.count()?;
        let mut descriptors = Vec::new();
        for place in 0..count {
            descriptors.push(descriptor(bytes.block()?, place)?);
        }
        let graph = bytes.place(count)?;
        let levels = (0..bytes.count()?).map(|_| bytes.place(count)).collect::<Option<_>>()?;
        let engine = bytes.signed()?;
        let multiprocessors = bytes.signed().map(|limit| i32::try_from(limit).ok().filter(|limit| *limit > 0))?;
        let knobs = (0..bytes.count()?).map(|_| Some((bytes.number()?, bytes.signed()?))).collect::<Option<_>>()?;
        bytes.0.is_empty().then_some(Recorded { descriptors, graph, levels, engine, multiprocessors, knobs, rest })
    }

    /// Returns the key of the same plan for another device, given as cuDNN's JSON description, and another
    /// [`environment`].
    #[must_use]
    pub fn key_for(&self, environment: &[u8], device_description: &[u8]) -> Vec<u8> {
        let mut bytes = crate::shadow::canonical::Bytes::default();
        bytes.block(FORMAT);
        bytes.block(environment);
        bytes.block(&device::canonical(device_description));
        bytes.0.extend(&self.rest);
        bytes.0
    }
}

/// Describes the inputs that all plans of this process share: the cuDNN release as returned by `cudnnGetVersion`, the
/// builds of the libraries in its directory, and the variables that affect compiled code.
///
/// # Errors
/// Names the directory or library that cannot be read.
pub fn environment(cudnn_version: u32, cudnn_dir: &Path) -> Result<Vec<u8>, String> {
    process::describe(cudnn_version, cudnn_dir, &Variables::now())
}

/// Returns the device name from a JSON description.
#[must_use]
pub fn device_name(description: &[u8]) -> String {
    device::name(description)
}

fn descriptor(bytes: &[u8], place: usize) -> Option<RecordedDescriptor> {
    let mut bytes = Reader(bytes);
    let kind = Kind(bytes.number()? as _);
    let is_finalized = bytes.number()? != 0;
    let mut attributes = Vec::new();
    for _ in 0..bytes.count()? {
        let (name, ty) = (Name(bytes.number()? as _), Type(bytes.number()? as _));
        let count = bytes.signed()?;
        let elements = bytes.block()?.to_vec();
        let elements = if ty == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR {
            let mut elements = Reader(&elements);
            let mut places = Vec::new();
            while !elements.0.is_empty() {
                places.push(elements.place(place)?);
            }
            Elements::Descriptors(places)
        } else {
            // Callers that set the attribute again rely on this length.
            let len = usize::try_from(count).ok()?.checked_mul(element_size(ty)?)?;
            if elements.len() < len {
                return None;
            }
            Elements::Bytes(elements)
        };
        attributes.push(RecordedAttribute { name, ty, count, elements });
    }
    bytes.0.is_empty().then_some(RecordedDescriptor { kind, is_finalized, attributes })
}

/// Reads the format of [`Bytes`](crate::shadow::canonical::Bytes).
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn signed(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Reads the number of items, which take at least one byte each.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    /// Reads an index below `limit`.
    fn place(&mut self, limit: usize) -> Option<usize> {
        let place = usize::try_from(self.number()?).ok()?;
        (place < limit).then_some(place)
    }

    fn block(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.signed()?).ok()?;
        self.take(len)
    }
}
