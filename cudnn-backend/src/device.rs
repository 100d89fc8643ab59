//! Selects the device for engines and plans: a handle's device, or a device from a JSON description (since cuDNN 9.8).

pub use crate::cudnn::devices::H200;

use crate::cudnn::{Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnStatus_t};

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
/// Returns an error if cuDNN is older than 9.8, or if cuDNN or [`check_sizes`] rejects the description.
pub fn from_json(json: &str) -> Result<Descriptor, Error> {
    let refused = |text| Error::refused("cudnnBackendSetAttribute", cudnnStatus_t::CUDNN_STATUS_BAD_PARAM, text);
    check_sizes(json.as_bytes()).map_err(refused)?;
    Descriptor::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json.as_bytes())?
        .finalize()
}

/// The maximum size of a description in bytes. cuDNN writes less than 1 KB.
pub const MAX_BYTES: usize = 16 << 10;
/// The maximum length of a string in CUDA's structure, where the name of the device is the longest.
const MAX_STRING: usize = 255;
/// The number of elements of the arrays, which are the sizes of a grid and of a block.
const MAX_ELEMENTS: usize = 3;

/// Checks the sizes of a description, its strings and its arrays, but not whether it is valid JSON. cuDNN does not
/// check them, and a long device name damages the memory of the process. [`from_json`] calls this.
///
/// # Errors
/// Returns the reason as a sentence.
pub fn check_sizes(json: &[u8]) -> Result<(), String> {
    if json.len() > MAX_BYTES {
        return Err(format!(
            "the description of the device has {} bytes, and at most {MAX_BYTES} are allowed",
            json.len()
        ));
    }
    // The length of the current string, and the number of elements of the current array.
    let (mut string, mut elements) = (None, None);
    let mut is_escaped = false;
    for byte in json {
        match (string, byte, elements) {
            (Some(_), b'"', _) if !is_escaped => string = None,
            (Some(MAX_STRING), ..) => {
                return Err(format!("the description of the device has a string of more than {MAX_STRING} bytes"));
            }
            (Some(length), ..) => {
                is_escaped = *byte == b'\\' && !is_escaped;
                string = Some(length + 1);
            }
            (None, b'"', _) => string = Some(0),
            (None, b'[', Some(_)) | (None, b',', Some(MAX_ELEMENTS)) => {
                return Err(format!("the description of the device has an array of more than {MAX_ELEMENTS} numbers"));
            }
            (None, b'[', None) => elements = Some(1),
            (None, b',', Some(count)) => elements = Some(count + 1),
            (None, b']', _) => elements = None,
            _ => {}
        }
    }
    Ok(())
}

/// Returns the JSON description of a handle's device. Pass it to [`from_json`] on a machine without that device.
///
/// # Errors
/// Returns an error if cuDNN is older than 9.8.
pub fn to_json(handle: &Handle) -> Result<String, Error> {
    let device = Descriptor::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?
        .set_handle(Name::CUDNN_ATTR_DEVICEPROP_HANDLE, handle)?
        .finalize()?;
    let json = device.get(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 0u8)?;
    Ok(String::from_utf8_lossy(&json).trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_that_could_damage_memory_are_refused() {
        assert_eq!(check_sizes(H200.as_bytes()), Ok(()));
        let name = |name: &str| H200.replace("NVIDIA H200", name);
        assert_eq!(check_sizes(name(&"A".repeat(255)).as_bytes()), Ok(()));
        assert_eq!(check_sizes(name(r#"A \\\" [1,2,3,4] \\"#).as_bytes()), Ok(()));
        for (description, reason) in [
            (name(&"A".repeat(256)), "a string of more than 255 bytes"),
            (name(&format!(r#"A\"{}"#, "A".repeat(254))), "a string of more than 255 bytes"),
            (name(&"A".repeat(100_000)), "and at most 16384 are allowed"),
            (H200.replace("[1024,1024,64]", "[1024,1024,64,1]"), "an array of more than 3 numbers"),
            (H200.replace("[1024,1024,64]", "[[1],2,3,4]"), "an array of more than 3 numbers"),
        ] {
            let refused = check_sizes(description.as_bytes()).unwrap_err();
            assert!(refused.contains(reason), "{description}: {refused}");
            let error = from_json(&description).err().map(|error| (error.status, error.text));
            assert_eq!(error, Some((cudnnStatus_t::CUDNN_STATUS_BAD_PARAM, refused)));
        }
    }
}
