//! Emits NVTX ranges for tools such as Nsight Systems.
//!
//! Like any program with NVTX's headers, this loads the library in `NVTX_INJECTION64_PATH`, which only tools set, and
//! passes it a table of functions to fill in.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_os::functions::pointer_as;
use cudnn_os::libraries::Library;

/// `NVTX_ETID_CALLBACKS`.
const CALLBACKS_TABLE: u32 = 1;
/// `NVTX_ETID_VERSIONINFO`.
const VERSION_TABLE: u32 = 3;
/// `NVTX_VERSION`.
const VERSION: u32 = 3;
/// `NVTX_CB_MODULE_CORE`.
const CORE: usize = 1;
/// `NVTX_CBID_CORE_RangePushA`.
const RANGE_PUSH: usize = 9;
/// `NVTX_CBID_CORE_RangePop`.
const RANGE_POP: usize = 11;
/// The number of functions in each module of `NvtxCallbackModule`, including the unused number 0.
const SIZES: [usize; MODULES] = [0, 16, 9, 15, 7, 16, 7];
const MODULES: usize = 7;
const MAX_SIZE: usize = 16;

static FUNCTIONS: [[AtomicPtr<c_void>; MAX_SIZE]; MODULES] =
    [const { [const { AtomicPtr::new(null_mut()) }; MAX_SIZE] }; MODULES];

/// The addresses of the functions' slots, by module. Entry 0 and the last entry are null.
static TABLES: [[Slot; MAX_SIZE + 1]; MODULES] = {
    let mut tables = [const { [const { Slot(null()) }; MAX_SIZE + 1] }; MODULES];
    let mut module = 0;
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
    while module < MODULES {
        let mut number = 1;
        while number < SIZES[module] {
            tables[module][number] = Slot(&raw const FUNCTIONS[module][number]);
            number += 1;
        }
        module += 1;
    }
    tables
};

#[allow(dead_code, reason = "the tool reads it")]
struct Slot(*const AtomicPtr<c_void>);

// SAFETY: the pointer refers to a static.
unsafe impl Sync for Slot {}

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct CallbacksTable {
    size: usize,
    module: unsafe extern "C" fn(c_int, *mut *const Slot, *mut c_uint) -> c_int,
}

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionTable {
    size: usize,
    version: u32,
    reserved: u32,
    set_tool_version: extern "C" fn(u32),
}

static CALLBACKS: CallbacksTable = CallbacksTable { size: size_of::<CallbacksTable>(), module };
static VERSIONS: VersionTable =
    VersionTable { size: size_of::<VersionTable>(), version: VERSION, reserved: 0, set_tool_version };

/// `NvtxGetExportTableFunc_t`.
extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        CALLBACKS_TABLE => (&raw const CALLBACKS).cast(),
        VERSION_TABLE => (&raw const VERSIONS).cast(),
        _ => null(),
    }
}

/// # Safety
/// The pointers are null or valid for writes.
#[expect(clippy::disallowed_methods, reason = "the tool passes these pointers")]
unsafe extern "C" fn module(module: c_int, table: *mut *const Slot, size: *mut c_uint) -> c_int {
    let known = usize::try_from(module).ok().filter(|module| *module > 0);
    let Some((index, known)) = known.and_then(|index| Some((index, TABLES.get(index)?))) else { return 0 };
    // SAFETY: guaranteed by the caller.
    unsafe {
        if let Some(table) = table.as_mut() {
            *table = known.as_ptr();
        }
        if let Some(size) = size.as_mut() {
            *size = SIZES.get(index).map_or(0, |size| *size as c_uint);
        }
    }
    1
}

extern "C" fn set_tool_version(_: u32) {}

type Push = unsafe extern "C" fn(*const c_char) -> c_int;
type Pop = unsafe extern "C" fn() -> c_int;

#[derive(Clone, Copy)]
pub(super) struct Nvtx {
    push: Push,
    pop: Pop,
}

impl Nvtx {
    /// Loads the tool's library. Returns `None` if that fails or if the tool ignores ranges.
    pub(super) fn load(library: &OsStr) -> Option<Nvtx> {
        // The system's loader would wait for the writer of a named pipe.
        if library.as_encoded_bytes().contains(&b'/') && !std::fs::metadata(library).ok()?.is_file() {
            return None;
        }
        // SAFETY: the library's constructors run, which the user who named the library expects.
        let library = unsafe { Library::open_lazily(Path::new(library)).ok()? };
        type Initialize = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;
        // SAFETY: NVTX defines the type of the function with this name.
        let initialize: Initialize = unsafe { library.function(c"InitializeInjectionNvtx2")? };
        // SAFETY: this is how NVTX calls the function.
        if unsafe { initialize(export_table) } == 0 {
            return None;
        }
        let [push, pop] = [RANGE_PUSH, RANGE_POP].map(|number| {
            let cell = FUNCTIONS.get(CORE).and_then(|functions| functions.get(number));
            cell.map_or(null_mut(), |cell| cell.load(Ordering::Acquire))
        });
        if push.is_null() || pop.is_null() {
            return None;
        }
        // SAFETY: the tool has stored functions of these types.
        Some(unsafe { Nvtx { push: pointer_as(push), pop: pointer_as(pop) } })
    }

    pub(super) fn push(self, name: &CStr) {
        // SAFETY: the tool's function, with a valid string.
        unsafe { (self.push)(name.as_ptr()) };
    }

    pub(super) fn pop(self) {
        // SAFETY: the tool's function.
        unsafe { (self.pop)() };
    }
}
