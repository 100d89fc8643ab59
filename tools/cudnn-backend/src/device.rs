//! The device that engines and plans are for: a handle's, or one that a JSON text describes (since cuDNN 9.8).

pub use crate::cudnn::devices::H200;

use crate::cudnn::{Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use crate::descriptor::Descriptor;
use crate::handle::Handle;

/// The device to plan for.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// A handle's device, to run there.
    Handle(&'a Handle),
    /// A described device, which may be absent: see [`from_json`].
    Device(&'a Descriptor),
}

/// A device from its description in JSON.
///
/// # Errors
/// When cuDNN is older than 9.8, or rejects the description.
pub fn from_json(json: &str) -> Result<Descriptor, Error> {
    Descriptor::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json.as_bytes())?
        .finalize()
}

/// The description of a handle's device in JSON, for [`from_json`] on a machine without it.
///
/// # Errors
/// When cuDNN is older than 9.8.
pub fn to_json(handle: &Handle) -> Result<String, Error> {
    let device = Descriptor::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_DEVICEPROP_HANDLE, &[handle.raw()])?
        .finalize()?;
    let json = device.get(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 0u8)?;
    Ok(String::from_utf8_lossy(&json).trim_end_matches('\0').to_owned())
}
