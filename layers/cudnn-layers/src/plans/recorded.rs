//! What a plan was made of, read back from its key: so that it can be planned again, for another device or another
//! release.

use std::path::Path;

use cudnn_sys::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
};

use super::key::FORMAT;
use super::variables::Variables;
use super::{device, environment as process};
use crate::shadow::elements::element_size;

/// A plan's key in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// The graph, its operations and tensors, and what the program set above it; children before parents.
    pub descriptors: Vec<RecordedDescriptor>,
    /// The graph's place among them.
    pub graph: usize,
    /// The places of what the program set in the plan, its configuration, and the engine or the heuristics.
    pub levels: Vec<usize>,
    /// The number of the engine.
    pub engine: i64,
    /// The multiprocessors to use, if they were limited.
    pub multiprocessors: Option<i32>,
    /// The engine's knobs: number and value.
    pub knobs: Vec<(u32, i64)>,
    /// All of the key behind the device.
    rest: Vec<u8>,
}

/// A descriptor of the backend API.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedDescriptor {
    /// Its kind.
    pub kind: Kind,
    /// The program finalized it.
    pub is_finalized: bool,
    /// What the program set.
    pub attributes: Vec<RecordedAttribute>,
}

/// An attribute of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedAttribute {
    /// The attribute.
    pub name: Name,
    /// The type of its elements.
    pub ty: Type,
    /// How many there are.
    pub count: i64,
    /// The elements: places among the descriptors, or bytes as cuDNN reads them.
    pub elements: Elements,
}

/// The elements of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Elements {
    /// The bytes: as many as the elements of the type have, or more.
    Bytes(Vec<u8>),
    /// Descriptors, by their places. Each is before the one that has it.
    Descriptors(Vec<usize>),
}

impl Recorded {
    /// Reads a key. `None` for one that another release of this crate has made.
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

    /// The key of the same plan for a device, as cuDNN describes it in JSON, and an [`environment`].
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

/// What all plans of this process depend on: the release of cuDNN, as `cudnnGetVersion` numbers it, the builds of the
/// libraries in its directory, and variables that change what it computes.
///
/// # Errors
/// The library that cannot be read.
pub fn environment(cudnn_version: u32, cudnn_dir: &Path) -> Result<Vec<u8>, String> {
    process::describe(cudnn_version, cudnn_dir, &Variables::now())
}

/// The name of a device in its description.
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
            // Whoever sets them again may rely on it.
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

/// Reads what [`Bytes`](crate::shadow::canonical::Bytes) wrote.
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

    /// A number of things, each of which takes a byte or more.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    /// A place among so many.
    fn place(&mut self, limit: usize) -> Option<usize> {
        let place = usize::try_from(self.number()?).ok()?;
        (place < limit).then_some(place)
    }

    fn block(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.signed()?).ok()?;
        self.take(len)
    }
}
