//! Handles of the system.

use std::io::{Error, Result};
use std::os::windows::io::{FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};

/// Takes over a handle that a call has returned, or returns the error of the call.
pub(crate) fn owned(handle: HANDLE) -> Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(Error::last_os_error());
    }
    // SAFETY: the handle is open, and nothing else owns it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}
