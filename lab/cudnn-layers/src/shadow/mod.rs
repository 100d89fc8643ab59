//! Tracks the attributes of every backend descriptor by following the program's calls.
//!
//! All layers that need this information share it. It makes no cuDNN calls. Layers report successful calls with the
//! program's arguments after cuDNN has returned. If a failed call may have changed a descriptor, they report it with
//! [`failed`]. Only [`destroying`] must be called before cuDNN, because another thread may get a new descriptor at the
//! same address once the old one is destroyed. Two layers may report the same call.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`calls`] | reports calls from the arguments of a generic wrapper |
//! | [`content`] | the attributes of a descriptor and its children as an immutable value |
//! | [`mod@graph`] | converts a content to a graph |
//! | [`facts`] | values that the program reads from cuDNN: engines, knobs, workspace sizes |
//! | [`elements`] | copies of attribute elements |
//! | [`label`] | describes a content in one line |
//! | [`devices`] | the devices that a content refers to |
//! | [`table`] | finds live descriptors by address |
//!
//! Memory use grows with the number of live descriptors and the contents to which they refer.

pub(crate) mod calls;
pub(crate) mod content;
pub(crate) mod devices;
pub(crate) mod elements;
pub(crate) mod facts;
mod graph;
pub(crate) mod handles;
mod label;
mod table;
#[cfg(test)]
mod tests;

use std::ffi::c_void;
use std::sync::Arc;

use cudnn_graph::{declared, element_size};

use content::{Content, RecordedAttribute, RecordedValue};
use elements::{Bytes, Kind, MAX_DESCRIPTORS, Name, Raw, Type};
use table::{CachedLabel, ShadowEntry, TABLE};

use crate::fork::AtFork;
use crate::program_memory::{accepted, accepted_word, accepted_words};
use crate::trial;

pub(crate) use graph::{UNSEEN, graph, known_parts, too_many};
pub(crate) use label::{bytes, place};

pub(crate) static AT_FORK: &[AtFork] =
    &[AtFork::Inherited(&TABLE), AtFork::Inherited(&facts::GATE), AtFork::Inherited(&handles::HANDLES)];

/// Call this when `cudnnBackendCreateDescriptor` has returned a descriptor.
pub(crate) fn created(kind: Kind, descriptor: Raw) {
    TABLE.insert(descriptor.addr(), ShadowEntry::new(Arc::new(Content::new(kind))));
}

/// Call this when `cudnnBackendInitialize` has reset a descriptor.
pub(crate) fn initialized(descriptor: Raw) {
    let _former = TABLE.with_value(descriptor.addr(), |record| {
        record.replace(Arc::new(Content::new(record.content.kind).uncertain()))
    });
}

/// Call this when `cudnnBackendSetAttribute` has set an attribute.
///
/// # Safety
/// cuDNN returned success for these arguments, so that declared elements are readable.
pub(crate) unsafe fn attribute_set(descriptor: Raw, name: Name, ty: Type, count: i64, elements: *const c_void) {
    let value = if elements.is_null() || !declared::is_declared(name, ty, count) {
        RecordedValue::Undeclared
    } else if ty == Type::CUDNN_TYPE_HANDLE {
        // SAFETY: guaranteed by the caller.
        unsafe { handles_at(count, elements) }
    } else if ty == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR {
        // Run this before the descriptor itself is locked, because it takes other locks.
        // SAFETY: guaranteed by the caller.
        unsafe { children(count, elements) }
    } else {
        // SAFETY: guaranteed by the caller.
        unsafe { content::elements_of(ty, count, elements.cast()) }
    };
    let attribute = RecordedAttribute { name, ty, count, value };
    let _former = TABLE.with_value(descriptor.addr(), |record| record.change(|content| content.set(attribute)));
}

/// Call this when `cudnnBackendSetAttribute` or `cudnnBackendInitialize` has failed. The descriptor may have changed.
pub(crate) fn failed(descriptor: Raw) {
    let _former = TABLE.with_value(descriptor.addr(), |record| record.change(|content| content.is_uncertain = true));
}

/// Call this when `cudnnBackendFinalize` has finalized a descriptor.
pub(crate) fn finalized(descriptor: Raw) {
    let _former = TABLE.with_value(descriptor.addr(), |record| {
        let is_changed = !record.content.is_finalized;
        is_changed.then(|| record.change(|content| content.is_finalized = true))
    });
}

/// Call this when a layer refuses a descriptor that cuDNN has finalized.
pub(crate) fn refused(descriptor: Raw, reason: &Arc<str>) {
    let _former = TABLE.with_value(descriptor.addr(), |record| {
        record.change(|content| {
            content.is_finalized = false;
            content.refusal.replace(reason.clone())
        })
    });
}

/// Call this before `cudnnBackendDestroyDescriptor`.
pub(crate) fn destroying(descriptor: Raw) -> Destruction {
    let address = descriptor.addr();
    let known = TABLE.with_value(address, |record| (record.id, record.content.kind));
    let (id, kind) = known.unzip();
    Destruction { address, id, kind }
}

#[must_use]
pub(crate) struct Destruction {
    address: usize,
    id: Option<u64>,
    kind: Option<Kind>,
}

impl Destruction {
    /// Returns the kind of the descriptor, unless its creation bypassed the layers.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Call this when `cudnnBackendDestroyDescriptor` has returned success.
    pub(crate) fn succeeded(self) {
        let Some(id) = self.id else { return };
        TABLE.remove_if(self.address, |record| record.id == id);
    }
}

/// Call this when `cudnnBackendGetAttribute` has returned an attribute. The caller's `count` may be null.
///
/// # Safety
/// cuDNN returned success for these arguments and has written the results to `count` and `elements`.
pub(crate) unsafe fn attribute_read(
    descriptor: Raw,
    name: Name,
    ty: Type,
    requested: i64,
    count: *const i64,
    elements: *const c_void,
) {
    // SAFETY: guaranteed by the caller. Without a count, the number of written elements is known only for one element.
    let written = unsafe { accepted_word(count.expose_provenance() as u64) }.map(u64::cast_signed);
    let written = written.unwrap_or(if requested == 1 { 1 } else { 0 });
    let written = usize::try_from(written.min(requested).min(declared::most(name, ty))).unwrap_or(0);
    if written == 0 || elements.is_null() {
        return;
    }
    let Some(source) = content(descriptor) else { return };
    if ty == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR {
        // SAFETY: guaranteed by the caller.
        unsafe { descriptors_read(&source, name, written, elements.cast()) };
    } else if let Some(facts) = &source.facts {
        let len = element_size(ty).and_then(|size| written.checked_mul(size));
        // Texts are ignored because they are large, such as the JSON of a plan.
        let is_text = ty == Type::CUDNN_TYPE_CHAR;
        // The layer `tuned` reads proposals in another order, so its own descriptors must not change the shared facts.
        let is_known = is_text || trial::is_in_other_order() || source.attribute(name).is_some();
        if let Some(len) = len.filter(|len| !is_known && *len <= MAX_FACT_BYTES) {
            // SAFETY: guaranteed by the caller.
            facts.learn(name, ty, unsafe { accepted(elements.expose_provenance() as u64, len) });
        }
    }
}

const MAX_FACT_BYTES: usize = 4096;

/// Call this when cuDNN has filled descriptors of the program.
///
/// # Safety
/// `elements` points to `count` descriptors.
unsafe fn descriptors_read(source: &Arc<Content>, name: Name, count: usize, elements: *const Raw) {
    let count = count.min(MAX_DESCRIPTORS);
    let facts = source.facts.as_ref().map(|facts| facts.learn_children(name, count)).unwrap_or_default();
    // SAFETY: guaranteed by the caller.
    let descriptors = unsafe { accepted_words(elements.expose_provenance() as u64, count) };
    for (index, address) in descriptors.enumerate() {
        let address = address as usize;
        let set = source.children(name).get(index).and_then(Option::as_ref);
        let filled = |kind| {
            let content = match (set, facts.get(index)) {
                // The program set this descriptor itself.
                (Some(set), _) => set.clone(),
                (None, Some(facts)) => Arc::new(Content::read_from(kind, source.clone(), facts.clone())),
                (None, None) => return None,
            };
            Some(if may_have_hidden_state(name) {
                Arc::new(Arc::unwrap_or_clone(content).uncertain())
            } else {
                content
            })
        };
        // Only the program's descriptors are tracked, because the layers do not see cuDNN destroy its own ones.
        let _former = TABLE.with_value(address, |record| {
            let filled = filled(record.content.kind)?;
            Some(record.replace(filled))
        });
    }
}

/// Returns whether a descriptor that cuDNN fills from this attribute may contain more than cuDNN reports.
///
/// An engine from a configuration retains its knobs: cuDNN 9.19 uses them for other configurations of this engine
/// without knobs. It is unknown whether a configuration from a plan behaves in the same way.
fn may_have_hidden_state(name: Name) -> bool {
    matches!(name, Name::CUDNN_ATTR_ENGINECFG_ENGINE | Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
}

/// Call this when `cudnnGetExecutionPlanWorkspaceSize` has returned a size.
pub(crate) fn workspace_read(plan: Raw, size: i64) {
    let Some(content) = content(plan) else { return };
    if let Some(facts) = &content.facts {
        let name = Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
        facts.learn(name, Type::CUDNN_TYPE_INT64, &size.to_ne_bytes());
    }
}

pub(crate) fn content(descriptor: Raw) -> Option<Arc<Content>> {
    TABLE.with_value(descriptor.addr(), |record| record.content.clone())
}

/// Returns a line that describes a descriptor: see [`label`]. Returns `None` for unknown descriptors and for kinds
/// without a description, such as a variant pack.
///
/// The label is cached until the program reads more details, so that every execution can use it.
pub(crate) fn label(descriptor: Raw) -> Option<Arc<str>> {
    let address = descriptor.addr();
    let found = TABLE.with_value(address, |record| match &record.label {
        Some(label) if label.version == record.content.version() => Ok(label.text.clone()),
        _ => Err(record.content.clone()),
    });
    let content = match found? {
        Ok(text) => return text,
        Err(content) => content,
    };
    // Read the version first, so that the label is rebuilt if the program reads more in the meantime.
    let version = content.version();
    let text: Option<Arc<str>> = label::describe(&content).map(Arc::from);
    let made = CachedLabel { version, text: text.clone() };
    let _former = TABLE.with_value(address, |record| {
        let is_current = Arc::ptr_eq(&record.content, &content);
        if is_current { record.label.replace(made) } else { None }
    });
    text
}

/// Returns a line that describes a content, without a cache.
pub(crate) fn describe(content: &Arc<Content>) -> Option<String> {
    label::describe(content)
}

/// # Safety
/// `elements` points to `count` handles.
unsafe fn handles_at(count: i64, elements: *const c_void) -> RecordedValue {
    let count = usize::try_from(count).unwrap_or(0);
    if count > MAX_DESCRIPTORS {
        return RecordedValue::TooLarge;
    }
    // SAFETY: guaranteed by the caller.
    let addresses = unsafe { accepted_words(elements.expose_provenance() as u64, count) };
    let bytes = addresses.flat_map(|address| handles::living(address as usize).to_bytes());
    RecordedValue::Elements(Bytes::new(&bytes.collect::<Vec<u8>>()))
}

/// Returns the graph of an engine, a configuration, a plan or a heuristics query.
pub(crate) fn graph_of(content: &Arc<Content>) -> Option<&Arc<Content>> {
    let mut levels = std::iter::successors(Some(content), |content| toward_graph(content));
    levels.find(|content| content.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
}

/// Returns the next content between a plan and the graph: the configuration, the engine or the heuristics.
pub(crate) fn toward_graph(content: &Arc<Content>) -> Option<&Arc<Content>> {
    let below = match content.kind {
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR => Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => Name::CUDNN_ATTR_ENGINECFG_ENGINE,
        Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
        _ => return None,
    };
    // A descriptor that cuDNN filled has the same graph as its origin.
    content.child(below).or_else(|| content.origin.as_ref())
}

/// # Safety
/// `elements` points to `count` descriptors.
unsafe fn children(count: i64, elements: *const c_void) -> RecordedValue {
    let count = usize::try_from(count).unwrap_or(0);
    if count > MAX_DESCRIPTORS {
        return RecordedValue::TooLarge;
    }
    // SAFETY: guaranteed by the caller.
    let addresses = unsafe { accepted_words(elements.expose_provenance() as u64, count) };
    RecordedValue::Descriptors(addresses.map(|address| content(calls::raw(address))).collect())
}
