//! Takes ownership of Windows handles.

use std::io::{Error, Result};
use std::os::windows::io::{FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};

/// Takes ownership of a handle that a call returned, or returns the error of the call.
pub(crate) fn owned(handle: HANDLE) -> Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(Error::last_os_error());
    }
    // SAFETY: the handle is open, and this value becomes the only owner.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}
