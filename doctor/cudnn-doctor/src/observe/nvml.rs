//! Queries the driver version and the GPUs, only in a child process, because any library may have NVML's name.

use std::ffi::{CStr, OsStr, c_char};

use nvml_wrapper_sys::bindings::{
    NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE, NvmlLib, nvmlDevice_t,
    nvmlReturn_enum_NVML_SUCCESS as SUCCESS, nvmlReturn_t,
};

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
