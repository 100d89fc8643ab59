//! Selects the device for engines and plans: a handle's device, or a device from a JSON description (since cuDNN 9.8).

pub use crate::cudnn::devices::H200;

use crate::cudnn::{Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use crate::descriptor::Descriptor;
use crate::handle::Handle;

/// The device to plan for.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// The device of a handle, to run there.
    Handle(&'a Handle),
    /// A described device, which need not be installed: see [`from_json`].
    Device(&'a Descriptor),
}

/// Creates a device from a JSON description.
///
/// # Errors
/// Returns an error if cuDNN is older than 9.8, or rejects the description.
pub fn from_json(json: &str) -> Result<Descriptor, Error> {
    Descriptor::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json.as_bytes())?
        .finalize()
}

/// Returns the JSON description of a handle's device. Pass it to [`from_json`] on a machine without that device.
///
/// # Errors
/// Returns an error if cuDNN is older than 9.8.
pub fn to_json(handle: &Handle) -> Result<String, Error> {
    let device = Descriptor::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_DEVICEPROP_HANDLE, &[handle.raw()])?
        .finalize()?;
    let json = device.get(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 0u8)?;
    Ok(String::from_utf8_lossy(&json).trim_end_matches('\0').to_owned())
}
