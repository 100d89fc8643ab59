//! Detects Jetson machines by the files of L4T (Jetson Linux), even in containers without GPU access.

use std::path::Path;

use cudnn_probe::release_facts::{TEGRA_CHIPS, TegraChip, jetpack_cuda};
use cudnn_probe::{Host, Version};

use crate::files::read_text;
use crate::installation::Evidence;

/// The maximum size of a file in bytes. Real files have a few hundred.
const MAX_LEN: u64 = 64 << 10;

const DEVICE_TREE: [&str; 2] = ["/proc/device-tree/compatible", "/sys/firmware/devicetree/base/compatible"];
/// Docker hides the device tree, but not this directory.
const SOC: &str = "/sys/devices/soc0";
const L4T_RELEASE: &str = "/etc/nv_tegra_release";

/// A machine with a Tegra chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jetson {
    /// The chip, if a file contains the name of one that CUDA supports. Containers may hide this file.
    pub chip: Option<&'static TegraChip>,
    /// The L4T release: 36.4.3 for `R36 (release), REVISION: 4.3`.
    pub l4t: Option<Version>,
    /// The values that were read, and their files.
    pub evidence: Vec<Evidence>,
}

impl Jetson {
    /// Returns information about the Jetson, or `None` if this host is not one.
    ///
    /// ```
    /// use cudnn_frameworks::Jetson;
    /// use cudnn_probe::Host;
    /// if let Some(jetson) = Jetson::detect(&Host::current()) {
    ///     println!("{}: compute capability {:?}", jetson.name(), jetson.compute_capability());
    /// }
    /// ```
    pub fn detect(host: &Host) -> Option<Jetson> {
        let mut evidence = Vec::new();
        let chip = DEVICE_TREE.iter().find_map(|file| chip_of_device_tree(file, host, &mut evidence));
        let chip = chip.or_else(|| chip_of_soc(host, &mut evidence));
        let l4t = l4t_release(host, &mut evidence);
        (!evidence.is_empty()).then_some(Jetson { chip: chip.flatten(), l4t, evidence })
    }

    /// Returns a name such as `Jetson Orin`, or `Jetson` if the chip is unknown.
    pub fn name(&self) -> &'static str {
        self.chip.map_or("Jetson", |chip| chip.product)
    }

    /// Returns the GPU's compute capability in tenths. For Thor, this is CUDA 13's value.
    pub fn compute_capability(&self) -> Option<u32> {
        self.chip?.compute_capabilities.first().copied()
    }

    /// Returns the CUDA major version of JetPack's cuDNN 9 for this L4T release, if there is one.
    pub fn jetpack_cuda(&self) -> Option<u32> {
        jetpack_cuda(self.l4t?.major)
    }
}

/// Reads the chip from names separated by zero bytes: `nvidia,p3701-0000`, `nvidia,tegra234`. The outer `None` means
/// that the file names no Tegra chip.
fn chip_of_device_tree(file: &str, host: &Host, evidence: &mut Vec<Evidence>) -> Option<Option<&'static TegraChip>> {
    let text = read(host, file)?;
    let mut names = text.split('\0').filter_map(|name| name.strip_prefix("nvidia,"));
    let name = names.find(|name| name.starts_with("tegra"))?;
    evidence.push(Evidence { value: format!("nvidia,{name}"), source: file.to_owned() });
    Some(TEGRA_CHIPS.iter().find(|chip| chip.name == name))
}

/// Reads the chip's number. The outer `None` means that this is not a Tegra chip.
fn chip_of_soc(host: &Host, evidence: &mut Vec<Evidence>) -> Option<Option<&'static TegraChip>> {
    let family = format!("{SOC}/family");
    let text = read(host, &family).filter(|text| text.to_ascii_lowercase().starts_with("tegra"))?;
    evidence.push(Evidence { value: text.trim().to_owned(), source: family });
    let id = format!("{SOC}/soc_id");
    let Some(number) = read(host, &id).and_then(|text| text.trim().parse::<u32>().ok()) else { return Some(None) };
    let chip = TEGRA_CHIPS.iter().find(|chip| chip.id == number);
    evidence.extend(chip.map(|chip| Evidence { value: format!("{number} ({})", chip.name), source: id }));
    Some(chip)
}

/// Parses a line such as `# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64`.
fn l4t_release(host: &Host, evidence: &mut Vec<Evidence>) -> Option<Version> {
    let text = read(host, L4T_RELEASE)?;
    let line = text.lines().next()?;
    let (major, rest) = line.trim_start_matches(['#', ' ']).strip_prefix('R')?.split_once(' ')?;
    let (_, revision) = rest.split_once("REVISION:")?;
    let mut numbers = revision.split(',').next()?.trim().splitn(2, '.').map(|number| number.parse().ok());
    let release = Version::new(major.parse().ok()?, numbers.next()??, numbers.next().unwrap_or(Some(0))?);
    evidence.push(Evidence { value: format!("L4T {release}"), source: L4T_RELEASE.to_owned() });
    Some(release)
}

fn read(host: &Host, file: &str) -> Option<String> {
    read_text(&host.system(Path::new(file)), MAX_LEN)
}
