//! Wraps the functions of NVIDIA's driver that tell where memory is and whether a stream is captured, and that copy
//! memory.

use std::ffi::{c_int, c_uint, c_void};

use once_cell::race::OnceBox;

use crate::driver::{DriverStatus, SUCCESS, StreamCapture, library};

const INVALID_VALUE: DriverStatus = 1;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
const MEMORY_TYPE: c_int = 2;
/// `CU_MEMORYTYPE_HOST`.
const HOST: c_uint = 1;

/// The driver library that the process has loaded.
pub(super) struct MemoryFunctions {
    attribute: unsafe extern "C" fn(*mut c_void, c_int, u64) -> DriverStatus,
    capture: StreamCapture,
    synchronize: unsafe extern "C" fn(*mut c_void) -> DriverStatus,
    copy: unsafe extern "C" fn(*mut c_void, u64, usize, *mut c_void) -> DriverStatus,
}

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryKind {
    Device,
    /// Host memory that the driver has allocated or registered.
    RegisteredHost,
    /// Other host memory, or an invalid address.
    Unregistered,
}

/// Returns the driver if the process has loaded it. cuDNN loads it after the layer has begun.
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
        let capture = StreamCapture::new(&library)?;
        // SAFETY: the driver's functions with these names have these signatures since CUDA 4.0.
        unsafe {
            Some(MemoryFunctions {
                attribute: library.function(c"cuPointerGetAttribute")?,
                capture,
                synchronize: library.function(c"cuStreamSynchronize")?,
                copy: library.function(c"cuMemcpyDtoHAsync_v2")?,
            })
        }
    }

    /// Returns where the memory at an address is. `None` if the driver does not answer.
    pub(super) fn place(&self, address: u64) -> Option<MemoryKind> {
        let mut ty: c_uint = 0;
        // SAFETY: the driver writes a number of this type, and does not access the memory at the address.
        let status = self.capture.relaxed(|| unsafe { (self.attribute)((&raw mut ty).cast(), MEMORY_TYPE, address) });
        match status {
            SUCCESS if ty == HOST => Some(MemoryKind::RegisteredHost),
            SUCCESS => Some(MemoryKind::Device),
            INVALID_VALUE => Some(MemoryKind::Unregistered),
            _ => None,
        }
    }

    /// Returns whether work on the stream is, or may be, captured into a graph.
    pub(super) fn is_capturing(&self, stream: *mut c_void) -> bool {
        self.capture.relaxed(|| self.capture.is_capturing(stream))
    }

    /// Waits for the work on a stream that is not captured.
    pub(super) fn synchronize(&self, stream: *mut c_void) -> bool {
        // SAFETY: the stream belongs to a handle that the program is using.
        self.capture.relaxed(|| unsafe { (self.synchronize)(stream) == SUCCESS })
    }

    /// Copies device memory, and waits for the work on this stream. Other streams may be captured.
    pub(super) fn copy(&self, address: u64, bytes: usize, stream: *mut c_void) -> Option<Vec<u8>> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes).ok()?;
        copy.resize(bytes, 0);
        // SAFETY: the buffer has this size, and the driver refuses addresses that are not in its memory.
        let status = self.capture.relaxed(|| unsafe { (self.copy)(copy.as_mut_ptr().cast(), address, bytes, stream) });
        (self.synchronize(stream) && status == SUCCESS).then_some(copy)
    }
}
