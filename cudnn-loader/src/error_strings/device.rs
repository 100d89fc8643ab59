//! Adds facts about the calling thread's device to an error: free memory, compute capability, or an error from an
//! earlier kernel. Uses the driver only if the process has loaded it, and never loads or initializes anything.

use std::ffi::{CStr, c_int, c_uint};
use std::fmt::Write;

use cudnn_sys::types::cudnnStatus_t;

use crate::dl::Handle;
use crate::driver::{self, GetInt, function};
use crate::resolve::installation::installation;
use crate::thread::fork::is_in_child;

// Driver functions, as declared in cuda.h.
type GetAttribute = unsafe extern "C" fn(*mut c_int, c_uint, c_int) -> c_uint;
type GetMemory = unsafe extern "C" fn(*mut usize, *mut usize) -> c_uint;
type GetText = unsafe extern "C" fn(c_uint, *mut *const std::ffi::c_char) -> c_uint;

const CAPABILITY_MAJOR: c_uint = 75;
const CAPABILITY_MINOR: c_uint = 76;

/// Returns the text to append to the reason of a failure with this status, for example
/// ` (device 0: 3 MiB of 139.8 GiB free)`. May be empty.
pub(super) fn context(status: cudnnStatus_t) -> String {
    let Some(device) = CurrentDevice::find() else { return String::new() };
    let mut facts = Vec::new();
    match status.category().0 {
        1000 if status != cudnnStatus_t::CUDNN_STATUS_NOT_INITIALIZED => {}
        // An unsupported pattern, which another release or device may support.
        3000 => {
            let version = installation().map(|installation| format!("cuDNN {}", installation.version));
            facts.extend(version);
            facts.extend(device.capability());
        }
        // Not initialized, an internal error such as a failed allocation, or a failed execution.
        1000 | 4000 | 5000 => facts.push(device.memory()),
        _ => {}
    }
    if let Some(count) = device.count().filter(|count| *count > 1) {
        facts.push(format!("this thread's device is {} of {count}", device.number));
    }
    if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) }
}

/// The device of this thread's context.
struct CurrentDevice {
    driver: Handle,
    number: c_int,
}

impl CurrentDevice {
    /// Returns `None` without a loaded driver or a current context, and in forked children, where CUDA is unusable.
    fn find() -> Option<Self> {
        if is_in_child() {
            return None;
        }
        let driver = driver::loaded()?;
        Some(CurrentDevice { driver, number: driver::current_device(&driver)? })
    }

    fn count(&self) -> Option<c_int> {
        let mut count = 0;
        let get_count = function!(self.driver, c"cuDeviceGetCount" as GetInt)?;
        // SAFETY: the output pointer is valid for writes.
        (unsafe { get_count(&raw mut count) } == 0).then_some(count)
    }

    fn capability(&self) -> Option<String> {
        let get = function!(self.driver, c"cuDeviceGetAttribute" as GetAttribute)?;
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: the output pointer is valid for writes, and the driver returned this device number.
            (unsafe { get(&raw mut value, attribute, self.number) } == 0).then_some(value)
        };
        Some(format!("compute capability {}.{}", attribute(CAPABILITY_MAJOR)?, attribute(CAPABILITY_MINOR)?))
    }

    /// Returns the memory, or the error that the device reports.
    fn memory(&self) -> String {
        let mut text = format!("device {}: ", self.number);
        let (mut free, mut total) = (0, 0);
        let Some(get_memory) = function!(self.driver, c"cuMemGetInfo_v2" as GetMemory) else { return text };
        // SAFETY: the output pointers are valid for writes.
        let result = unsafe { get_memory(&raw mut free, &raw mut total) };
        let _ = if result == 0 {
            write!(text, "{} of {} free", size(free), size(total))
        } else {
            write!(text, "CUDA reports error {result}{}", self.error_name(result))
        };
        text
    }

    fn error_name(&self, error: c_uint) -> String {
        let mut name = std::ptr::null();
        let Some(get_name) = function!(self.driver, c"cuGetErrorName" as GetText) else { return String::new() };
        // SAFETY: the output pointer is valid for writes.
        if unsafe { get_name(error, &raw mut name) } != 0 || name.is_null() {
            return String::new();
        }
        // SAFETY: the driver returned a static string.
        format!(" ({})", unsafe { CStr::from_ptr(name) }.to_string_lossy())
    }
}

/// Formats a size, for example `3.1 MiB`.
fn size(bytes: usize) -> String {
    let mut unit = "KiB";
    let mut tenths = bytes as u64 * 10 / 1024;
    for larger in ["MiB", "GiB"] {
        if tenths >= 10240 {
            (unit, tenths) = (larger, tenths / 1024);
        }
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_suitable_units() {
        for (bytes, text) in
            [(0, "0.0 KiB"), (1023 << 10, "1023.0 KiB"), (3_277_000, "3.1 MiB"), (150_109_880_320, "139.8 GiB")]
        {
            assert_eq!(size(bytes), text);
        }
    }
}
