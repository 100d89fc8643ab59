//! The structures and constants of `cudnn_layer.h` in Rust. The header documents them, and a test compares both.
//!
//! The structures of older loaders are shorter, so a layer must not make references to them. It compares `size` with
//! `MIN_SIZE` and reads fields through the pointer.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

/// `CUDNN_LAYER_ABI`: the version of the interface.
pub const ABI: u32 = 1;

/// `CUDNN_LAYER_ERROR`.
pub const ERROR: c_int = 0;
/// `CUDNN_LAYER_WARNING`.
pub const WARNING: c_int = 1;
/// `CUDNN_LAYER_INFO`.
pub const INFO: c_int = 2;

/// `CUDNN_LAYER_LIBRARY_LOADED`.
pub const LIBRARY_LOADED: i32 = 1;
/// `CUDNN_LAYER_LIBRARY_FAILED`.
pub const LIBRARY_FAILED: i32 = 2;
/// `CUDNN_LAYER_CALL_FAILED`.
pub const CALL_FAILED: i32 = 3;
/// `CUDNN_LAYER_FIRST_CALL`.
pub const FIRST_CALL: i32 = 4;

/// `cudnnLayerHost`.
#[repr(C)]
#[derive(Debug)]
pub struct Host {
    /// The size of this structure in the loader.
    pub size: usize,
    /// The loader's value of [`ABI`].
    pub abi: u32,
    /// The cuDNN version, such as 92800 for 9.28.0.
    pub cudnn_version: u32,
    /// The directory of cuDNN's libraries.
    pub cudnn_dir: *const c_char,
    /// The name of the layer, as it was requested.
    pub name: *const c_char,
    /// Private data of the loader.
    pub loader: *mut c_void,
    /// Returns the function with this name that comes next after this layer.
    pub next: unsafe extern "C" fn(*const Host, *const c_char) -> *mut c_void,
    /// Logs a line.
    pub message: unsafe extern "C" fn(*const Host, c_int, *const c_char),
    /// Returns the number of calls that bypassed the layers.
    pub missed_calls: unsafe extern "C" fn(*const Host) -> u64,
    /// The layers between this one and cuDNN, each followed by a newline.
    pub inside: *const c_char,
    /// The environment at the time when cuDNN's graph library was loaded, or null.
    pub environment: *const c_char,
    /// The CUDA version of cuDNN, such as 12090, or 0. Check `size` before reading it.
    pub cudart_version: u32,
}

impl Host {
    /// The size of the fields that every loader provides. Check `size` before reading later ones.
    pub const MIN_SIZE: usize = offset_of!(Host, cudart_version);
}

/// `cudnnLayerEvent`.
#[repr(C)]
#[derive(Debug)]
pub struct Event {
    /// The size of this structure in the loader.
    pub size: usize,
    /// What happened.
    pub kind: i32,
    /// A `cudnnStatus_t`.
    pub status: i32,
    /// The function, or null.
    pub function: *const c_char,
    /// The library's name, or null.
    pub library: *const c_char,
    /// The library's file, or null.
    pub path: *const c_char,
    /// The reason of a failure, or null.
    pub text: *const c_char,
    /// The duration of the operation.
    pub duration_ns: u64,
    /// The time since the operation ended.
    pub age_ns: u64,
}

impl Event {
    /// The size of the fields that every loader provides. Check `size` before reading later ones.
    pub const MIN_SIZE: usize = offset_of!(Event, age_ns) + size_of::<u64>();
}

/// `cudnnLayer`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    /// The number of bytes of this structure that the other side knows.
    pub size: usize,
    /// Passed to the functions below.
    pub data: *mut c_void,
    /// Returns the function to call instead of the passed function.
    pub wrap: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void) -> *mut c_void>,
    /// Receives events.
    pub event: Option<unsafe extern "C" fn(*mut c_void, *const Event)>,
}

impl Layer {
    /// The size of the fields that every loader reads. Check `size` before writing later ones.
    pub const MIN_SIZE: usize = offset_of!(Layer, event) + size_of::<usize>();
}

/// The type of `cudnnLayerCheck`.
pub type Check = unsafe extern "C" fn(name: *const c_char) -> *const c_char;

/// The type of `cudnnLayerBegin`.
pub type Begin = unsafe extern "C" fn(*const Host, *mut Layer) -> c_int;
