//! Reads and compares cuDNN's JSON description of a device: the model, compute capability, driver, number of
//! multiprocessors, and clocks.

use std::collections::BTreeMap;
use std::ops::Range;

use cudnn_store::read_unique;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::json::parsed;

/// Returns the description without bus ID and device index, and with sorted members. Plans are independent of these,
/// and cuDNN ignores them when it restores a plan (9.19 compares capability, driver and multiprocessors). An invalid
/// description is returned unchanged.
pub(super) fn canonical(description: &[u8]) -> Vec<u8> {
    let members = members(description).and_then(|members| serde_json::to_vec(&members).ok());
    members.unwrap_or_else(|| description.to_vec())
}

/// Returns whether the description in a plan matches the requested device, regardless of bus ID and index. cuDNN omits
/// unknown members, and adds known members that the program has omitted.
pub(super) fn matches_description(stated: &[u8], description: &[u8]) -> bool {
    if stated == description {
        return true;
    }
    let (Some(stated), Some(description)) = (members(stated), members(description)) else { return false };
    let mut shared = stated.iter().filter_map(|(name, value)| Some((value, description.get(name)?))).peekable();
    shared.peek().is_some() && shared.all(|(stated, described)| stated == described)
}

/// The members with the bus ID and the device index.
const PLACES: [&str; 2] = ["pciDeviceId", "cudaDeviceId"];

/// Returns the description `stated` with bus ID and index from another description of the same device.
pub(super) fn moved(stated: &str, description: &[u8]) -> Option<String> {
    let described: Map<String, Value> = parsed(description)?;
    // Other values would not be written as they were read.
    members(stated.as_bytes())?;
    let mut moved: Map<String, Value> = parsed(stated.as_bytes())?;
    for (name, own) in moved.iter_mut().filter(|(name, _)| PLACES.contains(&name.as_str())) {
        if let Some(number) = described.get(name) {
            own.clone_from(number);
        }
    }
    serde_json::to_string(&moved).ok()
}

pub(super) fn range_of(part: &str, text: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some(start..start.checked_add(part.len())?)
}

/// Returns the members of a description without bus ID and index. Returns `None` unless the text is a single object
/// with unique members and exactly comparable values.
fn members(description: &[u8]) -> Option<BTreeMap<String, Value>> {
    #[derive(Deserialize)]
    struct Members(#[serde(deserialize_with = "read_unique")] BTreeMap<String, Value>);

    let Members(mut members) = parsed(description).filter(|Members(members)| members.values().all(is_exact))?;
    PLACES.iter().for_each(|place| _ = members.remove(*place));
    Some(members)
}

fn is_exact(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.iter().all(is_exact),
        Value::Number(number) => !number.is_f64(),
        Value::Object(_) => false,
        _ => true,
    }
}

pub(super) fn name(description: &[u8]) -> String {
    let description: Value = parsed(description).unwrap_or_default();
    description.get("deviceName").and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_form_ignores_order_bus_id_and_index() {
        let description = br#"{"pciDeviceId":6,"totalGlobalMem":7,"cudaDeviceId":12,"deviceName":"NVIDIA H200"}"#;
        let other = br#"{ "deviceName": "NVIDIA H200", "cudaDeviceId": 0, "totalGlobalMem": 7 }"#;
        assert_eq!(canonical(description), br#"{"deviceName":"NVIDIA H200","totalGlobalMem":7}"#);
        assert_eq!(canonical(other), canonical(description));
        assert_eq!(name(description), "NVIDIA H200");
        assert_eq!((canonical(b"{}"), name(b"{}")), (b"{}".to_vec(), String::new()));
        assert_eq!((canonical(b"{"), name(b"{")), (b"{".to_vec(), String::new()));
    }

    #[test]
    fn an_ambiguous_description_is_returned_unchanged() {
        for text in [
            r#"{"deviceVer":800,"deviceVer":900}"#,
            r#"{"cudaDeviceId":0,"totalGlobalMem":18446744073709551616}"#,
            r#"{"deviceVer":{"a":1}}"#,
            r#"[{"deviceVer":900}]"#,
            r#"{"deviceVer":900} "#,
        ] {
            let is_read = text.ends_with(' ');
            assert_eq!(canonical(text.as_bytes()) == text.as_bytes(), !is_read, "{text}");
        }
    }

    #[test]
    fn a_plan_matches_a_device_if_all_members_in_the_plan_match() {
        let device = br#"{"deviceVer":900,"maxGridSize":[2, 1],"cudaDeviceId":3,"memoryBusWidth":6144}"#;
        for (stated, expected) in [
            (r#"{"maxGridSize":[2,1],"deviceVer":900,"cudaDeviceId":0}"#, true),
            (r#"{"maxGridSize":[2,1],"deviceVer":900,"memoryBusWidth":6144}"#, true),
            (r#"{"maxGridSize":[2,1],"deviceVer":900,"memoryBusWidth":5120}"#, false),
            (r#"{"maxGridSize":[2,1],"deviceVer":800}"#, false),
            (r#"{"deviceVer":900,"smCountOrigin":0}"#, true),
            (r#"{"smCountOrigin":0}"#, false),
            ("{}", false),
            ("", false),
        ] {
            assert_eq!(matches_description(stated.as_bytes(), device), expected, "{stated}");
        }
    }
}
