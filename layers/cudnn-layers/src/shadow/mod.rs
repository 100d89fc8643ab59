//! What each backend descriptor has been given: it follows Create, SetAttribute, Finalize and Destroy. Shared by all
//! layers that need it; knows none of them, and makes no call of cuDNN.
//!
//! A layer reports each call of the program after cuDNN returned success, with the program's arguments; of the calls
//! that failed, those that may have changed a descriptor, by [`failed`]. [`destroying`] alone comes before the call:
//! once cuDNN has destroyed a descriptor, another thread may get a new one at its address. Two layers that report the
//! same call do no harm.
//!
//! | module | |
//! | --- | --- |
//! | [`content`] | what a descriptor was given, as a value that never changes: parents keep their children's |
//! | [`declared`] | which elements cuDNN declares for each attribute: others are not looked at |
//! | [`facts`] | what the program reads of descriptors that cuDNN made: engines, knobs, workspaces |
//! | [`value`] | the elements of attributes |
//! | [`label`] | a line about a content, for people |
//! | [`table`] | the living descriptors by address; forks |
//! | [`lock`] | waiting with a limit |
//!
//! Memory: what living descriptors were given, and what they refer to.

pub(crate) mod canonical;
pub(crate) mod content;
pub(crate) mod declared;
pub(crate) mod elements;
pub(crate) mod facts;
pub(crate) mod handles;
mod label;
mod table;
#[cfg(test)]
mod tests;

use std::ffi::c_void;
use std::sync::Arc;

use content::{Attribute, Child, Content, Value};
use elements::{Bytes, Kind, MAX_DESCRIPTORS, Name, Raw, Type};
use table::CachedLabel;

/// `cudnnBackendCreateDescriptor` has returned this descriptor.
pub(crate) fn created(kind: Kind, descriptor: Raw) {
    let content = Arc::new(Content::new(kind));
    let address = descriptor.addr();
    let _former = table::with(address, |part| part.insert(address, content));
}

/// `cudnnBackendInitialize` has emptied this descriptor.
pub(crate) fn initialized(descriptor: Raw) {
    let address = descriptor.addr();
    let _former = table::with(address, |part| {
        let record = part.get(address)?;
        record.label = None;
        let emptied = Arc::new(Content::emptied(record.content.kind));
        Some(std::mem::replace(&mut record.content, emptied))
    });
}

/// `cudnnBackendSetAttribute` has set an attribute.
///
/// # Safety
/// The arguments are those with which cuDNN returned success: if it declares elements of this type in this number, it
/// has read them.
pub(crate) unsafe fn attribute_set(descriptor: Raw, name: Name, ty: Type, count: i64, elements: *const c_void) {
    let address = descriptor.addr();
    let value = if elements.is_null() || !declared::is_declared(name, ty, count) {
        Value::Undeclared
    } else if ty == Type::CUDNN_TYPE_HANDLE {
        // SAFETY: the caller's obligation.
        unsafe { handles_at(count, elements) }
    } else if ty == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR {
        // Before the descriptor itself: never two locks at once.
        // SAFETY: the caller's obligation.
        unsafe { children(count, elements) }
    } else {
        // SAFETY: the caller's obligation.
        match unsafe { content::bytes_of(ty, count, elements.cast()) } {
            Ok(bytes) if bytes.len() <= MAX_SMALL => return small_attribute_set(address, name, ty, count, bytes),
            Ok(bytes) => Value::Elements(Bytes::new(bytes)),
            Err(value) => value,
        }
    };
    let _former = table::with(address, |part| {
        let record = part.get(address)?;
        record.label = None;
        Arc::make_mut(&mut record.content).set(Attribute { name, ty, count, value })
    });
}

/// `cudnnBackendSetAttribute` or `cudnnBackendInitialize` has failed for this descriptor: what it has changed is not
/// known.
pub(crate) fn failed(descriptor: Raw) {
    let address = descriptor.addr();
    let _former = table::with(address, |part| {
        let record = part.get(address)?;
        Arc::make_mut(&mut record.content).is_uncertain = true;
        record.label.take()
    });
}

/// As much as may be copied under the lock.
const MAX_SMALL: usize = 4096;

/// The path of nearly all attributes, and of the addresses of each step: without a copy besides that in its place.
fn small_attribute_set(address: usize, name: Name, ty: Type, count: i64, bytes: &[u8]) {
    let _former = table::with(address, |part| {
        let record = part.get(address)?;
        let former = record.label.take();
        Arc::make_mut(&mut record.content).set_elements(name, ty, count, bytes);
        former
    });
}

/// `cudnnBackendFinalize` has finalized a descriptor.
pub(crate) fn finalized(descriptor: Raw) {
    let address = descriptor.addr();
    table::with(address, |part| {
        let Some(record) = part.get(address) else { return };
        if !record.content.is_finalized {
            record.label = None;
            Arc::make_mut(&mut record.content).is_finalized = true;
        }
    });
}

/// `cudnnBackendDestroyDescriptor` is to be called with this descriptor.
pub(crate) fn destroying(descriptor: Raw) -> Destruction {
    let address = descriptor.addr();
    let known = table::with(address, |part| part.get(address).map(|record| (record.id, record.content.kind))).flatten();
    let (id, kind) = known.unzip();
    Destruction { address, id, kind }
}

/// A descriptor on its way out.
#[must_use]
pub(crate) struct Destruction {
    address: usize,
    id: Option<u64>,
    kind: Option<Kind>,
}

impl Destruction {
    /// The kind of the descriptor, if it was seen to be created.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// `cudnnBackendDestroyDescriptor` has returned success.
    pub(crate) fn succeeded(self) {
        let Some(id) = self.id else { return };
        let _former = table::with(self.address, |part| part.remove(self.address, id));
    }
}

/// `cudnnBackendGetAttribute` has returned an attribute: `count`, if it is not null, is what cuDNN wrote there.
///
/// # Safety
/// The arguments are those with which cuDNN returned success: it has written what it could to `count` and `elements`.
pub(crate) unsafe fn attribute_read(
    descriptor: Raw,
    name: Name,
    ty: Type,
    requested: i64,
    count: *const i64,
    elements: *const c_void,
) {
    // SAFETY: the caller's obligation. Without a count, nobody knows how many of several elements were written.
    let written = unsafe { count.as_ref() }.copied().unwrap_or(if requested == 1 { 1 } else { 0 });
    let written = usize::try_from(written.min(requested).min(declared::most(name, ty))).unwrap_or(0);
    if written == 0 || elements.is_null() {
        return;
    }
    let Some(source) = content(descriptor) else { return };
    if ty == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR {
        // SAFETY: the caller's obligation.
        unsafe { descriptors_read(&source, name, written, elements.cast()) };
    } else if let Some(facts) = &source.facts {
        let len = elements::element_size(ty).and_then(|size| written.checked_mul(size));
        // Texts are not learned from: the JSON of a plan.
        let is_text = ty == Type::CUDNN_TYPE_CHAR;
        let is_known = is_text || source.attribute(name).is_some();
        if let Some(len) = len.filter(|len| !is_known && *len <= MAX_FACT_BYTES) {
            // SAFETY: the caller's obligation.
            facts.learn(name, ty, unsafe { elements::bytes_at(elements.cast(), len) });
        }
    }
}

/// The largest value that is kept of what was read.
const MAX_FACT_BYTES: usize = 4096;

/// cuDNN has filled descriptors of the program.
///
/// # Safety
/// There are `count` descriptors at `elements`.
unsafe fn descriptors_read(source: &Arc<Content>, name: Name, count: usize, elements: *const Raw) {
    let count = count.min(MAX_DESCRIPTORS);
    let facts = source.facts.as_ref().map(|facts| facts.learn_children(name, count)).unwrap_or_default();
    for index in 0..count {
        // SAFETY: the caller's obligation.
        let address = unsafe { elements.add(index).read_unaligned() }.addr();
        let set = source.children(name).get(index).and_then(Child::content);
        let filled = |kind| {
            let content = match (set, facts.get(index)) {
                // What the program has set itself.
                (Some(set), _) => set.clone(),
                (None, Some(facts)) => Arc::new(Content::read_from(kind, source.clone(), facts.clone())),
                (None, None) => return None,
            };
            Some(if has_more_than_it_states(name) {
                Arc::new(Arc::unwrap_or_clone(content).uncertain())
            } else {
                content
            })
        };
        // Only the program's descriptors are followed: nobody would tell when cuDNN destroys others.
        let _former = table::with(address, |part| {
            let record = part.get(address)?;
            record.label = None;
            let filled = filled(record.content.kind)?;
            Some(std::mem::replace(&mut record.content, filled))
        });
    }
}

/// Whether a descriptor that cuDNN fills from this attribute may have what cuDNN does not state of it. An engine that
/// is read from a configuration keeps its knobs: a plan of another configuration of this engine, without knobs, is
/// compiled with them (cuDNN 9.19). What a configuration keeps that is read from a plan is not known.
fn has_more_than_it_states(name: Name) -> bool {
    matches!(name, Name::CUDNN_ATTR_ENGINECFG_ENGINE | Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
}

/// `cudnnGetExecutionPlanWorkspaceSize` has returned this size.
pub(crate) fn workspace_read(plan: Raw, size: usize) {
    let Some(content) = content(plan) else { return };
    if let Some(facts) = &content.facts {
        let size = size as i64;
        let name = Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
        facts.learn(name, Type::CUDNN_TYPE_INT64, &size.to_ne_bytes());
    }
}

/// What a descriptor has been given up to now; `None` if it was not seen to be created.
pub(crate) fn content(descriptor: Raw) -> Option<Arc<Content>> {
    let address = descriptor.addr();
    table::with(address, |part| part.get(address).map(|record| record.content.clone())).flatten()
}

/// A line about a descriptor, for people: see [`label`]. Made once, and again after the program has read more about the
/// engine or the workspace; cheap enough for every execution. `None` for a descriptor that was not seen to be created,
/// or of which there is nothing to say, such as a variant pack.
pub(crate) fn label(descriptor: Raw) -> Option<Arc<str>> {
    let address = descriptor.addr();
    let found = table::with(address, |part| {
        let record = part.get(address)?;
        Some(match &record.label {
            Some(label) if label.version == record.content.version() => Ok(label.text.clone()),
            _ => Err(record.content.clone()),
        })
    });
    let content = match found.flatten()? {
        Ok(text) => return text,
        Err(content) => content,
    };
    // Read before the label is made: what the program reads meanwhile makes it old.
    let version = content.version();
    let text: Option<Arc<str>> = label::of(&content).map(Arc::from);
    let made = CachedLabel { version, text: text.clone() };
    let _former = table::with(address, |part| {
        let record = part.get(address).filter(|record| Arc::ptr_eq(&record.content, &content))?;
        record.label.replace(made)
    });
    text
}

/// The handles that are elements of an attribute.
///
/// # Safety
/// `elements` points to `count` handles.
unsafe fn handles_at(count: i64, elements: *const c_void) -> Value {
    let count = usize::try_from(count).unwrap_or(0);
    if count > MAX_DESCRIPTORS {
        return Value::TooLarge;
    }
    let bytes = (0..count).flat_map(|index| {
        // SAFETY: the caller's obligation.
        let address = unsafe { elements.cast::<usize>().add(index).read_unaligned() };
        handles::living(address).to_bytes()
    });
    Value::Elements(Bytes::new(&bytes.collect::<Vec<u8>>()))
}

/// The graph that an engine, a configuration, a plan or a heuristics query is for.
pub(crate) fn graph_of(content: &Arc<Content>) -> Option<&Arc<Content>> {
    let mut levels = std::iter::successors(Some(content), |content| toward_graph(content));
    levels.find(|content| content.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
}

/// The next content on the way from a plan to its graph: the configuration, the engine or the heuristics.
pub(crate) fn toward_graph(content: &Arc<Content>) -> Option<&Arc<Content>> {
    let below = match content.kind {
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR => Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => Name::CUDNN_ATTR_ENGINECFG_ENGINE,
        Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
        _ => return None,
    };
    // One that cuDNN made is for the graph of what it was read from.
    content.child(below).or_else(|| content.origin.as_ref())
}

/// The contents of descriptors that are elements of an attribute.
///
/// # Safety
/// `elements` points to `count` descriptors.
unsafe fn children(count: i64, elements: *const c_void) -> Value {
    let count = usize::try_from(count).unwrap_or(0);
    if count > MAX_DESCRIPTORS {
        return Value::TooLarge;
    }
    let child = |index| {
        // SAFETY: the caller's obligation.
        let descriptor = unsafe { elements.cast::<Raw>().add(index).read_unaligned() };
        content(descriptor).map_or(Child::Unknown, Child::Known)
    };
    Value::Descriptors((0..count).map(child).collect())
}
