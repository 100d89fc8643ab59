//! Selects the devices to plan for: known GPUs, or files with cuDNN's descriptions.

use std::path::{Path, PathBuf};

use cudnn_backend::device::{MAX_BYTES, check_sizes};
use cudnn_cli::escape::Printable;
use cudnn_probe::read_bounded;
use cudnn_replay::device;
use cudnn_replay::known_devices::{KnownDevice, known_devices, plain};
use serde_json::{Map, Value};

/// The option of commands that can plan for one other device.
#[derive(clap::Args)]
pub(crate) struct DeviceOption {
    /// Plan for this GPU, which is not needed here: a name in `cudnn-lab devices`, or a file that `cudnn-lab devices
    /// --here` has written on a machine with the GPU.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) device: Option<PathBuf>,
}

pub(crate) struct TargetDevice {
    pub(crate) description: String,
    /// `None` for a description in a file.
    pub(crate) known: Option<KnownDevice>,
}

impl TargetDevice {
    pub(crate) fn gpu(&self) -> String {
        device::name(&self.description).unwrap_or_else(|| device::UNNAMED.to_owned())
    }
}

impl DeviceOption {
    pub(crate) fn select(&self) -> Result<Option<TargetDevice>, String> {
        self.device.as_deref().map(select).transpose()
    }
}

/// Returns the known device with this name, or the description in this file. Names without a separator are first looked
/// up among the known devices. The error lists similar names.
pub(crate) fn select(name: &Path) -> Result<TargetDevice, String> {
    let text = name.to_string_lossy();
    let is_path = text.contains(std::path::is_separator);
    let known = known_devices().into_iter().find(|known| !is_path && known.is_named(&text));
    if let Some(known) = known {
        return Ok(TargetDevice { description: known.description(), known: Some(known) });
    }
    if !is_path && !name.exists() {
        let near = near_names(&text);
        let near = if near.is_empty() { near } else { format!("; similar names: {near}") };
        return Err(format!(
            "{}: no known device or file has this name{near}; `cudnn-lab devices` lists the known devices",
            name.printable()
        ));
    }
    Ok(TargetDevice { description: read(name)?, known: None })
}

/// Returns similar names, best first.
fn near_names(name: &str) -> String {
    let name = plain(name);
    let similarity = |known: &KnownDevice| {
        let known = plain(&known.name);
        let is_part = name.len() > 1 && (known.contains(&name) || name.contains(&known));
        if is_part { 1.0 } else { strsim::jaro_winkler(&known, &name) }
    };
    let mut near: Vec<(f64, String)> =
        known_devices().into_iter().map(|known| (similarity(&known), known.name)).collect();
    near.retain(|(similarity, _)| *similarity > 0.7);
    near.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    near.into_iter().take(4).map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

/// Reads a description from a file, and checks sizes that could damage cuDNN's memory.
pub(crate) fn read(file: &Path) -> Result<String, String> {
    let name = file.printable();
    let bytes = read_bounded(file, MAX_BYTES as u64).map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{name} is not a text file"))?;
    let text = text.trim_end_matches('\0').trim_ascii();
    let members: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| format!("{name} is not a description of a device, which is a JSON object: {error}"))?;
    device::check_members(&members).map_err(|reason| format!("{name} is not a description of a device: {reason}"))?;
    check_sizes(text.as_bytes()).map_err(|refusal| format!("{name}: {refusal}"))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_found() {
        for (wanted, expected) in [
            ("5080", "rtx-5090"),
            ("rtx5080", "rtx-5090"),
            ("RTX 4090 Ti", "rtx-4090"),
            ("L40", "l40s"),
            ("A100-PCIE-40GB", "a100"),
            ("gb200", "b200"),
            ("orion", "orin"),
        ] {
            let near = near_names(wanted);
            assert!(near.split(", ").take(2).any(|name| name == expected), "{wanted}: {near}");
        }
        assert_eq!((near_names(""), near_names("\u{1b}[2J"), near_names("Radeon")), Default::default());
    }
}
