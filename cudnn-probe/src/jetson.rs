//! NVIDIA's Jetson machines, recognised by files of the kernel and of L4T (Jetson Linux). No driver is asked: a container
//! without access to the GPU has these files, too.

use std::path::Path;

use crate::files::read_bounded;
use crate::host::Host;
use crate::release_facts::{TEGRA_CHIPS, TegraChip, jetpack_cuda};
use crate::report::Evidence;
use crate::version::Version;

/// The largest of these files that is read, in bytes. The real ones have some hundred.
const MAX_LEN: u64 = 64 << 10;

const DEVICE_TREE: [&str; 2] = ["/proc/device-tree/compatible", "/sys/firmware/devicetree/base/compatible"];
/// Docker hides the device tree, but not this directory.
const SOC: &str = "/sys/devices/soc0";
const L4T_RELEASE: &str = "/etc/nv_tegra_release";

/// A machine with a Tegra chip.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Jetson {
    /// Its chip, if it is one that CUDA supports and a file names it. A container may hide it.
    pub chip: Option<&'static TegraChip>,
    /// The release of L4T: 36.4.3 for `R36 (release), REVISION: 4.3`.
    pub l4t: Option<Version>,
    /// What was read, and where.
    pub evidence: Vec<Evidence>,
}

impl Jetson {
    /// Is this host a Jetson, and which?
    ///
    /// ```
    /// use cudnn_probe::{Host, Jetson};
    /// if let Some(jetson) = Jetson::detect(&Host::current()) {
    ///     println!("{}: compute capability {:?}", jetson.name(), jetson.compute_capability());
    /// }
    /// ```
    #[must_use]
    pub fn detect(host: &Host) -> Option<Jetson> {
        let mut evidence = Vec::new();
        let chip = DEVICE_TREE.iter().find_map(|file| chip_of_device_tree(file, host, &mut evidence));
        let chip = chip.or_else(|| chip_of_soc(host, &mut evidence));
        let l4t = l4t_release(host, &mut evidence);
        (!evidence.is_empty()).then_some(Jetson { chip: chip.flatten(), l4t, evidence })
    }

    /// `Jetson Orin`, or `Jetson` if the chip is not known.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.chip.map_or("Jetson", |chip| chip.product)
    }

    /// The compute capability of its GPU, in tenths. That of Thor as CUDA 13 has it.
    #[must_use]
    pub fn compute_capability(&self) -> Option<u32> {
        self.chip?.compute_capabilities.first().copied()
    }

    /// The CUDA major of the cuDNN 9 in JetPack's packages for its release of L4T, if they have a cuDNN 9.
    #[must_use]
    pub fn jetpack_cuda(&self) -> Option<u32> {
        jetpack_cuda(self.l4t?.major)
    }
}

/// The chip in the list of names that end with a zero byte: `nvidia,p3701-0000`, `nvidia,tegra234`. The outer `None` means
/// that the file names no Tegra chip.
fn chip_of_device_tree(file: &str, host: &Host, evidence: &mut Vec<Evidence>) -> Option<Option<&'static TegraChip>> {
    let text = read(host, file)?;
    let mut names = text.split('\0').filter_map(|name| name.strip_prefix("nvidia,"));
    let name = names.find(|name| name.starts_with("tegra"))?;
    evidence.push(Evidence { value: format!("nvidia,{name}"), source: file.to_owned() });
    Some(TEGRA_CHIPS.iter().find(|chip| chip.name == name))
}

/// The chip by its number, as Linux's driver for Tegra states it. The outer `None` means that it is no Tegra chip.
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

/// The release in a line such as `# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64`.
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
    let bytes = read_bounded(&host.system(Path::new(file)), MAX_LEN).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const ORIN: &str = "nvidia,p3737-0000+p3701-0000\0nvidia,p3701-0000\0nvidia,tegra234\0";
    const R36: &str = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8\n\
                       # KERNEL_VARIANT: oot\nTARGET_USERSPACE_LIB_DIR=nvidia\n";

    #[test]
    fn a_jetson_is_recognised_by_the_files_that_a_system_or_a_container_has() {
        let tree = "proc/device-tree/compatible";
        let (family, id) = ("sys/devices/soc0/family", "sys/devices/soc0/soc_id");
        let release = "etc/nv_tegra_release";
        // The files; the name, the compute capability, the release of L4T and its CUDA, and the number of pieces of
        // evidence.
        for (index, (files, expected)) in [
            (&[(tree, ORIN), (release, R36)][..], Some(("Jetson Orin", Some(87), Some("36.4.3"), Some(12), 2))),
            (&[("sys/firmware/devicetree/base/compatible", ORIN)], Some(("Jetson Orin", Some(87), None, None, 1))),
            (
                &[
                    (tree, "nvidia,p4071-0000+p3834-0008\0nvidia,p3834-0008\0nvidia,tegra264\0"),
                    (release, "# R39 (release), REVISION: 2.1, GCID: 46758480\n"),
                ],
                Some(("Jetson Thor", Some(110), Some("39.2.1"), Some(13), 2)),
            ),
            // Docker: no device tree.
            (
                &[(family, "Tegra\n"), (id, "35\n"), (release, "# R35 (release), REVISION: 4.1, GCID: 1\n")],
                Some(("Jetson Orin", Some(87), Some("35.4.1"), None, 3)),
            ),
            (&[(family, "Tegra\n"), (id, "25\n")], Some(("Jetson Xavier", Some(72), None, None, 2))),
            (&[(family, "Tegra\n"), (id, "jep106:036b:0023\n")], Some(("Jetson", None, None, None, 1))),
            (&[(release, R36)], Some(("Jetson", None, Some("36.4.3"), Some(12), 1))),
            (&[(release, "# R36 (release), REVISION: 5\n")], Some(("Jetson", None, Some("36.5.0"), Some(12), 1))),
            // A chip that is not known is not taken for the most similar one.
            (&[(tree, "nvidia,tegra2345\0")], Some(("Jetson", None, None, None, 1))),
            // Other machines, and files that state nothing.
            (&[], None),
            (&[(tree, "raspberrypi,4-model-b\0brcm,bcm2711\0"), (family, "BCM\n")], None),
            (&[(release, "R36\n"), (tree, "xnvidia,tegra234")], None),
            (&[(release, "# Rx (release), REVISION: 4.3\n")], None),
            (&[(release, "# R36 (release), REVISION: 4.3.x\n")], None),
        ]
        .into_iter()
        .enumerate()
        {
            let root = std::env::temp_dir().join(format!("cudnn-probe-jetson-{}-{index}", std::process::id()));
            for (file, text) in files {
                let file = root.join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text).unwrap();
            }
            let jetson = Jetson::detect(&Host::sandbox(&root));
            let _ = std::fs::remove_dir_all(&root);
            let found = jetson.as_ref().map(|jetson| {
                let l4t = jetson.l4t.map(|release| release.to_string());
                (jetson.name(), jetson.compute_capability(), l4t, jetson.jetpack_cuda(), jetson.evidence.len())
            });
            let expected = expected.map(|(name, capability, l4t, cuda, evidence): (_, _, Option<&str>, _, _)| {
                (name, capability, l4t.map(str::to_owned), cuda, evidence)
            });
            assert_eq!(found, expected, "{files:?}");
        }
    }
}
