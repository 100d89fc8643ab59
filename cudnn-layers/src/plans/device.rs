//! The device that a plan is for, as cuDNN describes it in JSON: model, compute capability, driver, multiprocessors, clocks.

use std::collections::HashMap;
use std::sync::Arc;

use super::cudnn::Cudnn;
use crate::lock::Lock;
use crate::shadow::handles::Handle;
use crate::shadow::value::{Kind, Name, Type};

/// Descriptions of the devices of living handles, by the handles' numbers.
pub(super) static DESCRIPTIONS: Lock<Option<HashMap<u64, Arc<[u8]>>>> = Lock::new(None);

/// The device of a handle. `None` if cuDNN does not describe it, or the handle was not seen to be created.
pub(super) fn of_handle(cudnn: &Cudnn, handle: Handle) -> Option<Arc<[u8]>> {
    if handle.id == 0 {
        return None;
    }
    let known = DESCRIPTIONS.lock().and_then(|known| known.as_ref()?.get(&handle.id).cloned());
    if known.is_some() {
        return known;
    }
    let device = cudnn.descriptor(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR).ok()?;
    device.set(Name::CUDNN_ATTR_DEVICEPROP_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle.address]).ok()?;
    device.finalize().ok()?;
    let text: Arc<[u8]> = device.text(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).ok()?.into();
    if let Some(mut known) = DESCRIPTIONS.lock() {
        known.get_or_insert_default().insert(handle.id, text.clone());
    }
    Some(text)
}

/// The handle is to be destroyed.
pub(super) fn forget(handle: Handle) {
    let _former = DESCRIPTIONS.lock().and_then(|mut known| known.as_mut()?.remove(&handle.id));
}

/// The description without the device's numbers on its bus and in the process. Plans do not depend on them, and cuDNN does not
/// compare them when it restores a plan (9.19: it compares capability, driver and multiprocessors).
pub(super) fn without_place(description: &[u8]) -> Vec<u8> {
    let mut kept = description.to_vec();
    for name in [&b"\"pciDeviceId\":"[..], b"\"cudaDeviceId\":"] {
        let Some(place) = kept.windows(name.len()).position(|window| window == name) else { continue };
        let start = place + name.len();
        let digits = kept.iter().skip(start).take_while(|byte| byte.is_ascii_digit()).count();
        kept.drain(start..start + digits);
    }
    kept
}

/// The device's name in its description.
pub(super) fn name(description: &[u8]) -> String {
    let text = String::from_utf8_lossy(description);
    let name = text.split_once("\"deviceName\":\"").and_then(|(_, rest)| rest.split_once('"'));
    name.map(|(name, _)| name.to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_device_is_left_out() {
        let description = br#"{"pciDeviceId":6,"totalGlobalMem":7,"cudaDeviceId":12,"deviceName":"NVIDIA H200"}"#;
        let expected = br#"{"pciDeviceId":,"totalGlobalMem":7,"cudaDeviceId":,"deviceName":"NVIDIA H200"}"#;
        assert_eq!(without_place(description), expected);
        assert_eq!(name(description), "NVIDIA H200");
        assert_eq!((without_place(b"{}"), name(b"{}")), (b"{}".to_vec(), String::new()));
    }
}
