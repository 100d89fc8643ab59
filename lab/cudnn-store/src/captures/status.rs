//! The status of a call of cuDNN, by the name that files contain.

use std::fmt;

use cudnn_graph::names::STATUSES;
use cudnn_sys::types::cudnnStatus_t;
use serde::{Deserialize, Serialize};

/// A status that cuDNN has returned. Its text is the name without the prefix, such as `NOT_SUPPORTED`, or `#1234` if
/// these bindings do not know the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Status(pub cudnnStatus_t);

impl Status {
    /// Success.
    pub const SUCCESS: Status = Status(cudnnStatus_t::CUDNN_STATUS_SUCCESS);
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

impl TryFrom<String> for Status {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let number = STATUSES.number(&name).ok_or_else(|| format!("the status {name:?} is unknown"))?;
        Ok(Status(cudnnStatus_t(number as _)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let error = serde_json::from_str::<Status>("\"GREAT\\u001b\"").unwrap_err();
        assert_eq!(error.to_string(), r#"the status "GREAT\u{1b}" is unknown"#);
    }
}
