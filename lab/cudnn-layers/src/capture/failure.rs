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

#[cfg(test)]
mod tests {
    use std::ffi::{c_char, c_int, c_void};
    use std::ptr::{null, null_mut};

    use cudnn_layer_api::{abi, begin};
    use cudnn_store::captures::Capture;

    use super::super::{Capture as Layer, VARIABLE};
    use super::*;

    unsafe extern "C" fn no_function(_: *const abi::Host, _: *const c_char) -> *mut c_void {
        null_mut()
    }

    unsafe extern "C" fn no_message(_: *const abi::Host, _: c_int, _: *const c_char) {}

    unsafe extern "C" fn no_missed_call(_: *const abi::Host) -> u64 {
        0
    }

    unsafe extern "C-unwind" fn refuse(_: *mut c_void) -> Status {
        Status::CUDNN_STATUS_BAD_PARAM
    }

    /// Runs in a child process, because a layer that has begun affects other tests.
    #[test]
    fn a_failure_without_the_lock_is_not_one_beyond_the_limit() {
        if std::env::var_os(VARIABLE).is_some() {
            return fail();
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("capture");
        let name = "capture::failure::tests::a_failure_without_the_lock_is_not_one_beyond_the_limit";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        assert!(child.args(["--exact", name]).env(VARIABLE, &file).status().unwrap().success());
        let records = Capture::read(&file).unwrap().records;
        assert!(matches!(records.as_slice(), [Record::Start(_), Record::Failure(_)]), "{records:?}");
    }

    fn fail() {
        let host = abi::Host {
            size: size_of::<abi::Host>(),
            abi: abi::ABI,
            cudnn_version: 91_900,
            cudnn_dir: c"".as_ptr(),
            name: c"capture".as_ptr(),
            loader: null_mut(),
            next: no_function,
            message: no_message,
            missed_calls: no_missed_call,
            inside: c"".as_ptr(),
            environment: null(),
            cudart_version: 0,
        };
        let mut layer = abi::Layer { size: size_of::<abi::Layer>(), data: null_mut(), wrap: None, event: None };
        // SAFETY: the host is valid until the process exits.
        assert_eq!(unsafe { begin::<Layer>(Box::leak(Box::new(host)), &raw mut layer) }, 0);
        let name = c"cudnnBackendFinalize".as_ptr();
        // SAFETY: the layer has begun, and the function has this name's type.
        let wrapped = unsafe { layer.wrap.unwrap()(layer.data, name, refuse as *mut c_void) };
        // SAFETY: the layer returns a function of the same type, which accepts all arguments.
        let finalize = || unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(*mut c_void) -> Status>(wrapped)(null_mut())
        };
        // This thread gives up at once, because it holds the lock itself.
        FAILURES.lock().hold();
        assert_eq!(finalize(), Status::CUDNN_STATUS_BAD_PARAM);
        FAILURES.lock().release();
        assert_eq!(finalize(), Status::CUDNN_STATUS_BAD_PARAM);
    }
}
