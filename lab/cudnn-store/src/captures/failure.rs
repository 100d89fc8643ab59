//! Finds the descriptors that show a failure again.

use cudnn_graph::names::ATTRIBUTES;
use cudnn_graph::{Attribute, Graph, Value};
use cudnn_sys::types::{cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type};

use super::record::{FailureRecord, from_hexadecimal};

impl FailureRecord {
    /// Returns descriptors that show the failure when they are created again. The last one was refused.
    ///
    /// # Errors
    /// Returns the reason if the failure depends on more than descriptors, or if the attribute's elements are missing.
    pub fn graph(&self) -> Result<Graph, String> {
        let mut nodes = self.descriptors.clone();
        let last = nodes.last_mut().ok_or("the descriptor is missing in the capture")?;
        match self.call.as_str() {
            "cudnnBackendFinalize" => last.is_finalized = true,
            "cudnnBackendSetAttribute" if last.is_finalized => {
                return Err("the descriptor was finalized before the attribute was set".to_owned());
            }
            "cudnnBackendSetAttribute" => last.attributes.push(self.refused()?),
            call => return Err(format!("a failure of {call} depends on more than descriptors")),
        }
        Graph::new(nodes)
    }

    fn refused(&self) -> Result<Attribute, String> {
        let (name, ty, count, elements) =
            self.attribute.as_ref().ok_or("the name of the attribute is missing in the capture")?;
        let lacking = || format!("the elements of the attribute {name} are missing in the capture");
        let bytes = elements.as_deref().and_then(from_hexadecimal).ok_or_else(lacking)?;
        let number = ATTRIBUTES.number(name).ok_or_else(|| format!("the attribute {name} is unknown"))?;
        let ty = Type(*ty);
        let value = Value::from_bytes(ty, *count, &bytes).ok_or_else(lacking)?;
        Ok(Attribute { name: Name(number), ty, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TENSOR: &str = r#"{"kind":"TENSOR","finalized":false,"DATA_TYPE:1":2}"#;

    fn failure(call: &str, attribute: serde_json::Value, descriptors: &[&str]) -> FailureRecord {
        let descriptors = descriptors.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        FailureRecord {
            call: call.to_owned(),
            status: cudnn_sys::types::cudnnStatus_t::CUDNN_STATUS_BAD_PARAM.into(),
            reason: None,
            attribute: serde_json::from_value(attribute).unwrap(),
            descriptors,
        }
    }

    #[track_caller]
    fn check(failure: &FailureRecord, expected: &str) {
        assert_eq!(serde_json::to_string(&failure.graph().unwrap()).unwrap(), expected);
    }

    #[track_caller]
    fn refused(failure: &FailureRecord, reason: &str) {
        assert_eq!(failure.graph().unwrap_err(), reason);
    }

    #[test]
    fn the_last_descriptor_shows_the_failure() {
        check(&failure("cudnnBackendFinalize", json!(null), &[TENSOR]), r#"[{"kind":"TENSOR","DATA_TYPE:1":2}]"#);
        let attribute = json!(["TENSOR_DIMENSIONS", 3, 1, "ffffffffffffffff"]);
        check(
            &failure("cudnnBackendSetAttribute", attribute, &[TENSOR]),
            r#"[{"kind":"TENSOR","finalized":false,"DATA_TYPE:1":2,"DIMENSIONS:3":-1}]"#,
        );
    }

    #[test]
    fn other_failures_are_refused() {
        let set = "cudnnBackendSetAttribute";
        refused(&failure(set, json!(null), &[]), "the descriptor is missing in the capture");
        refused(&failure(set, json!(null), &[TENSOR]), "the name of the attribute is missing in the capture");
        let lacking = "the elements of the attribute TENSOR_DIMENSIONS are missing in the capture";
        for elements in [json!(null), json!("ff"), json!("f"), json!("zz"), json!("+1")] {
            let attribute = json!(["TENSOR_DIMENSIONS", 3, 1, elements]);
            refused(&failure(set, attribute, &[TENSOR]), lacking);
        }
        let finalized = r#"{"kind":"TENSOR","DATA_TYPE:1":2}"#;
        let attribute = json!(["TENSOR_DIMENSIONS", 3, 1, "ffffffffffffffff"]);
        let too_late = "the descriptor was finalized before the attribute was set";
        refused(&failure(set, attribute, &[finalized]), too_late);
        let unknown = json!(["NO_SUCH_NAME", 3, 1, "ffffffffffffffff"]);
        refused(&failure(set, unknown, &[TENSOR]), "the attribute NO_SUCH_NAME is unknown");
        let execute = failure("cudnnBackendExecute", json!(null), &[TENSOR]);
        refused(&execute, "a failure of cudnnBackendExecute depends on more than descriptors");
    }
}
