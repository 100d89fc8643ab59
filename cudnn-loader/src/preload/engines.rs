//! Makes cuDNN register its engines, which accounts for most of the time of a first plan.
//!
//! It asks for the engines of a small convolution on a device that is described in text, which requires neither a handle
//! nor a context (since cuDNN 9.8). Any device will do: the registration does not depend on it.

use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr::null_mut;

use cudnn_os::memory;
use cudnn_probe::{Host, Installation, Library, Version};
use cudnn_sys::devices::H200;
use cudnn_sys::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t as Raw,
    cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Heuristics, cudnnConvolutionMode_t as Mode,
    cudnnDataType_t, cudnnStatus_t,
};

use super::report::PreloadOutcome;
use crate::dispatch::graph as cudnn;
use crate::dl::objects::LoadedObjects;
use crate::dl::run_paths;
use crate::dl::search_path::SearchPath;
use crate::error::FailureStatus;
use crate::error_strings::take_last_error;
use crate::names::{DRIVER, cublas_lt, loader};
use crate::resolve::libraries;

const DEVICEPROP: Kind = Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR;
const DEVICEPROP_JSON: Name = Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
const HEURISTICS_DEVICEPROP: Name = Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP;

/// The engines and cuBLASLt map two gigabytes, and a process that uses a GPU has already mapped several more.
const MIN_ADDRESS_SPACE: u64 = 16 << 30;

/// Registers the engines, unless the registration needs a context or would abort the process.
pub(super) fn register(installation: &Installation) -> Result<(), PreloadOutcome> {
    let skip = |reason| Err(PreloadOutcome::Skipped(reason));
    let version = installation.version;
    if version < Version::new(9, 8, 0) {
        return skip(format!("cuDNN {version} cannot register engines without a context"));
    }
    // Since 9.11, cuDNN's engines abort the process if cuBLASLt is missing, because they open it by name without
    // checking the result. 9.10.2 can plan without it.
    if version >= Version::new(9, 11, 0)
        && installation.has(Library::EnginesPrecompiled)
        && let Some(cublas) = cublas_name(installation).filter(|name| !is_available(installation, name))
    {
        return skip(format!("{} does not find {cublas}, which the engines need", loader!()));
    }
    // If an allocation fails, cuDNN throws a C++ exception through C functions and thereby terminates the process.
    if memory::address_space_limit().is_some_and(|limit| limit < MIN_ADDRESS_SPACE) {
        return skip("the address space limit is below 16 GiB".into());
    }
    request_engines().or_else(|status| {
        let reason = take_last_error();
        // Newer engines require the driver at load time. Without a driver, cuDNN is unusable anyway.
        if status == FailureStatus::SublibraryLoadingFailed.into() && !is_available(installation, DRIVER) {
            return skip(format!("{DRIVER} was not found: {reason}"));
        }
        // The engines do not support the convolution; registering them brings no benefit.
        if status.category() == cudnnStatus_t(3000) {
            skip(reason)
        } else {
            Err(PreloadOutcome::Failed { status, reason })
        }
    })
}

/// Returns the file of cuBLASLt that the engines would open.
pub(super) fn find_cublas(installation: &Installation) -> Option<PathBuf> {
    find_for_graph(installation, &cublas_name(installation)?)
}

/// Returns the name that the engines use to open cuBLASLt.
fn cublas_name(installation: &Installation) -> Option<String> {
    libraries::cuda_major().or(installation.cuda_major).map(cublas_lt)
}

/// Returns whether a library is loaded, or the system's loader would find it for cuDNN's engines.
fn is_available(installation: &Installation, name: &str) -> bool {
    LoadedObjects::snapshot().contains(name) || find_for_graph(installation, name).is_some()
}

/// Returns the file that the system's loader would find for cuDNN's engines, which have the same run path as graph.
fn find_for_graph(installation: &Installation, name: &str) -> Option<PathBuf> {
    let host = Host::current();
    let run_path = run_paths::dirs_of(&host, &installation.path(Library::Graph));
    SearchPath::new(&host).resolve(name, &run_path)
}

/// Asks for the engines of a convolution.
///
/// # Errors
/// Returns the status of the first call that failed.
fn request_engines() -> Result<(), cudnnStatus_t> {
    let (x, w, y) = (tensor(1, [8, 32, 16, 16])?, tensor(2, [32, 32, 3, 3])?, tensor(3, [8, 32, 16, 16])?);
    let (ones, float, mode) = ([1i64, 1], cudnnDataType_t::CUDNN_DATA_FLOAT, Mode::CUDNN_CROSS_CORRELATION);
    let convolution = BackendDescriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[float])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, Type::CUDNN_TYPE_CONVOLUTION_MODE, &[mode])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Type::CUDNN_TYPE_INT64, &[2i64])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, Type::CUDNN_TYPE_INT64, &ones)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Type::CUDNN_TYPE_INT64, &ones)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Type::CUDNN_TYPE_INT64, &ones)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Type::CUDNN_TYPE_INT64, &ones)?
        .finalize()?;
    let operation = BackendDescriptor::new(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?
        .set_part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &x)?
        .set_part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &w)?
        .set_part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &y)?
        .set_part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &convolution)?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, Type::CUDNN_TYPE_FLOAT, &[1f32])?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, Type::CUDNN_TYPE_FLOAT, &[0f32])?
        .finalize()?;
    let graph = BackendDescriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
        .set_part(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operation)?
        .finalize()?;
    let device = BackendDescriptor::new(DEVICEPROP)?;
    let device = device.set(DEVICEPROP_JSON, Type::CUDNN_TYPE_CHAR, H200.as_bytes())?.finalize()?;
    let heuristics = BackendDescriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
        .set_part(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &graph)?
        .set_part(HEURISTICS_DEVICEPROP, &device)?
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[Heuristics::CUDNN_HEUR_MODE_A])?
        .finalize()?;
    let configuration = BackendDescriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?;
    let (name, ty) = (Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
    let (mut count, mut into) = (0, configuration.0);
    let into = (&raw mut into).cast();
    // SAFETY: the output pointer has room for a descriptor, which was created for this purpose.
    unsafe { cudnn::cudnnBackendGetAttribute(heuristics.0, name, ty, 1, &raw mut count, into) }.to_result()
}

fn tensor(uid: i64, dims: [i64; 4]) -> Result<BackendDescriptor, cudnnStatus_t> {
    let [_, c, h, w] = dims;
    BackendDescriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, &[uid])?
        .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[cudnnDataType_t::CUDNN_DATA_HALF])?
        .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Type::CUDNN_TYPE_INT64, &[16i64])?
        .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT64, &dims)?
        .set(Name::CUDNN_ATTR_TENSOR_STRIDES, Type::CUDNN_TYPE_INT64, &[c * h * w, 1, c * w, c])?
        .finalize()
}

/// A backend descriptor, destroyed when dropped.
struct BackendDescriptor(Raw);

impl BackendDescriptor {
    fn new(kind: Kind) -> Result<Self, cudnnStatus_t> {
        let mut raw = null_mut();
        // SAFETY: the output pointer is valid for writes.
        unsafe { cudnn::cudnnBackendCreateDescriptor(kind, &raw mut raw) }.to_result()?;
        Ok(BackendDescriptor(raw))
    }

    fn set<T>(self, name: Name, ty: Type, elements: &[T]) -> Result<Self, cudnnStatus_t> {
        let count = i64::try_from(elements.len()).unwrap_or(0);
        let elements: *const c_void = elements.as_ptr().cast();
        // SAFETY: the descriptor is live, and `elements` contains `count` elements of the type that this module uses
        // for the attribute.
        unsafe { cudnn::cudnnBackendSetAttribute(self.0, name, ty, count, elements) }.to_result()?;
        Ok(self)
    }

    fn set_part(self, name: Name, part: &BackendDescriptor) -> Result<Self, cudnnStatus_t> {
        self.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &[part.0])
    }

    fn finalize(self) -> Result<Self, cudnnStatus_t> {
        // SAFETY: the descriptor is live.
        unsafe { cudnn::cudnnBackendFinalize(self.0) }.to_result()?;
        Ok(self)
    }
}

impl Drop for BackendDescriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is live and not used afterwards.
        let _ = unsafe { cudnn::cudnnBackendDestroyDescriptor(self.0) };
    }
}
