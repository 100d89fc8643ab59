//! Creates cuDNN's descriptors for a graph, in a layer or in a tool.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudnn_sys::signatures::unwinding;
use cudnn_sys::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t as Raw,
    cudnnBackendDescriptorType_t as Kind, cudnnHandle_t, cudnnStatus_t as Status,
};

use crate::graph::{Attribute, Graph, Node};
use crate::names;
use crate::value::Value;

/// cuDNN's functions for descriptors.
#[derive(Debug)]
pub struct Functions<E> {
    /// Creates a descriptor.
    pub create: unwinding::cudnnBackendCreateDescriptor,
    /// Sets an attribute.
    pub set: unwinding::cudnnBackendSetAttribute,
    /// Finalizes a descriptor.
    pub finalize: unwinding::cudnnBackendFinalize,
    /// Destroys a descriptor.
    pub destroy: unwinding::cudnnBackendDestroyDescriptor,
    /// Converts the status that the function with this name has returned.
    pub check: fn(Status, &'static str) -> Result<(), E>,
}

/// The device that replaces the program's handles.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// The device of a handle, which must be live.
    Handle(cudnnHandle_t),
    /// A descriptor of a device, which must be live.
    Device(Raw),
    /// No device: descriptors with a handle cannot be created.
    None,
}

/// A descriptor that could not be created.
#[derive(Debug)]
pub struct Refused<E> {
    /// cuDNN's error. `None` if the descriptor needs a handle.
    pub error: Option<E>,
    /// The descriptor and, if one was refused, the attribute.
    pub place: String,
}

/// Creates the last descriptor of a graph, with everything that it refers to. The caller destroys it. The other
/// descriptors are destroyed before this returns, because cuDNN has copied them.
///
/// If the program's callback throws an exception, the descriptors leak. Destroying them during unwinding would call
/// cuDNN, where a second exception would terminate the process.
///
/// # Safety
/// The functions and the target are those of the same cuDNN. The target is live, and cuDNN has accepted the same elements
/// from the program, or the graph is known to be harmless.
///
/// # Errors
/// Returns the descriptor that cuDNN refused or that needs a handle.
pub unsafe fn rebuild<E>(graph: &Graph, target: Target, functions: &Functions<E>) -> Result<Raw, Refused<E>> {
    let mut made = Vec::with_capacity(graph.nodes().len());
    let all = graph.nodes().iter().enumerate().try_for_each(|(index, node)| {
        let attempt = Attempt { index, node, is_root: index + 1 == graph.nodes().len(), functions };
        attempt.create(target, &mut made)
    });
    let root = if all.is_ok() { made.pop() } else { None };
    for descriptor in made.into_iter().rev() {
        // SAFETY: the descriptor was created above and is not shared.
        let _ = unsafe { (functions.destroy)(descriptor) };
    }
    all?;
    root.ok_or_else(|| Refused { error: None, place: "the graph has no descriptors".to_owned() })
}

const SET: &str = "cudnnBackendSetAttribute";

struct Attempt<'a, E> {
    index: usize,
    node: &'a Node,
    is_root: bool,
    functions: &'a Functions<E>,
}

impl<E> Attempt<'_, E> {
    /// Creates the descriptor and adds it to `made`.
    fn create(&self, target: Target, made: &mut Vec<Raw>) -> Result<(), Refused<E>> {
        let mut descriptor = null_mut();
        // SAFETY: cuDNN writes the new descriptor to `descriptor`.
        let status = unsafe { (self.functions.create)(self.node.kind, &raw mut descriptor) };
        self.check(status, "cudnnBackendCreateDescriptor", None)?;
        made.push(descriptor);
        for attribute in &self.node.attributes {
            // SAFETY: the descriptor is live.
            unsafe { self.set(descriptor, attribute, made) }?;
        }
        // SAFETY: the descriptor is live.
        unsafe { self.select(descriptor, target) }?;
        if self.node.is_finalized {
            // SAFETY: the descriptor is live.
            let status = unsafe { (self.functions.finalize)(descriptor) };
            self.check(status, "cudnnBackendFinalize", None)?;
        }
        Ok(())
    }

    /// Sets an attribute, except handles and pointers, which are only valid in the program.
    ///
    /// # Safety
    /// The descriptor is live.
    unsafe fn set(&self, descriptor: Raw, attribute: &Attribute, made: &[Raw]) -> Result<(), Refused<E>> {
        let Attribute { name, ty, value } = attribute;
        let status = match value {
            Value::Handles(_) => return Ok(()),
            Value::Nodes(places) => {
                let children: Vec<Raw> = places.iter().filter_map(|place| made.get(*place).copied()).collect();
                let count = children.len() as i64;
                // SAFETY: guaranteed by the caller; these are live descriptors.
                unsafe { (self.functions.set)(descriptor, *name, *ty, count, children.as_ptr().cast()) }
            }
            value => {
                let bytes = value.to_bytes(*ty);
                // In a damaged file, the count of a text can differ from the number of bytes.
                let count = if *ty == Type::CUDNN_TYPE_CHAR { bytes.len() as i64 } else { value.count(*ty) };
                let aligned = aligned(&bytes);
                // SAFETY: guaranteed by the caller; the buffer contains that many elements of this type.
                unsafe { (self.functions.set)(descriptor, *name, *ty, count, aligned.as_ptr().cast()) }
            }
        };
        self.check(status, SET, Some(*name))
    }

    /// # Safety
    /// The descriptor and the target are live.
    unsafe fn select(&self, descriptor: Raw, target: Target) -> Result<(), Refused<E>> {
        let has_handle = self.node.attributes.iter().any(|attribute| matches!(attribute.value, Value::Handles(_)));
        let is_graph = self.node.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && self.node.is_finalized;
        let (name, ty, raw): (Name, Type, *mut c_void) = match (target, target_attributes(self.node.kind)) {
            (Target::Handle(handle), (Some(name), _)) if is_graph && self.is_root || has_handle => {
                (name, Type::CUDNN_TYPE_HANDLE, handle.cast())
            }
            (Target::Device(device), (_, Some(name))) if self.node.value(name).is_none() => {
                (name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, device.cast())
            }
            // Graphs for described devices work without a handle.
            (Target::Device(_), _) if self.node.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => return Ok(()),
            _ if has_handle => return Err(Refused { error: None, place: format!("{} needs a handle", self.place()) }),
            _ => return Ok(()),
        };
        // SAFETY: guaranteed by the caller.
        let status = unsafe { (self.functions.set)(descriptor, name, ty, 1, (&raw const raw).cast()) };
        self.check(status, SET, None)
    }

    fn check(&self, status: Status, function: &'static str, attribute: Option<Name>) -> Result<(), Refused<E>> {
        (self.functions.check)(status, function).map_err(|error| {
            let attribute = attribute.map(|name| format!(", CUDNN_ATTR_{}", names::attribute(name)));
            Refused { error: Some(error), place: format!("{}{}", self.place(), attribute.unwrap_or_default()) }
        })
    }

    fn place(&self) -> String {
        format!("descriptor {} (CUDNN_BACKEND_{}_DESCRIPTOR)", self.index, names::kind(self.node.kind))
    }
}

/// Copies elements to a buffer with the alignment of the largest type.
fn aligned(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks(size_of::<u64>()).map(|chunk| {
        let mut word = [0_u8; size_of::<u64>()];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u64::from_ne_bytes(word)
    });
    words.collect()
}

/// Returns the attributes of a kind that select the device: one for a handle, and one for a description.
fn target_attributes(kind: Kind) -> (Option<Name>, Option<Name>) {
    match kind {
        Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => (Some(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE), None),
        Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
            (Some(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE), Some(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP))
        }
        Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR => (Some(Name::CUDNN_ATTR_DEVICEPROP_HANDLE), None),
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR => (None, Some(Name::CUDNN_ATTR_ENGINE_DEVICEPROP)),
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => (None, Some(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    thread_local! {
        static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
        /// The descriptor for which `finalize` fails.
        static REFUSED: Cell<Option<usize>> = const { Cell::new(None) };
    }

    fn record(call: String) -> Status {
        CALLS.with_borrow_mut(|calls| calls.push(call));
        Status::CUDNN_STATUS_SUCCESS
    }

    /// Numbers the descriptors from 1.
    unsafe extern "C-unwind" fn create(kind: Kind, to: *mut Raw) -> Status {
        let number = 1 + CALLS.with_borrow(|calls| calls.iter().filter(|call| call.starts_with("create")).count());
        // SAFETY: the caller passes a place for the descriptor.
        unsafe { *to = std::ptr::without_provenance_mut(number) };
        record(format!("create {number} {}", names::kind(kind)))
    }

    unsafe extern "C-unwind" fn set(raw: Raw, name: Name, ty: Type, count: i64, elements: *const c_void) -> Status {
        assert!(elements.addr().is_multiple_of(8));
        #[expect(clippy::disallowed_methods, reason = "the elements belong to this crate")]
        // SAFETY: all elements here have eight bytes.
        let elements = unsafe { std::slice::from_raw_parts(elements.cast::<u64>(), count as usize) };
        record(format!("set {} {} {} {elements:?}", raw.addr(), names::attribute(name), ty.0))
    }

    unsafe extern "C-unwind" fn finalize(raw: Raw) -> Status {
        let status = record(format!("finalize {}", raw.addr()));
        if REFUSED.get() == Some(raw.addr()) { Status::CUDNN_STATUS_BAD_PARAM } else { status }
    }

    unsafe extern "C-unwind" fn destroy(raw: Raw) -> Status {
        record(format!("destroy {}", raw.addr()))
    }

    const RECORDER: Functions<&str> = Functions {
        create,
        set,
        finalize,
        destroy,
        check: |status, function| if status == Status::CUDNN_STATUS_SUCCESS { Ok(()) } else { Err(function) },
    };

    const GRAPH: &str = r#"[{"kind":"TENSOR","UNIQUE_ID:3":7},{"kind":"OPERATION_POINTWISE","XDESC:15":0},
        {"kind":"OPERATIONGRAPH","HANDLE:0":1,"OPS:15":1}]"#;

    #[track_caller]
    fn check(target: Target, refused: Option<usize>, expected: Result<usize, &str>, calls: &[&str]) {
        CALLS.take();
        REFUSED.set(refused);
        let graph = serde_json::from_str(GRAPH).unwrap();
        // SAFETY: this code never calls the functions.
        let made = unsafe { rebuild(&graph, target, &RECORDER) };
        let error = made.as_ref().err().and_then(|refused| refused.error);
        assert_eq!(error, refused.map(|_| "cudnnBackendFinalize"));
        assert_eq!(made.map(|raw| raw.addr()).map_err(|refused| refused.place), expected.map_err(str::to_owned));
        assert_eq!(CALLS.take(), calls);
    }

    #[test]
    fn only_the_last_descriptor_remains() {
        let start = [
            "create 1 TENSOR",
            "set 1 TENSOR_UNIQUE_ID 3 [7]",
            "finalize 1",
            "create 2 OPERATION_POINTWISE",
            "set 2 OPERATION_POINTWISE_XDESC 15 [1]",
            "finalize 2",
        ];
        let graph = ["create 3 OPERATIONGRAPH", "set 3 OPERATIONGRAPH_OPS 15 [2]"];
        let handle = std::ptr::without_provenance_mut(99);
        let with_handle = [&start[..], &graph, &["set 3 OPERATIONGRAPH_HANDLE 0 [99]", "finalize 3"]].concat();
        check(Target::Handle(handle), None, Ok(3), &[&with_handle[..], &["destroy 2", "destroy 1"]].concat());
        let device = [&start[..], &graph, &["finalize 3", "destroy 2", "destroy 1"]].concat();
        check(Target::Device(handle.cast()), None, Ok(3), &device);
        let all = ["destroy 3", "destroy 2", "destroy 1"];
        let place = "descriptor 2 (CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)";
        check(Target::None, None, Err(&format!("{place} needs a handle")), &[&start[..], &graph, &all].concat());
        check(Target::Handle(handle), Some(3), Err(place), &[&with_handle[..], &all].concat());
        let operation = "descriptor 1 (CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)";
        check(Target::None, Some(2), Err(operation), &[&start[..], &["destroy 2", "destroy 1"]].concat());
    }
}
