//! Wraps driver functions that locate and copy memory, and that detect the capture of a stream.

use std::ffi::{c_int, c_uint, c_void};

use once_cell::race::OnceBox;

use crate::driver::{DriverStatus, SUCCESS, library};

const INVALID_VALUE: DriverStatus = 1;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
const MEMORY_TYPE: c_int = 2;
/// `CU_MEMORYTYPE_HOST`.
const HOST: c_uint = 1;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
const NOT_CAPTURING: c_int = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

pub(super) struct MemoryFunctions {
    attribute: unsafe extern "C" fn(*mut c_void, c_int, u64) -> DriverStatus,
    is_capturing: unsafe extern "C" fn(*mut c_void, *mut c_int) -> DriverStatus,
    exchange_mode: unsafe extern "C" fn(*mut c_int) -> DriverStatus,
    synchronize: unsafe extern "C" fn(*mut c_void) -> DriverStatus,
    copy: unsafe extern "C" fn(*mut c_void, u64, usize, *mut c_void) -> DriverStatus,
}

/// The location of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryKind {
    Device,
    RegisteredHost,
    /// Other host memory, or an invalid address.
    Unregistered,
}

/// Returns the driver if it is loaded. cuDNN loads it after the layer has started.
pub(super) fn loaded() -> Option<&'static MemoryFunctions> {
    static DRIVER: OnceBox<MemoryFunctions> = OnceBox::new();
    if DRIVER.get().is_none() {
        let _ = DRIVER.set(Box::new(MemoryFunctions::loaded()?));
    }
    DRIVER.get()
}

impl MemoryFunctions {
    fn loaded() -> Option<MemoryFunctions> {
        let library = library()?;
        // SAFETY: the driver's functions with these names have these signatures since CUDA 10.1.
        unsafe {
            Some(MemoryFunctions {
                attribute: library.function(c"cuPointerGetAttribute")?,
                is_capturing: library.function(c"cuStreamIsCapturing")?,
                exchange_mode: library.function(c"cuThreadExchangeStreamCaptureMode")?,
                synchronize: library.function(c"cuStreamSynchronize")?,
                copy: library.function(c"cuMemcpyDtoHAsync_v2")?,
            })
        }
    }

    /// Returns the location of an address, if the driver reports it.
    pub(super) fn place(&self, address: u64) -> Option<MemoryKind> {
        let mut ty: c_uint = 0;
        // SAFETY: the driver writes a number of this type, and does not access the memory at the address.
        let status = self.relaxed(|| unsafe { (self.attribute)((&raw mut ty).cast(), MEMORY_TYPE, address) });
        match status {
            SUCCESS if ty == HOST => Some(MemoryKind::RegisteredHost),
            SUCCESS => Some(MemoryKind::Device),
            INVALID_VALUE => Some(MemoryKind::Unregistered),
            _ => None,
        }
    }

    /// Returns whether the stream may be captured into a graph.
    pub(super) fn is_capturing(&self, stream: *mut c_void) -> bool {
        let mut status = NOT_CAPTURING;
        // SAFETY: the stream belongs to a handle that the program is using, and the pointer is valid for writes.
        let asked = self.relaxed(|| unsafe { (self.is_capturing)(stream, &raw mut status) });
        asked != SUCCESS || status != NOT_CAPTURING
    }

    /// Runs driver calls in a mode that does not fail during the capture of a CUDA graph, and does not invalidate
    /// captures.
    fn relaxed<T>(&self, calls: impl FnOnce() -> T) -> T {
        let mut mode = RELAXED;
        // SAFETY: the pointer is valid for writes.
        let was_exchanged = unsafe { (self.exchange_mode)(&raw mut mode) } == SUCCESS;
        let result = calls();
        if was_exchanged {
            // SAFETY: as above. This restores the program's mode.
            unsafe { (self.exchange_mode)(&raw mut mode) };
        }
        result
    }

    pub(super) fn synchronize(&self, stream: *mut c_void) -> bool {
        // SAFETY: the stream belongs to a handle that the program is using.
        self.relaxed(|| unsafe { (self.synchronize)(stream) == SUCCESS })
    }

    /// Copies device memory on this stream, and waits for it. Other streams may be captured.
    pub(super) fn copy(&self, address: u64, bytes: usize, stream: *mut c_void) -> Option<Vec<u8>> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes).ok()?;
        copy.resize(bytes, 0);
        // SAFETY: the buffer has this size, and the driver refuses addresses that are not in its memory.
        let status = self.relaxed(|| unsafe { (self.copy)(copy.as_mut_ptr().cast(), address, bytes, stream) });
        (self.synchronize(stream) && status == SUCCESS).then_some(copy)
    }
}
