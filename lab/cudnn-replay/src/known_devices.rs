//! Describes well-known GPUs, so that cuDNN can plan for them on any machine.

use cudnn_loader::devices::H200;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::device;

/// The descriptions, with their sources and without members that equal the H200's. The limits of a multiprocessor come
/// from `libcudacxx/include/cuda/__device/arch_traits.h` of <https://github.com/NVIDIA/cccl>.
const KNOWN: &str = include_str!("known_devices.json");

/// A GPU with a known description.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDevice {
    /// The name for commands, such as `rtx-5090`.
    pub name: String,
    /// Whether cuDNN wrote this description on such a GPU. Otherwise it was derived from public data, and clocks and
    /// sizes of a card may differ.
    pub is_measured: bool,
    /// The source of the values.
    pub source: String,
    description: Map<String, Value>,
}

impl KnownDevice {
    /// Returns the description, with all members that cuDNN 9.28 needs.
    pub fn description(&self) -> String {
        let mut members: Map<String, Value> = serde_json::from_str(H200).unwrap_or_default();
        members.extend(self.description.clone());
        Value::Object(members).to_string()
    }

    /// Returns whether this is the name or cuDNN's name, ignoring case, spaces, hyphens and words such as NVIDIA.
    pub fn is_named(&self, name: &str) -> bool {
        let gpu = device::name(&self.description()).unwrap_or_default();
        [plain(&self.name), plain(&gpu)].contains(&plain(name))
    }
}

/// Returns the known devices, by compute capability.
pub fn known_devices() -> Vec<KnownDevice> {
    serde_json::from_str(KNOWN).unwrap_or_default()
}

/// Returns the letters and digits of a name in lower case, without optional words.
pub fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase());
    let words = ["nvidia", "geforce", "rtx", "tesla", "jetson"];
    words.iter().fold(letters.collect(), |name: String, word| name.replace(word, ""))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_description_is_complete_and_plausible() {
        let devices = known_devices();
        assert!(devices.len() >= 14 && devices.iter().filter(|device| device.is_measured).count() == 2);
        let names: BTreeSet<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names.len(), devices.len());
        let mut capabilities = Vec::new();
        for device in &devices {
            let description = device.description();
            cudnn_backend::device::check_sizes(description.as_bytes()).unwrap();
            assert_eq!(device::completed(&description), description);
            let members: Map<String, Value> = serde_json::from_str(&description).unwrap();
            let all: Map<String, Value> = serde_json::from_str(H200).unwrap();
            assert!(members.keys().eq(all.keys()), "{}", device.name);
            assert!(device.is_measured || device.description.len() == 12, "{}", device.name);
            assert!(!device.source.is_empty() && device.is_named(&device.name), "{}", device.name);
            let number = |name: &str| members[name].as_u64().unwrap();
            capabilities.push(number("deviceVer"));
            // A block can use all except 1 KiB of a multiprocessor's shared memory.
            let shared = number("maxSharedMemoryPerBlockOptin") + number("reservedSharedMemoryPerBlock");
            assert!([64, 100, 164, 228].contains(&(shared >> 10)) && shared % 1024 == 0, "{}", device.name);
            assert!(number("multiProcessorCount") > 0 && number("memoryBusWidth") % 64 == 0, "{}", device.name);
        }
        assert!(capabilities.is_sorted());
        assert_eq!((capabilities.first(), capabilities.last()), (Some(&750), Some(&1210)));
    }

    #[test]
    fn devices_have_the_names_that_people_use() {
        for (name, expected) in [
            ("rtx-5090", "rtx-5090"),
            ("RTX 5090", "rtx-5090"),
            ("5090", "rtx-5090"),
            ("NVIDIA GeForce RTX 5090", "rtx-5090"),
            ("H100 80GB HBM3", "h100"),
            ("tesla t4", "t4"),
            ("Jetson Thor", "thor"),
        ] {
            let found: Vec<String> =
                known_devices().into_iter().filter(|device| device.is_named(name)).map(|device| device.name).collect();
            assert_eq!(found, [expected], "{name}");
        }
        assert!(!known_devices().iter().any(|device| device.is_named("") || device.is_named("NVIDIA")));
    }
}
