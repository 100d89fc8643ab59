//! Reads and completes cuDNN's descriptions of devices.

use cudnn_loader::devices::H200;
use serde_json::{Map, Value};

/// Returns a description of a device with all members that an H200's has.
///
/// cuDNN refuses descriptions that older releases have written, because new releases add members: 9.28.1 needs three that
/// 9.19 does not write. They get the values of the H200.
#[must_use]
pub fn completed(description: &str) -> String {
    let read = |text| serde_json::from_str::<Map<String, Value>>(text);
    let (Ok(mut members), Ok(all)) = (read(description), read(H200)) else { return description.to_owned() };
    for (name, value) in all {
        members.entry(name).or_insert(value);
    }
    serde_json::to_string(&members).unwrap_or_else(|_| description.to_owned())
}

/// Returns the name in a description.
#[must_use]
pub fn name(description: &str) -> Option<String> {
    let json: Value = serde_json::from_str(description).ok()?;
    let name = json.pointer("/deviceName").or_else(|| json.pointer("/GPUProfile/deviceName"));
    name.and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_older_releases_are_completed() {
        let older = completed(r#"{"deviceName":"NVIDIA A","smCountOrigin":7}"#);
        let members: Value = serde_json::from_str(&older).unwrap();
        assert_eq!((name(&older).as_deref(), &members["smCountOrigin"]), (Some("NVIDIA A"), &7.into()));
        assert!(members["memoryBusWidth"].is_u64());
        assert_eq!(completed("no JSON"), "no JSON");
    }
}
