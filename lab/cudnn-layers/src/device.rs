//! Reads cuDNN's description of the device that a plan or a query of the heuristics is for.

use std::sync::Arc;

use crate::cudnn::Cudnn;
use crate::last_error::own_calls;
use crate::shadow::content::Content;
use crate::shadow::devices;

/// Returns the JSON that describes the device, up to the first NUL. `None` if the descriptor refers to no device, or cuDNN
/// does not describe it.
pub(crate) fn description(cudnn: &Cudnn, content: &Arc<Content>) -> Option<Vec<u8>> {
    let device = devices::device(content)?;
    let json = own_calls(cudnn, || cudnn.description_of(&device))?;
    Some(json.split(|byte| *byte == 0).next()?.to_vec())
}
