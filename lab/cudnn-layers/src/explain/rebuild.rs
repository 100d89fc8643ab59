//! Creates descriptors with the attributes that the shadow has recorded.

use cudnn_sys::types::cudnnStatus_t as Status;

use crate::cudnn::{ABSENT, Cudnn};
use crate::shadow::content::{Child, Content, Value};
use crate::shadow::elements::{Raw, Type};
use crate::shadow::handles::{self, Handle};

/// Creates a descriptor with these attributes and everything below it, and runs a closure with it.
///
/// # Errors
/// Returns an error if an attribute is unknown, or if cuDNN rejects one.
pub(super) fn with_rebuilt<T>(
    cudnn: &Cudnn,
    content: &Content,
    work: impl FnOnce(Raw) -> Result<T, Status>,
) -> Result<T, Status> {
    let mut rebuilt = Rebuilt { cudnn, all: Vec::new() };
    let result = rebuilt.create(content).and_then(work);
    // If a callback of the program throws an exception, the descriptors leak: see `Cudnn::with_descriptor`.
    rebuilt.all.iter().rev().for_each(|descriptor| cudnn.destroy(*descriptor));
    result
}

struct Rebuilt<'a> {
    cudnn: &'a Cudnn,
    all: Vec<Raw>,
}

impl Rebuilt<'_> {
    fn create(&mut self, content: &Content) -> Result<Raw, Status> {
        // The attributes of descriptors that cuDNN filled are unknown.
        if content.is_uncertain || content.lacks_attributes || content.origin.is_some() {
            return Err(ABSENT);
        }
        let mut children = Vec::new();
        for attribute in &content.attributes {
            children.push(match &attribute.value {
                Value::Descriptors(list) => {
                    let known = list.iter().map(|child| child.content().ok_or(ABSENT));
                    known.map(|child| self.create(child?)).collect::<Result<Vec<Raw>, Status>>()?
                }
                _ => Vec::new(),
            });
        }
        let raw = self.cudnn.new_descriptor(content.kind, |descriptor| {
            for (attribute, children) in content.attributes.iter().zip(&children) {
                match &attribute.value {
                    Value::Descriptors(_) => descriptor.set(attribute.name, attribute.ty, children)?,
                    Value::Elements(bytes) if attribute.ty == Type::CUDNN_TYPE_HANDLE => {
                        let handles: Option<Vec<usize>> = Handle::all_in(bytes.as_slice())
                            .map(|handle| (handles::living(handle.address) == handle).then_some(handle.address))
                            .collect();
                        descriptor.set(attribute.name, attribute.ty, &handles.ok_or(ABSENT)?)?;
                    }
                    Value::Elements(bytes) => {
                        // SAFETY: these are the elements that cuDNN has accepted, or elements of the same type.
                        unsafe {
                            descriptor.set_bytes(attribute.name, attribute.ty, attribute.count, bytes.as_slice())
                        }?;
                    }
                    Value::Undeclared | Value::TooLarge => return Err(ABSENT),
                }
            }
            if content.is_finalized { descriptor.finalize() } else { Ok(()) }
        })?;
        self.all.push(raw);
        Ok(raw)
    }
}

/// Returns a copy of a content in which `edit` has replaced some of the descriptors, innermost first.
pub(super) fn edited(content: &Content, edit: &dyn Fn(Content) -> Content) -> Content {
    let mut copy = content.clone();
    for attribute in &mut copy.attributes {
        if let Value::Descriptors(children) = &attribute.value {
            let edited = children.iter().map(|child| match child {
                Child::Known(child) => Child::Known(std::sync::Arc::new(edited(child, edit))),
                Child::Unknown => Child::Unknown,
            });
            attribute.value = Value::Descriptors(edited.collect());
        }
    }
    edit(copy)
}
