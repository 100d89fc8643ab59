//! Parses the JSON that cuDNN creates for a plan.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;
use serde_json::value::RawValue;

use super::device;

use crate::json::parsed;

pub(super) struct PlanJson<'a> {
    text: &'a str,
    pub(super) graph: Value,
    device: Range<usize>,
    engine: Value,
}

impl<'a> PlanJson<'a> {
    /// Parses a plan. Returns `None` if a member is missing or nested too deeply.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        // Also parse unused members, because cuDNN crashes on JSON that is nested too deeply.
        let mut members: BTreeMap<String, Value> = parsed(text.as_bytes())?;
        let (graph, engine) = (members.remove("operationGraph")?, members.remove("engine")?);
        let members: BTreeMap<&str, &RawValue> = serde_json::from_str(text).ok()?;
        let device = device::range_of(members.get("GPUProfile")?.get(), text)?;
        Some(PlanJson { text, graph, device, engine })
    }

    /// Returns whether the plan contains compiled code. It is in `kernels` in most releases, and in `Fatbins` and other
    /// members in 9.28. Plans that select precompiled kernels contain none.
    pub(super) fn has_code(&self) -> bool {
        let is_filled = |member: &Value| match member {
            Value::Array(elements) => !elements.is_empty(),
            Value::Object(members) => !members.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => false,
        };
        self.engine.get("payload").and_then(Value::as_object).is_some_and(|payload| payload.values().any(is_filled))
    }

    pub(super) fn engine(&self) -> Option<i64> {
        self.engine.get("engineId")?.as_i64()
    }

    /// Returns whether the plan was built for this device, regardless of bus ID and index.
    pub(super) fn is_for(&self, device: &[u8]) -> bool {
        let own = self.text.get(self.device.clone()).unwrap_or_default().as_bytes();
        device::matches_description(own, device)
    }

    /// Returns the plan's JSON with bus ID and index from this description, or `None` if anything else differs.
    pub(super) fn for_device(&self, device: &[u8]) -> Option<Vec<u8>> {
        let (before, after) = (self.text.get(..self.device.start)?, self.text.get(self.device.end..)?);
        if !self.is_for(device) {
            return None;
        }
        let own = self.text.get(self.device.clone())?;
        let moved = if own.as_bytes() == device { own.to_owned() } else { device::moved(own, device)? };
        Some([before, &moved, after].concat().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(device: &str, engine: &str) -> String {
        format!(r#"{{"cudnnVersion":91900,"operationGraph":{{}},"GPUProfile":{device},"engine":{engine}}}"#)
    }

    #[test]
    fn the_engine_and_the_code_are_found() {
        for (engine, has_code) in [
            (r#"{"engineId":71,"payload":{"kernels":[{"kernelName":"a"}]}}"#, true),
            (r#"{"engineId":71,"payload":{"Records":"AA","RecordSize":8,"Fatbins":["AA"],"guid":"1"}}"#, true),
            (r#"{"engineId":71,"payload":{"kernels":[],"RecordSize":8}}"#, false),
            (r#"{"engineId":71,"knobChoices":{}}"#, false),
        ] {
            let text = plan("{}", engine);
            let parsed = PlanJson::parse(text.as_bytes()).map(|plan| (plan.engine(), plan.has_code()));
            assert_eq!(parsed, Some((Some(71), has_code)), "{engine}");
        }
        assert!(PlanJson::parse(b"{}").is_none());
        let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
        let text = plan("{}", r#"{"engineId":71}"#);
        for other in ["engine", "ofAnotherRelease"] {
            // Also test a member that comes before the deep one.
            let deep = text.replace("{\"cudnnVersion\"", &format!(r#"{{"{other}":{deep},"cudnnVersion""#));
            assert!(PlanJson::parse(deep.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn a_device_description_is_replaced_if_only_the_bus_id_and_index_differ() {
        let on = |device: &str| plan(device, "{}");
        let moved = |from: &str, to: &str| {
            let text = on(from);
            PlanJson::parse(text.as_bytes())?.for_device(to.as_bytes()).and_then(|plan| String::from_utf8(plan).ok())
        };
        let here = r#"{"cudaDeviceId":0,"deviceVer":900}"#;
        for (there, expected) in [
            (here, here),
            (r#"{"cudaDeviceId":13,"deviceVer":900}"#, r#"{"cudaDeviceId":13,"deviceVer":900}"#),
            (r#"{ "deviceVer": 900, "memoryBusWidth": 1, "cudaDeviceId": 0 }"#, here),
            (r#"{"deviceVer":900}"#, here),
            (r#"{"cudaDeviceId":-1,"deviceVer":900}"#, r#"{"cudaDeviceId":-1,"deviceVer":900}"#),
        ] {
            assert_eq!(moved(here, there), Some(on(expected)), "{there}");
        }
        for (stated, expected) in [
            (r#"{"cudaDeviceId" : 0 , "deviceVer": 900}"#, r#"{"cudaDeviceId":13,"deviceVer":900}"#),
            (r#"{"cudaDeviceId":-1,"deviceVer":900}"#, r#"{"cudaDeviceId":13,"deviceVer":900}"#),
            (
                r#"{"deviceName":"\"cudaDeviceId\":7","cudaDeviceId":0,"deviceVer":900}"#,
                r#"{"deviceName":"\"cudaDeviceId\":7","cudaDeviceId":13,"deviceVer":900}"#,
            ),
        ] {
            let there = r#"{"cudaDeviceId":13,"deviceVer":900}"#;
            assert_eq!(moved(stated, there), Some(on(expected)), "{stated}");
        }
        assert_eq!(moved(here, r#"{"cudaDeviceId":0,"deviceVer":800}"#), None);
        assert_eq!(moved(here, "{}"), None);
    }
}
