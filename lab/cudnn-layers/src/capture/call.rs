//! Records calls outside the backend API that start work on the device or search for an algorithm.
//!
//! Programs repeat these calls at every step. Descriptors are therefore read only after changes, and arguments become
//! text only for new calls.

use cudnn_store::captures::Record;
use cudnn_sys::types::cudnnStatus_t as Status;
use serde_json::{Value as Json, json};

use super::State;
use super::descriptors::{self, json_of};
use super::functions::{ParameterKind, function};
use crate::last_error::own_calls;
use crate::program_memory::{self, accepted_word};
use crate::table::Table;
use crate::wrappers::{Call, Value};
use crate::written::{WrittenRecords, hash};

pub(super) static CALLS: WrittenRecords = WrittenRecords::at_most(MAX_CALLS);

/// More distinct calls than any model has.
const MAX_CALLS: usize = 1 << 16;

#[derive(Clone, Copy)]
pub(super) struct LiveDescriptor {
    type_name: &'static str,
    /// The properties, if they were read after the last change.
    properties: Option<Properties>,
}

#[derive(Clone, Copy)]
struct Properties {
    hash: u64,
    /// Whether the elements are doubles.
    is_double: bool,
}

/// Live descriptors. Other addresses may be invalid.
pub(super) static LIVE: Table<LiveDescriptor> = Table::new(usize::MAX);

/// Follows a call that creates a descriptor successfully.
pub(super) fn created(call: &Call<'_>) {
    let [to] = call.bits();
    // SAFETY: cuDNN has written the descriptor.
    let address = unsafe { accepted_word(to) };
    let kind = function(call.function).and_then(|function| function.parameters.first());
    if let (Some(address), Some(ParameterKind::Descriptor(type_name))) = (address, kind) {
        LIVE.insert(address as usize, LiveDescriptor { type_name, properties: None });
    }
}

pub(super) fn destroying(call: &Call<'_>) {
    let [address] = call.bits();
    LIVE.remove(address as usize);
}

pub(super) fn changed(call: &Call<'_>) {
    visit_descriptors(call, |_, address| {
        LIVE.with_value(address, |descriptor| descriptor.properties = None);
    });
}

/// Records a call that has returned, unless the capture contains an equal one.
pub(super) fn record(state: &State, call: &Call<'_>, status: Status) {
    read_changed(state, call);
    let (key, is_double) = key(call, status);
    let _ordinal = CALLS.write(&key, |_| {
        let arguments = own_calls(&state.cudnn, || arguments(call, status, is_double));
        let (function, status) = (call.function.name().to_owned(), Some(status.into()));
        state.output.write(&Record::Call(cudnn_store::captures::CallRecord { function, status, arguments }))
    });
}

fn live(type_name: &str, address: usize) -> Option<LiveDescriptor> {
    LIVE.get(address).filter(|known| known.type_name == type_name)
}

/// Visits the types and addresses of the descriptors in a call.
fn visit_descriptors(call: &Call<'_>, mut visit: impl FnMut(&'static str, usize)) {
    let mut kinds = function(call.function).map(|function| function.parameters.iter()).unwrap_or_default();
    call.visit_arguments(|value| {
        if let (Some(ParameterKind::Descriptor(type_name)), Value::Pointer(address)) = (kinds.next(), value) {
            visit(type_name, address);
        }
    });
}

/// Reads the changed descriptors of a call again.
fn read_changed(state: &State, call: &Call<'_>) {
    let mut changed = Vec::new();
    visit_descriptors(call, |type_name, address| {
        if live(type_name, address).is_some_and(|known| known.properties.is_none()) {
            changed.push((type_name, address));
        }
    });
    if changed.is_empty() {
        return;
    }
    let read = |(type_name, address)| {
        // SAFETY: the program has created a descriptor of this type and has not destroyed it.
        let json = unsafe { descriptors::read(type_name, address, call.handle) }.unwrap_or_default();
        let double = json!(cudnn_sys::types::cudnnDataType_t::CUDNN_DATA_DOUBLE.0);
        let is_double = json.get("dataType") == Some(&double);
        (address, Properties { hash: hash(&json.to_string()), is_double })
    };
    let read: Vec<_> = own_calls(&state.cudnn, || changed.into_iter().map(read).collect());
    for (address, properties) in read {
        LIVE.with_value(address, |descriptor| descriptor.properties = Some(properties));
    }
}

/// Returns numbers that identify the record of a call, and whether scaling factors are doubles.
fn key(call: &Call<'_>, status: Status) -> (Vec<u64>, bool) {
    let mut key = vec![call.function as u64, i64::from(status.0).cast_unsigned()];
    let (mut scalars, mut is_double) = (Vec::new(), false);
    let mut kinds = function(call.function).map(|function| function.parameters.iter()).unwrap_or_default();
    call.visit_arguments(|value| {
        let kind = kinds.next().copied().unwrap_or(ParameterKind::Other);
        key.push(match (kind, value) {
            (ParameterKind::Handle, _) => return,
            (ParameterKind::Descriptor(type_name), Value::Pointer(address)) => {
                let properties = live(type_name, address).and_then(|known| known.properties);
                is_double |= properties.is_some_and(|properties| properties.is_double);
                properties.map_or(0, |properties| properties.hash)
            }
            (kind, Value::Pointer(address)) => {
                if kind == ParameterKind::Scalar && is_readable(address, status) {
                    scalars.push(address);
                }
                u64::from(address != 0)
            }
            (_, value) => value.bits(),
        });
    });
    key.extend(scalars.into_iter().map(|address| scalar(address, is_double).map_or(0, f64::to_bits)));
    (key, is_double)
}

fn is_readable(address: usize, status: Status) -> bool {
    address != 0 && status == Status::CUDNN_STATUS_SUCCESS
}

/// Returns a scaling factor. For tensors of doubles, factors are doubles, too.
fn scalar(address: usize, is_double: bool) -> Option<f64> {
    let bytes = program_memory::copy(address as u64, if is_double { 8 } else { 4 })?;
    match *bytes.as_slice() {
        [a, b, c, d] => Some(f32::from_ne_bytes([a, b, c, d]).into()),
        [a, b, c, d, e, f, g, h] => Some(f64::from_ne_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    }
}

fn arguments(call: &Call<'_>, status: Status, is_double: bool) -> Vec<(String, Json)> {
    let mut values: Vec<(String, Json)> = Vec::new();
    let kinds = function(call.function).map(|function| function.parameters.iter()).unwrap_or_default();
    let mut parameters = call.function.parameters().iter().zip(kinds);
    call.visit_arguments(|value| {
        let Some((parameter, kind)) = parameters.next() else { return };
        let json = match (*kind, value) {
            (ParameterKind::Handle, _) => return,
            (ParameterKind::Descriptor(type_name), Value::Pointer(address)) => descriptor(call, type_name, address),
            (ParameterKind::Scalar, Value::Pointer(address)) if is_readable(address, status) => {
                scalar(address, is_double).map_or(Json::Null, |factor| json_of(Value::Float(factor)))
            }
            (_, value) => json_of(value),
        };
        values.push((parameter.name.trim_end_matches('_').to_owned(), json));
    });
    values
}

fn descriptor(call: &Call<'_>, type_name: &str, address: usize) -> Json {
    if live(type_name, address).is_none() {
        return Json::Null;
    }
    // SAFETY: the program has created a descriptor of this type and has not destroyed it.
    unsafe { descriptors::read(type_name, address, call.handle) }.unwrap_or_default()
}
