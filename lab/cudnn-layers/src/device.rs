//! Reads cuDNN's description of the device of a plan or heuristics query.

use std::sync::Arc;

use serde_json::Value;

use crate::cudnn::Cudnn;
use crate::last_error::own_calls;
use crate::shadow::content::Content;
use crate::shadow::devices;

/// Returns the compute capability in tenths, such as 90 for 9.0.
pub(crate) fn compute_capability(description: &Value) -> Option<u32> {
    // 900 for 9.0, 1210 for 12.1.
    u32::try_from(description.get("deviceVer")?.as_u64()? / 10).ok()
}

/// Returns the JSON that describes the device, up to the first NUL. Returns `None` if the descriptor has no device, or
/// cuDNN does not describe it.
pub(crate) fn description(cudnn: &Cudnn, content: &Arc<Content>) -> Option<Vec<u8>> {
    let device = devices::device(content)?;
    let json = own_calls(cudnn, || cudnn.description_of(&device))?;
    Some(json.split(|byte| *byte == 0).next()?.to_vec())
}
