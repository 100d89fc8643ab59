//! Reads and completes cuDNN's descriptions of devices.

use cudnn_backend::device::check_sizes;
use cudnn_graph::{Attribute, Graph};
use cudnn_loader::cudnnBackendAttributeName_t as Name;
use cudnn_loader::devices::H200;
use serde_json::{Map, Value};

/// Completes a description with the members of an H200's description.
///
/// cuDNN refuses descriptions from older releases, because new releases add members. For example, 9.28.1 needs three
/// members that 9.19 does not write.
pub fn completed(description: &str) -> String {
    let read = |text| serde_json::from_str::<Map<String, Value>>(text);
    let (Ok(mut members), Ok(all)) = (read(description), read(H200)) else { return description.to_owned() };
    let name = name(description).unwrap_or_else(|| UNNAMED.to_owned());
    members.entry("deviceName").or_insert(name.into());
    for (name, value) in all {
        members.entry(name).or_insert(value);
    }
    serde_json::to_string(&members).unwrap_or_else(|_| description.to_owned())
}

const PROFILE: &str = "GPUProfile";

/// The name of devices without a name.
pub const UNNAMED: &str = "an unnamed device";

/// Checks that members that an H200's description has too are of the same type, because cuDNN does not.
///
/// # Errors
/// Names the first member of a different type.
pub fn check_members(description: &Map<String, Value>) -> Result<(), String> {
    let known: Map<String, Value> = serde_json::from_str(H200).unwrap_or_default();
    if !description.keys().any(|name| known.contains_key(name) || name == PROFILE) {
        return Err("it has no property of a GPU".to_owned());
    }
    description.iter().try_for_each(|(name, value)| match known.get(name) {
        Some(Value::Number(known)) if !known.is_u64() && value.is_number() => Ok(()),
        Some(known) if type_name(known) != type_name(value) => {
            Err(format!("{name:?} is {}, but must be {}", type_name(value), type_name(known)))
        }
        _ => Ok(()),
    })
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_u64() => "a whole number",
        Value::Number(_) => "another number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Checks the JSON in the attributes of a graph, because a capture may come from a stranger. cuDNN loads the code in
/// plans and kernel caches, and does not check the sizes in descriptions of devices.
pub(crate) fn check_json(graph: &Graph) -> Result<(), String> {
    let check = |Attribute { name, ty, value }: &Attribute| match *name {
        Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION | Name::CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION => {
            Err("a descriptor contains compiled code, which is not loaded from captures".to_owned())
        }
        Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION => check_sizes(&value.to_bytes(*ty)),
        _ => Ok(()),
    };
    graph.nodes().iter().flat_map(|node| &node.attributes).try_for_each(check)
}

/// Returns the name in a description.
pub fn name(description: &str) -> Option<String> {
    let json: Value = serde_json::from_str(description).ok()?;
    let name = json.get("deviceName").or_else(|| json.get(PROFILE)?.get("deviceName"));
    name.and_then(Value::as_str).map(str::to_owned)
}

/// Returns the compute capability in a description, such as `12.1`.
pub fn compute_capability(description: &str) -> Option<String> {
    let json: Value = serde_json::from_str(description).ok()?;
    let version = json.get("deviceVer")?.as_u64()?;
    Some(format!("{}.{}", version / 100, version % 100 / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_oversized_descriptions_in_graphs_are_refused() {
        let check = |node: &str| check_json(&serde_json::from_str(&format!("[{node}]")).unwrap());
        let device = |name: &str| {
            let description = serde_json::json!({ "deviceName": name }).to_string();
            check(&serde_json::json!({ "kind": "DEVICEPROP", "JSON_REPRESENTATION:24": description }).to_string())
        };
        assert_eq!(device("NVIDIA A"), Ok(()));
        assert!(device(&"A".repeat(100_000)).is_err() && device(&"A".repeat(256)).is_err());
        for kind in ["EXECUTION_PLAN", "KERNEL_CACHE"] {
            let refused = check(&format!(r#"{{"kind":"{kind}","JSON_REPRESENTATION:24":"{{}}"}}"#)).unwrap_err();
            assert!(refused.contains("compiled code"), "{refused}");
        }
    }

    #[test]
    fn members_have_the_types_of_the_h200() {
        let check = |text: &str| check_members(&serde_json::from_str(text).unwrap());
        check(H200).unwrap();
        check(r#"{"smCountOrigin":7,"member of a later release":[]}"#).unwrap();
        for (text, reason) in [
            (r#"{"foo":1}"#, "it has no property of a GPU"),
            (r#"{"deviceName":7}"#, r#""deviceName" is a whole number, but must be a string"#),
            (r#"{"deviceVer":"900"}"#, r#""deviceVer" is a string, but must be a whole number"#),
            (r#"{"smCountOrigin":-7}"#, r#""smCountOrigin" is another number, but must be a whole number"#),
        ] {
            assert_eq!(check(text), Err(reason.to_owned()));
        }
    }

    #[test]
    fn descriptions_of_older_releases_are_completed() {
        let older = completed(r#"{"deviceName":"NVIDIA A","smCountOrigin":7}"#);
        let members: Value = serde_json::from_str(&older).unwrap();
        assert_eq!((name(&older).as_deref(), &members["smCountOrigin"]), (Some("NVIDIA A"), &7.into()));
        assert!(members["memoryBusWidth"].is_u64());
        assert_eq!(compute_capability(&older.replace("900", "1210")).as_deref(), Some("12.1"));
        assert_eq!((compute_capability("{}"), compute_capability("no JSON")), (None, None));
        assert_eq!(completed("no JSON"), "no JSON");
        let names = [r#"{"smCountOrigin":7}"#, r#"{"GPUProfile":{"deviceName":"NVIDIA B"}}"#];
        assert_eq!(names.map(|text| name(&completed(text)).unwrap()), [UNNAMED, "NVIDIA B"]);
    }
}
