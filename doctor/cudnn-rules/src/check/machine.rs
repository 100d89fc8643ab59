//! Describes the NVIDIA driver and the GPUs, without opening the driver's library.

use cudnn_cli::escape::Printable;
use cudnn_cli::platform::CAN_LOAD;
use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_frameworks::{Jetson, real_path};
use cudnn_probe::dll_search::ProcessFacts;
use cudnn_probe::ld_so::{KnownFiles, Resolution};
use cudnn_probe::release_facts::TegraChip;
use cudnn_probe::{Host, Os, release_facts};
use serde::Deserialize;
use serde_json::{Value, json};

use super::finding::{Finding, NO_DRIVER, NOT_TESTED};
use super::plain_program::{find_in, open, plain_program};
use crate::remedy::Remedy;
use crate::system::{DAMAGED_DRIVER_HELP, DRIVER_LIBRARY, NVML, driver_version, system_library};

/// CUDA libraries have never run with a driver older than this.
const OLDEST_DRIVER: &str = "100.0";

/// Directories where drivers, containers and WSL install the driver's library, although ld.so may not search them.
const DRIVER_DIRS: [&str; 8] = [
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/run/opengl-driver/lib",
    "/usr/local/cuda/compat",
    "/usr/lib64-nvidia",
    // Jetson: L4T before 36, then from 36 on.
    "/usr/lib/aarch64-linux-gnu/tegra",
    "/usr/lib/aarch64-linux-gnu/nvidia",
];

/// The driver and the GPUs.
#[derive(Debug)]
pub struct Machine {
    /// The driver's version, if NVML returns a version number.
    pub driver: Option<String>,
    /// The text that NVML returns instead of a version number.
    pub driver_text: Option<String>,
    /// The GPUs that NVML lists. On a Jetson where NVML lists no GPU, the GPU of the chip.
    pub gpus: Vec<Gpu>,
    /// The Jetson model, if this machine is one.
    pub jetson: Option<Jetson>,
    library: DriverLibrary,
    /// The CUDA release (major, minor) of the driver's library, known once a child process has started the driver.
    pub(super) cuda: Option<(u32, u32)>,
    nvml_error: Option<QueryError>,
}

/// A GPU of this machine.
#[derive(Clone, Debug, Deserialize)]
pub struct Gpu {
    /// The name of the model.
    pub name: String,
    /// The compute capability in tenths: 90 is 9.0.
    pub(crate) compute_capability: u32,
}

/// Why NVML did not answer.
#[derive(Debug)]
pub enum QueryError {
    /// The child process failed.
    Failed(String),
    /// The child process could not be started: the reason and the fix.
    NotStarted(String, &'static str),
}

/// The `libcuda.so.1` that ld.so finds for a program.
#[derive(Debug)]
enum DriverLibrary {
    /// The file, with symbolic links resolved.
    Found(PathBuf),
    Missing,
    /// The file, and why ld.so cannot load it.
    Unusable(PathBuf, String),
}

impl Machine {
    /// Finds the driver's library, and calls `query_nvml` unless NVML is certainly missing. The answer is an object
    /// with the keys `driver` and `gpus`.
    pub fn detect(host: &Host, query_nvml: impl FnOnce() -> Result<Value, QueryError>) -> Machine {
        let jetson = Jetson::detect(host);
        let library = driver_library(host);
        let answer = if is_nvml_missing(host) { Ok(Value::Null) } else { query_nvml() };
        let (answer, nvml_error) = answer.map_or_else(|error| (Value::Null, Some(error)), |answer| (answer, None));
        let gpus = answer.get("gpus").and_then(Value::as_array).into_iter().flatten();
        let mut gpus: Vec<Gpu> = gpus.filter_map(|gpu| Gpu::deserialize(gpu).ok()).collect();
        if gpus.is_empty() {
            gpus.extend(jetson.as_ref().and_then(Gpu::from_jetson));
        }
        let driver = answer.get("driver").and_then(Value::as_str).filter(|driver| !driver.is_empty());
        let (driver, driver_text) = match driver.map(str::to_owned) {
            Some(driver) if driver_version(&driver).is_none() => (None, Some(driver)),
            driver => (driver, None),
        };
        Machine { driver, driver_text, gpus, jetson, library, cuda: None, nvml_error }
    }

    /// Returns the machine for `--json`.
    pub fn value(&self) -> Value {
        let gpu = |gpu: &Gpu| json!({ "name": gpu.name, "compute_capability": gpu.capability() });
        let jetson = |jetson: &Jetson| {
            let l4t = jetson.l4t.map(|release| release.to_string());
            json!({ "name": jetson.name(), "l4t": l4t, "evidence": jetson.evidence })
        };
        json!({
            "driver": self.driver,
            "compatibility": self.compatibility(),
            "gpus": self.gpus.iter().map(gpu).collect::<Vec<_>>(),
            "jetson": self.jetson.as_ref().map(jetson),
        })
    }

    pub(crate) fn has_driver_library(&self) -> bool {
        matches!(self.library, DriverLibrary::Found(_))
    }

    /// Returns the driver's library if it is newer than the kernel driver, as with CUDA's forward compatibility.
    pub fn compatibility(&self) -> Option<String> {
        let (driver, DriverLibrary::Found(file)) = (self.driver.as_ref()?, &self.library) else { return None };
        let newer = file_version(file).filter(|version| is_older(driver, version));
        let minimum = |(major, _): (u32, u32)| min_driver(major);
        let is_newer = newer.is_some() || self.cuda.and_then(minimum).is_some_and(|minimum| is_older(driver, minimum));
        let release = self.cuda.map_or(String::new(), |(major, minor)| format!(" (CUDA {major}.{minor})"));
        is_newer.then(|| format!("{}{release}", file.display()))
    }

    /// Returns the component that is too old for programs built for this CUDA major, and the minimum driver version.
    /// Prefers the release that the driver reports, then the version in the library's file name, then the kernel
    /// driver's.
    pub(crate) fn too_old_for(&self, cuda_major: u32) -> Option<(String, &'static str)> {
        let minimum = min_driver(cuda_major)?;
        let old = self.driver.as_ref().filter(|driver| is_older(driver, minimum));
        let driver = |driver: &String| format!("driver {}", driver.printable());
        match (self.cuda, &self.library) {
            (Some((major, _)), _) if major >= cuda_major => None,
            (Some((major, minor)), DriverLibrary::Found(file)) => Some(match old {
                Some(old) => (driver(old), minimum),
                None => {
                    (format!("{}, the driver's library, which is for CUDA {major}.{minor},", file.printable()), minimum)
                }
            }),
            (None, DriverLibrary::Found(file))
                if file_version(file).is_some_and(|found| !is_older(&found, minimum)) =>
            {
                None
            }
            _ => old.map(|old| (driver(old), minimum)),
        }
    }

    /// C001: the driver is missing or does not answer.
    pub(crate) fn findings(&self) -> Option<Finding> {
        let finding = match &self.library {
            DriverLibrary::Found(_) => {
                return Some(match self.nvml_error.as_ref()? {
                    QueryError::Failed(error) => {
                        Finding::new(NO_DRIVER, format!("the driver does not answer: {error}"))
                            .remedy("reinstall the driver, or reboot if it was just updated")
                    }
                    QueryError::NotStarted(error, help) => Finding::new(NOT_TESTED, error).remedy(*help),
                });
            }
            DriverLibrary::Unusable(path, error) => {
                let message = format!("the driver's library cannot be loaded: {} {error}", path.printable());
                return Some(Finding::new(NO_DRIVER, message).remedy(DAMAGED_DRIVER_HELP));
            }
            DriverLibrary::Missing => {
                let message = format!("{}, the driver's library, was not found", DRIVER_LIBRARY);
                Finding::new(NO_DRIVER, message).note("no program can use a GPU without it")
            }
        };
        let finding = match (&self.driver, &self.nvml_error) {
            (Some(driver), _) => finding.note(format!("NVML reports driver {driver}")),
            (None, Some(QueryError::Failed(error) | QueryError::NotStarted(error, _))) => finding.note(error),
            (None, None) if !CAN_LOAD => finding,
            (None, None) => finding.note(format!("NVML ({NVML}) does not answer either")),
        };
        Some(finding.remedy(match Os::HOST {
            Os::Windows => Remedy::new(
                "install NVIDIA's driver for this GPU, which contains it, and restart Windows; in a virtual machine, pass \
                 the GPU through",
            ),
            _ => driver_help(Path::new("/"), self.jetson.is_some()),
        }))
    }
}

/// Explains how this machine should get the driver's library.
fn driver_help(root: &Path, is_jetson: bool) -> Remedy {
    const MAX_GPUS: u32 = 32;
    let exists = |path: &str| root.join(path.trim_start_matches('/')).target_exists();
    let has_kernel_driver = exists("dev/nvidiactl") || exists("proc/driver/nvidia/version") || exists("dev/dxg");
    let has_library = |dir: &&str| exists(&format!("{dir}/{}", DRIVER_LIBRARY));
    // The forward-compatibility library only works if the kernel driver is loaded.
    let is_usable = |dir: &&str| has_kernel_driver || !dir.ends_with("/compat");
    if let Some(dir) = DRIVER_DIRS.into_iter().filter(is_usable).find(has_library) {
        return Remedy::new(format!("it is in {dir}: have ld.so search that directory:")).search(Path::new(dir));
    }
    // Containers without GPUs can have `/dev/nvidiactl`.
    let has_gpu = exists("dev/dxg") || (0..MAX_GPUS).any(|number| exists(&format!("dev/nvidia{number}")));
    let is_wsl = exists("dev/dxg") || exists("usr/lib/wsl/lib");
    let is_container = exists("/.dockerenv") || exists("/run/.containerenv");
    Remedy::new(if is_jetson && is_container {
        "the driver's library of a Jetson comes with L4T: start the container with it, `docker run --runtime nvidia ...`"
    } else if is_jetson {
        "the driver's library of a Jetson comes with L4T, in the package nvidia-l4t-cuda: reinstall it; drivers for other \
         GPUs do not work there"
    } else if is_wsl {
        "install NVIDIA's driver in Windows, then restart WSL (`wsl --shutdown`, in Windows): WSL takes libcuda.so.1 from \
         there; install no driver for Linux in WSL"
    } else if has_gpu && is_container {
        "the container has the GPU's devices, but not the driver's libraries: start it with \
         NVIDIA_DRIVER_CAPABILITIES=compute,utility in its environment"
    } else if has_kernel_driver && !is_container {
        "the kernel has NVIDIA's driver, but its libraries are missing: reinstall the driver with its libraries for \
         compute (Debian: libcuda1; Ubuntu: libnvidia-compute)"
    } else if is_container {
        "start the container with GPU access: `docker run --gpus all ...`, or `podman run --device nvidia.com/gpu=all \
         ...`; the host needs NVIDIA's driver and the package nvidia-container-toolkit"
    } else {
        "install NVIDIA's driver; in a container, start it with GPU access: `docker run --gpus all ...`"
    })
}

impl Gpu {
    fn from_jetson(jetson: &Jetson) -> Option<Gpu> {
        let compute_capability = jetson.compute_capability()?;
        Some(Gpu { name: format!("the GPU of {}", jetson.name()), compute_capability })
    }

    pub(crate) fn is_tegra(&self) -> bool {
        TegraChip::with_compute_capability(self.compute_capability).is_some()
    }

    /// Returns the compute capability as text: `9.0`.
    pub fn capability(&self) -> String {
        capability(self.compute_capability)
    }
}

/// Formats a compute capability given in tenths: `9.0` for 90.
pub fn capability(tenths: u32) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Returns whether NVML is certainly missing, so that a child process cannot query it.
fn is_nvml_missing(host: &Host) -> bool {
    if Os::HOST == Os::Windows {
        return !system_library(NVML).leads_to_file();
    }
    let is_missing = |mut simulation| find_in(&mut simulation, NVML).is_none();
    plain_program(host, &KnownFiles::new()).is_some_and(is_missing)
}

fn driver_library(host: &Host) -> DriverLibrary {
    if Os::HOST == Os::Windows {
        // The driver's installer puts the DLL there, and CUDA's DLLs load it from there.
        let file = ProcessFacts::from_host(host).system_dir.map(|dir| dir.join(DRIVER_LIBRARY));
        return file.filter(|file| file.leads_to_file()).map_or(DriverLibrary::Missing, DriverLibrary::Found);
    }
    let Some(mut simulation) = plain_program(host, &KnownFiles::new()) else {
        return DriverLibrary::Missing;
    };
    match open(&mut simulation, DRIVER_LIBRARY).first().map(|step| &step.resolution) {
        Some(Resolution::Found { path, .. }) => DriverLibrary::Found(real_path(path)),
        Some(Resolution::Unusable { path, error, .. }) => DriverLibrary::Unusable(path.clone(), error.to_string()),
        _ => DriverLibrary::Missing,
    }
}

/// Returns the driver version in names such as `libcuda.so.580.65.06`. WSL's `libcuda.so.1.1` contains no version.
fn file_version(file: &Path) -> Option<String> {
    let version = driver_version(file.file_name()?.to_str()?.strip_prefix("libcuda.so.")?)?;
    (!is_older(version, OLDEST_DRIVER)).then(|| version.to_owned())
}

fn min_driver(cuda_major: u32) -> Option<&'static str> {
    let table = if Os::HOST == Os::Windows { release_facts::MIN_WINDOWS_DRIVER } else { release_facts::MIN_DRIVER };
    let (_, minimum) = table.iter().find(|(major, _)| *major == cuda_major)?;
    Some(minimum)
}

fn is_older(version: &str, than: &str) -> bool {
    let numbers = |text: &str| text.split('.').map(|part| part.parse::<u32>().unwrap_or(0)).collect::<Vec<_>>();
    numbers(version) < numbers(than)
}

#[cfg(test)]
mod tests;
