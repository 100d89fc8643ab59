//! Records failed calls of the backend API, with the refused attribute.

use cudnn_graph::{declared, element_size, names};
use cudnn_store::captures::{FailureRecord, IncompleteRecord, Record, hexadecimal};
use cudnn_sys::types::cudnnStatus_t as Status;

use super::State;
use super::plans;
use super::reason::reason;
use crate::program_memory;
use crate::shadow::elements::{Name, Type};
use crate::shadow::{self, calls};
use crate::wrappers::{Call, Id};
use crate::written::WrittenRecords;

/// More distinct failures than a person reads.
const MAX_FAILURES: usize = 1000;

/// The failures in the capture, and the record that says that further ones are missing.
pub(super) static FAILURES: WrittenRecords = WrittenRecords::at_most(MAX_FAILURES + 1);

/// Records a failed call. Call this before the shadow learns about the failure.
#[cold]
pub(super) fn record(state: &State, call: &Call<'_>, status: Status) {
    if FAILURES.is_full() {
        return;
    }
    let subject = match call.function {
        Id::CudnnBackendCreateDescriptor => None,
        function if calls::is_execution(function) || function == Id::CudnnGetExecutionPlanWorkspaceSize => {
            let [_, plan] = call.bits();
            let plan = calls::raw(plan);
            // The record of the execution names all other plans.
            shadow::content(plan).filter(|_| plans::live(plan).is_none())
        }
        _ => shadow::content(calls::descriptor(call)),
    };
    let descriptors = subject.as_ref().map(|subject| shadow::known_parts(subject).nodes().to_vec()).unwrap_or_default();
    let attribute = attribute(call);
    let function = call.function.name();
    let content = (function, status.0, &attribute, serde_json::to_string(&descriptors).unwrap_or_default());
    let _ordinal = FAILURES.write(&content, |ordinal| {
        state.output.write(&if ordinal == MAX_FAILURES {
            let reason = format!("only the first {MAX_FAILURES} different ones are stored");
            Record::Incomplete(IncompleteRecord { label: "failed calls".to_owned(), reason })
        } else {
            Record::Failure(FailureRecord {
                call: function.to_owned(),
                status: status.into(),
                reason: reason(&state.cudnn),
                attribute: attribute.clone(),
                descriptors,
            })
        })
    });
}

fn attribute(call: &Call<'_>) -> Option<(String, u32, i64, Option<String>)> {
    if !matches!(call.function, Id::CudnnBackendSetAttribute | Id::CudnnBackendGetAttribute) {
        return None;
    }
    let [_, name, ty, count, elements] = call.bits();
    let (name, ty, count) = (Name(calls::number(name)), Type(calls::number(ty)), count.cast_signed());
    let is_set = call.function == Id::CudnnBackendSetAttribute;
    let value = if is_set { elements_of(name, ty, count, elements) } else { None };
    Some((names::attribute(name), i64::from(ty.0) as u32, count, value))
}

/// Returns the elements as hexadecimal text, unless they are addresses. cuDNN may have failed before reading them.
fn elements_of(name: Name, ty: Type, count: i64, elements: u64) -> Option<String> {
    let is_address = matches!(
        ty,
        Type::CUDNN_TYPE_HANDLE
            | Type::CUDNN_TYPE_VOID_PTR
            | Type::CUDNN_TYPE_BACKEND_DESCRIPTOR
            // A text may be shorter than the count.
            | Type::CUDNN_TYPE_CHAR
    );
    if is_address || elements == 0 || calls::is_variant_pack_attribute(name) || !declared::is_count(name, count) {
        return None;
    }
    let len = element_size(ty)?.checked_mul(usize::try_from(count).ok()?)?;
    program_memory::copy(elements, len).map(|bytes| hexadecimal(&bytes))
}
