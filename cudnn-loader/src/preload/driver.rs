//! The five functions of NVIDIA's driver that make a context. The driver is loaded if it is here; nothing is linked.

use std::ffi::{CStr, c_int, c_uint, c_void};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The device of this thread's context; the first where it has none, as the CUDA runtime has it, and where the process has
/// no driver yet.
pub(super) fn current() -> i32 {
    if !crate::linker::list().contains("libcuda.so.1") {
        return 0;
    }
    // Initialised already, or else nothing is current.
    Driver::open().map_or(0, |driver| driver.current())
}

/// `libcuda.so.1`.
pub(super) struct Driver {
    init: unsafe extern "C" fn(c_uint) -> c_uint,
    get_count: unsafe extern "C" fn(*mut c_int) -> c_uint,
    get_current: unsafe extern "C" fn(*mut *mut c_void) -> c_uint,
    get_device: unsafe extern "C" fn(*mut c_int) -> c_uint,
    retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_uint,
    set_current: unsafe extern "C" fn(*mut c_void) -> c_uint,
}

/// What the driver said, with the function that said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// `cuInit`, or `libcuda.so.1` where that cannot be loaded.
    pub function: &'static str,
    /// Its CUresult, or the dynamic linker's words.
    pub message: String,
}

fn check(function: &'static str, result: c_uint) -> Result<(), DriverError> {
    if result == 0 { Ok(()) } else { Err(DriverError { function, message: format!("CUresult {result}") }) }
}

impl Driver {
    /// Loads and initialises it (`cuInit`).
    pub(super) fn new() -> Result<Self, DriverError> {
        let driver = Driver::open()?;
        // SAFETY: the flags must be 0.
        check("cuInit", unsafe { (driver.init)(0) })?;
        Ok(driver)
    }

    fn open() -> Result<Self, DriverError> {
        // SAFETY: the driver's library is meant to be loaded by programs.
        let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_LOCAL) };
        let library = library
            .map_err(|error| DriverError { function: "libcuda.so.1", message: crate::linker::dlerror_text(&error) })?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the driver's function of this name has the type that is asked for, as cuda.h declares it.
                unsafe { symbol(&library, $name) }?
            };
        }
        let driver = Driver {
            init: symbol!(c"cuInit"),
            get_count: symbol!(c"cuDeviceGetCount"),
            get_current: symbol!(c"cuCtxGetCurrent"),
            get_device: symbol!(c"cuCtxGetDevice"),
            retain: symbol!(c"cuDevicePrimaryCtxRetain"),
            set_current: symbol!(c"cuCtxSetCurrent"),
        };
        // Never unloaded, as the rest of CUDA never is.
        std::mem::forget(library);
        Ok(driver)
    }

    /// How many devices there are.
    pub(super) fn count(&self) -> Result<i32, DriverError> {
        let mut count = 0;
        // SAFETY: there is a place for the answer.
        check("cuDeviceGetCount", unsafe { (self.get_count)(&raw mut count) })?;
        Ok(count)
    }

    /// The device of this thread's context, else the first.
    fn current(&self) -> i32 {
        let (mut context, mut device) = (std::ptr::null_mut(), 0);
        // SAFETY: there is a place for the answer.
        let has_context = unsafe { (self.get_current)(&raw mut context) } == 0 && !context.is_null();
        // SAFETY: as above, and there is a context.
        if has_context && unsafe { (self.get_device)(&raw mut device) } == 0 { device } else { 0 }
    }

    /// Makes the device's primary context, which the CUDA runtime uses too, and makes it this thread's. It stays.
    pub(super) fn make_context(&self, device: i32) -> Result<(), DriverError> {
        let mut context = std::ptr::null_mut();
        // SAFETY: there is a place for the answer; a number that is no device is refused.
        check("cuDevicePrimaryCtxRetain", unsafe { (self.retain)(&raw mut context, device) })?;
        // SAFETY: the context was given just now, and is never released.
        check("cuCtxSetCurrent", unsafe { (self.set_current)(context) })
    }
}

/// # Safety
/// `T` is the type of a pointer to the function.
unsafe fn symbol<T: Copy>(library: &Library, name: &'static CStr) -> Result<T, DriverError> {
    // SAFETY: the caller's obligation, passed on.
    let found = unsafe { library.get::<T>(name.to_bytes_with_nul()) };
    let missing = |_| DriverError { function: "libcuda.so.1", message: format!("it lacks {name:?}") };
    found.map(|symbol| *symbol).map_err(missing)
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The dynamic linker's words begin with the library's name.
        match self.message.starts_with(self.function) {
            true => f.write_str(&self.message),
            false => write!(f, "{}: {}", self.function, self.message),
        }
    }
}
