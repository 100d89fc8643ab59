//! The status of a call of cuDNN, by the name that files contain.

use std::fmt;
use std::str::FromStr;

use cudnn_graph::names::STATUSES;
use cudnn_sys::types::cudnnStatus_t;
use serde::{Deserialize, Serialize};

/// A status of cuDNN. Its text is the name without the prefix, such as `NOT_SUPPORTED`, or `#1234` for unknown numbers.
/// Unknown names are read as [`Status::UNKNOWN`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct Status(pub cudnnStatus_t);

impl Status {
    /// Success.
    pub const SUCCESS: Status = Status(cudnnStatus_t::CUDNN_STATUS_SUCCESS);
    /// A failure with an unknown name. Its text is `UNKNOWN`.
    pub const UNKNOWN: Status = Status(cudnnStatus_t(!0));
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Status::UNKNOWN {
            return f.pad("UNKNOWN");
        }
        f.pad(&STATUSES.name(i64::from(self.0.0) as u32))
    }
}

impl From<cudnnStatus_t> for Status {
    fn from(status: cudnnStatus_t) -> Self {
        Status(status)
    }
}

impl From<Status> for String {
    fn from(status: Status) -> Self {
        status.to_string()
    }
}

impl From<String> for Status {
    fn from(name: String) -> Self {
        name.parse().unwrap_or(Status::UNKNOWN)
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let number = STATUSES.number(name).ok_or_else(|| format!("the status {name:?} is unknown"))?;
        Ok(Status(cudnnStatus_t(number as _)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::captures::PlanRecord;

    #[test]
    fn a_status_equals_its_name() {
        let statuses = cudnnStatus_t::ENUMERATORS.iter().map(|(status, _)| *status).chain([cudnnStatus_t(1234)]);
        for status in statuses.map(Status) {
            let json = serde_json::to_string(&status).unwrap();
            assert_eq!(json, format!("\"{status}\""));
            assert_eq!(serde_json::from_str::<Status>(&json).unwrap(), status);
        }
        assert_eq!(
            (Status::SUCCESS.to_string(), Status(cudnnStatus_t(1234)).to_string()),
            ("SUCCESS".into(), "#1234".into())
        );
        let error = "GREAT\u{1b}".parse::<Status>().unwrap_err();
        assert_eq!(error, r#"the status "GREAT\u{1b}" is unknown"#);
    }

    #[test]
    fn a_record_with_an_unknown_status_is_read() {
        for name in ["CRASHED", "HUNG", "GREAT\u{1b}", "UNKNOWN", ""] {
            let record =
                serde_json::json!({ "plan": 0, "graph": "x", "status": name, "engine": { "index": 7 }, "build_us": 1 });
            let plan: PlanRecord = serde_json::from_value(record).unwrap();
            assert_eq!((plan.status, plan.engine.unwrap().index), (Status::UNKNOWN, 7), "{name}");
            assert_eq!(serde_json::to_string(&plan.status).unwrap(), r#""UNKNOWN""#);
        }
        assert_ne!(Status::UNKNOWN, Status::SUCCESS);
    }
}
