//! Finds cuDNN's description of the device that a plan or a query of the heuristics is for.

use std::sync::Arc;

use crate::cudnn::Cudnn;
use crate::last_error::own_calls;
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::elements::Name;
use crate::shadow::handles::{self, Handle};

/// The attributes with a device, of plans, heuristics and engines.
const DEVICES: [Name; 3] = [
    Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
    Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
    Name::CUDNN_ATTR_ENGINE_DEVICEPROP,
];
/// The attributes with a handle, of devices, plans and graphs.
const HANDLES: [Name; 3] = [
    Name::CUDNN_ATTR_DEVICEPROP_HANDLE,
    Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
    Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
];

/// Returns the JSON that describes the device, or `None` if cuDNN does not describe it, or if its handle was destroyed.
pub(crate) fn description(cudnn: &Cudnn, content: &Arc<Content>) -> Option<Vec<u8>> {
    let levels = || std::iter::successors(Some(content), |content| shadow::toward_graph(content));
    let described = levels().find_map(|content| DEVICES.iter().find_map(|name| content.child(*name)));
    let handle = match described {
        Some(device) => match device.elements(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION) {
            Some(json) => return Some(until_nul(json.as_slice())),
            None => living_handle(device),
        },
        None => levels().find_map(living_handle),
    }?;
    Some(until_nul(&own_calls(cudnn, || cudnn.device_of(handle))?))
}

/// Returns a handle that the program has set and not destroyed.
fn living_handle(content: &Arc<Content>) -> Option<Handle> {
    let handle = |name: &Name| Handle::all_in(content.elements(*name)?.as_slice()).next();
    HANDLES.iter().filter_map(handle).find(|handle| handles::living(handle.address) == *handle)
}

fn until_nul(text: &[u8]) -> Vec<u8> {
    text.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}
