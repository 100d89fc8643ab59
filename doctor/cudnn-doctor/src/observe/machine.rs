//! Queries NVML in a child process, because any library may be called NVML. NVML works without a CUDA context.

use cudnn_cli::child_report::{Work, begin, send};
use cudnn_cli::platform::CAN_LOAD;
use cudnn_cli::subprocess::{self, Timeouts};
use cudnn_os::child::end_with_parent;
use cudnn_probe::Host;
use cudnn_rules::check::machine::{Machine, QueryError};
use cudnn_rules::system::{NVML, system_library};
use nvml_wrapper_sys::bindings::{
    NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE, NvmlLib, nvmlDevice_t,
    nvmlReturn_enum_NVML_SUCCESS as SUCCESS, nvmlReturn_t,
};
use serde_json::{Value, json};
use std::ffi::{CStr, OsStr, c_char};
use std::process::ExitCode;

pub(crate) const COMMAND: &str = "internal-machine";

const ANSWER: &str = "nvml";

const MAX_GPUS: u32 = 1024;

pub(crate) fn detect(host: &Host, timeouts: &Timeouts) -> Machine {
    Machine::detect(host, || query_nvml(timeouts))
}

/// Returns the child's answer, or why it is missing.
fn query_nvml(timeouts: &Timeouts) -> Result<Value, QueryError> {
    if !CAN_LOAD {
        return Ok(Value::Null);
    }
    let ended = subprocess::run(&[OsStr::new(COMMAND)], timeouts).map_err(|error| {
        let (error, help) = subprocess::cannot_start(&error);
        QueryError::NotStarted(error, help)
    })?;
    match ended.end.failure() {
        // The child always sends an answer.
        None => ended.messages.iter().find_map(|message| message.get(ANSWER).cloned()).ok_or_else(|| {
            QueryError::Failed(
                "querying NVML failed: the library terminated the child process with status 0".to_owned(),
            )
        }),
        Some(failure) => {
            let during = ended.during();
            Err(QueryError::Failed(format!("querying NVML failed: the child process {failure}{during}")))
        }
    }
}

pub(crate) fn run_child() -> ExitCode {
    end_with_parent();
    begin(Work::QueryNvml, format!("opened {NVML} and queried it"));
    let nvml = Nvml::open(system_library(NVML).as_os_str());
    let gpu = |(name, (major, minor)): (String, (i32, i32))| json!({ "name": name, "compute_capability": major * 10 + minor });
    let gpus = |nvml: &Nvml| {
        let count = nvml.device_count().unwrap_or(0).min(MAX_GPUS);
        (0..count).filter_map(|index| nvml.device(index)).map(gpu).collect::<Vec<Value>>()
    };
    let driver = nvml.as_ref().and_then(Nvml::driver_version);
    send(&json!({ ANSWER: {
        "driver": driver.map(|version| version.unwrap_or_else(|_| "a text that is not UTF-8".to_owned())),
        "gpus": nvml.as_ref().map(gpus).unwrap_or_default(),
    }}));
    ExitCode::SUCCESS
}

/// An initialized NVML, shut down on drop.
pub(super) struct Nvml(NvmlLib);

impl Nvml {
    /// Opens and initializes the library in this file.
    pub(super) fn open(file: &OsStr) -> Option<Nvml> {
        // SAFETY: the functions of the driver's library have the types declared in its header.
        unsafe {
            let library = NvmlLib::new(file).ok()?;
            (library.nvmlInit_v2.as_ref().ok()?() == SUCCESS).then(|| Nvml(library))
        }
    }

    /// Returns the driver version, or an error for invalid UTF-8.
    pub(super) fn driver_version(&self) -> Option<Result<String, std::str::Utf8Error>> {
        let function = self.0.nvmlSystemGetDriverVersion.as_ref().ok()?;
        // SAFETY: the function writes at most the given number of bytes.
        text::<{ NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE as usize }>(|text| unsafe {
            function(text, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE)
        })
    }

    pub(super) fn device_count(&self) -> Option<u32> {
        let mut count = 0;
        // SAFETY: the pointer is valid during the call.
        let status = unsafe { self.0.nvmlDeviceGetCount_v2.as_ref().ok()?(&mut count) };
        (status == SUCCESS).then_some(count)
    }

    /// Returns the name and compute capability (major, minor) of a GPU.
    pub(super) fn device(&self, index: u32) -> Option<(String, (i32, i32))> {
        let (mut device, mut major, mut minor): (nvmlDevice_t, _, _) = (std::ptr::null_mut(), 0, 0);
        // SAFETY: the pointer is valid during the call.
        let status = unsafe { self.0.nvmlDeviceGetHandleByIndex_v2.as_ref().ok()?(index, &mut device) };
        (status == SUCCESS).then_some(())?;
        // SAFETY: the device is valid while NVML is initialized, and the pointers are valid during the call.
        let status =
            unsafe { self.0.nvmlDeviceGetCudaComputeCapability.as_ref().ok()?(device, &mut major, &mut minor) };
        (status == SUCCESS).then_some(())?;
        let function = self.0.nvmlDeviceGetName.as_ref().ok()?;
        // SAFETY: the device is valid, and the function writes at most the given number of bytes.
        let name = text::<{ NVML_DEVICE_NAME_V2_BUFFER_SIZE as usize }>(|text| unsafe {
            function(device, text, NVML_DEVICE_NAME_V2_BUFFER_SIZE)
        });
        Some((name?.ok()?, (major, minor)))
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        if let Ok(shutdown) = &self.0.nvmlShutdown {
            // SAFETY: NVML is initialized and no longer in use.
            unsafe { shutdown() };
        }
    }
}

/// Returns the text that a function writes into a buffer, or `None` if the function fails.
fn text<const SIZE: usize>(
    write: impl FnOnce(*mut c_char) -> nvmlReturn_t,
) -> Option<Result<String, std::str::Utf8Error>> {
    let mut buffer = [0u8; SIZE];
    (write(buffer.as_mut_ptr().cast()) == SUCCESS).then_some(())?;
    let text = CStr::from_bytes_until_nul(&buffer).ok()?;
    Some(text.to_str().map(str::to_owned))
}
