//! Records calls outside of the backend API that start work on the device, such as convolutions and normalizations.

use std::collections::HashMap;

use cudnn_capture_file::{Record, status_name};
use cudnn_sys::types::cudnnStatus_t as Status;
use serde_json::{Value as Json, json};

use super::State;
use super::descriptors::{self, json_of};
use super::written::WrittenRecords;
use crate::last_error::hide_errors;
use crate::lock::Lock;
use crate::trial;
use crate::wrappers::{Call, Id, Parameter, Value};

pub(super) static CALLS: WrittenRecords = WrittenRecords::new();

/// More distinct calls than any model has.
const MAX_CALLS: usize = 1 << 16;

/// The types of live descriptors by address. Others are not read, because they may be invalid.
static LIVE: Lock<Option<HashMap<usize, &'static str>>> = Lock::new(None);

/// Returns whether calls of a function are recorded.
pub(super) fn is_recorded(function: Id) -> bool {
    function.starts_work() && !function.name().starts_with("cudnnBackend")
}

/// Returns whether a function creates or destroys a descriptor that a recorded call may use.
pub(super) fn is_of_descriptor(function: Id) -> bool {
    let type_name = function.parameters().first().map(type_name).unwrap_or_default();
    let prefixes = ["cudnnCreate", "cudnnDestroy"];
    descriptors::is_readable(type_name) && prefixes.iter().any(|prefix| function.name().starts_with(prefix))
}

/// Follows a call that creates a descriptor successfully.
pub(super) fn created(call: &Call<'_>) {
    let [to] = call.bits();
    // SAFETY: cuDNN has written the descriptor.
    let address = unsafe { (to as *const usize).as_ref() }.copied();
    if let (Some(address), Some(parameter)) = (address, call.function.parameters().first())
        && let Some(mut live) = LIVE.lock()
    {
        live.get_or_insert_default().insert(address, type_name(parameter));
    }
}

/// Follows a call that is about to destroy a descriptor.
pub(super) fn destroying(call: &Call<'_>) {
    let [address] = call.bits();
    let _type = LIVE.lock().and_then(|mut live| live.as_mut()?.remove(&(address as usize)));
}

/// Records a call that has returned, unless an equal one is in the capture.
pub(super) fn record(state: &State, call: &Call<'_>, status: Status) {
    if CALLS.len() >= MAX_CALLS {
        return;
    }
    let arguments = hide_errors(&state.cudnn, || trial::run(|| arguments(state, call, status)));
    let function = call.function.name();
    let text = serde_json::to_string(&arguments).unwrap_or_default();
    let _ordinal = CALLS.write(&(function, status.0, text), |_| {
        let (function, status) = (function.to_owned(), Some(status_name(status)));
        state.output.write(&Record::Call(cudnn_capture_file::Call { function, status, arguments }))
    });
}

/// Returns the arguments except for the handle.
fn arguments(state: &State, call: &Call<'_>, status: Status) -> Vec<(String, Json)> {
    let mut values: Vec<(String, Json)> = Vec::new();
    let mut scalars: Vec<(usize, usize)> = Vec::new();
    let mut parameters = call.function.parameters().iter();
    call.visit_arguments(|value| {
        let Some(parameter) = parameters.next() else { return };
        let type_name = type_name(parameter);
        let json = match value {
            Value::Pointer(_) if type_name == "cudnnHandle_t" => return,
            Value::Pointer(address) if descriptors::is_readable(type_name) => {
                descriptor(state, call, type_name, address)
            }
            Value::Pointer(0) => Json::Null,
            Value::Pointer(address) => {
                if is_scalar(parameter) && status == Status::CUDNN_STATUS_SUCCESS {
                    scalars.push((values.len(), address));
                }
                Json::Bool(true)
            }
            value => json_of(value),
        };
        values.push((parameter.name.trim_end_matches('_').to_owned(), json));
    });
    // The scalars of tensors in double precision are doubles.
    let double = json!(cudnn_sys::types::cudnnDataType_t::CUDNN_DATA_DOUBLE.0);
    let is_double = values.iter().any(|(_, value)| value.get("dataType") == Some(&double));
    for (place, address) in scalars {
        // SAFETY: cuDNN has just read a scalar of this type in host memory.
        let value = unsafe {
            if is_double {
                (address as *const f64).read_unaligned()
            } else {
                f64::from((address as *const f32).read_unaligned())
            }
        };
        if let Some((_, json)) = values.get_mut(place) {
            *json = json_of(Value::Float(value));
        }
    }
    values
}

/// Returns whether a pointer refers to a scaling factor in host memory.
fn is_scalar(parameter: &Parameter) -> bool {
    let is_factor = parameter.name.starts_with("alpha") || parameter.name.starts_with("beta");
    is_factor && parameter.rust_type.contains("c_void")
}

fn descriptor(state: &State, call: &Call<'_>, type_name: &str, address: usize) -> Json {
    let known = LIVE.lock().and_then(|live| live.as_ref()?.get(&address).copied());
    if known != Some(type_name) {
        return Json::Null;
    }
    // SAFETY: the program has created a descriptor of this type and has not destroyed it.
    unsafe { descriptors::read(state.host, type_name, address, call.handle) }.unwrap_or_default()
}

/// Returns the name of a parameter's type without pointers and path.
fn type_name(parameter: &Parameter) -> &'static str {
    parameter.rust_type.rsplit([':', ' ']).next().unwrap_or_default()
}

/// Takes the locks before a fork.
pub(super) fn before_fork() {
    CALLS.before_fork();
    LIVE.hold_for_fork();
}

/// Releases the locks in the parent after a fork.
pub(super) fn after_fork() {
    LIVE.release_after_fork();
    CALLS.after_fork();
}

/// Releases the locks in the child after a fork. The child may use the descriptors of its parent.
pub(super) fn in_child() {
    LIVE.release_in_child(None);
    CALLS.in_child();
}
