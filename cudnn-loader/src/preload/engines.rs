//! Makes cuDNN register engines, which accounts for most of the time of a first plan.
//!
//! It plans a small convolution for a device that is described in text, which requires neither a handle nor a context
//! (since cuDNN 9.8).

use std::ffi::c_void;
use std::ptr::null_mut;

use cudnn_sys::devices::H200;
use cudnn_sys::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t as Raw,
    cudnnBackendDescriptorType_t as Kind, cudnnConvolutionMode_t, cudnnDataType_t, cudnnStatus_t,
};

use crate::dispatch::graph as cudnn;

// Numeric, because `cudnn-sys` may be generated from older headers without these names.
const DEVICEPROP: Kind = Kind(38);
const DEVICEPROP_JSON: Name = Name(2702);
const HEURISTICS_DEVICEPROP: Name = Name(204);
const PLAN_DEVICEPROP: Name = Name(407);

/// Plans the convolution and discards the plan. The default device is an H200. Measurements with other device
/// descriptions showed that the registration does not depend on the compute capability.
///
/// # Errors
/// Returns the status of the first call that failed. A plan that cuDNN does not support is not an error, because the
/// engines are already registered at that point.
pub(super) fn register(device: Option<&str>) -> Result<(), cudnnStatus_t> {
    let (x, w, y) = (tensor(1, [8, 32, 16, 16])?, tensor(2, [32, 32, 3, 3])?, tensor(3, [8, 32, 16, 16])?);
    let ones = [1i64, 1];
    let convolution = Descriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[cudnnDataType_t::CUDNN_DATA_FLOAT])?
        .set(
            Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE,
            Type::CUDNN_TYPE_CONVOLUTION_MODE,
            &[cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION],
        )?
        .set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Type::CUDNN_TYPE_INT64, &[2i64])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, Type::CUDNN_TYPE_INT64, &ones)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Type::CUDNN_TYPE_INT64, &ones)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Type::CUDNN_TYPE_INT64, &ones)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Type::CUDNN_TYPE_INT64, &ones)?
        .finalize()?;
    let operation = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?
        .part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &x)?
        .part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &w)?
        .part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &y)?
        .part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &convolution)?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, Type::CUDNN_TYPE_FLOAT, &[1f32])?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, Type::CUDNN_TYPE_FLOAT, &[0f32])?
        .finalize()?;
    let graph = Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
        .part(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operation)?
        .finalize()?;
    let device = Descriptor::new(DEVICEPROP)?
        .set(DEVICEPROP_JSON, Type::CUDNN_TYPE_CHAR, device.unwrap_or(H200).as_bytes())?
        .finalize()?;
    let mode = cudnn_sys::types::cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_A;
    let heuristics = Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
        .part(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &graph)?
        .part(HEURISTICS_DEVICEPROP, &device)?
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[mode])?
        .finalize()?;
    let configuration = Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?;
    let mut count = 0i64;
    let mut into = configuration.0;
    // SAFETY: the output pointer has room for a descriptor, which was created for this purpose.
    unsafe {
        cudnn::cudnnBackendGetAttribute(
            heuristics.0,
            Name::CUDNN_ATTR_ENGINEHEUR_RESULTS,
            Type::CUDNN_TYPE_BACKEND_DESCRIPTOR,
            1,
            &raw mut count,
            (&raw mut into).cast(),
        )
    }
    .to_result()?;
    if count > 0 {
        let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
            .part(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &configuration)?
            .part(PLAN_DEVICEPROP, &device)?;
        if let Err(status) = plan.finalize()
            && status.category() != cudnnStatus_t(3000)
        {
            return Err(status);
        }
    }
    Ok(())
}

fn tensor(uid: i64, dims: [i64; 4]) -> Result<Descriptor, cudnnStatus_t> {
    let [_, c, h, w] = dims;
    Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, &[uid])?
        .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[cudnnDataType_t::CUDNN_DATA_HALF])?
        .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Type::CUDNN_TYPE_INT64, &[16i64])?
        .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT64, &dims)?
        .set(Name::CUDNN_ATTR_TENSOR_STRIDES, Type::CUDNN_TYPE_INT64, &[c * h * w, 1, c * w, c])?
        .finalize()
}

/// A backend descriptor, destroyed when dropped.
struct Descriptor(Raw);

impl Descriptor {
    fn new(kind: Kind) -> Result<Self, cudnnStatus_t> {
        let mut raw = null_mut();
        // SAFETY: the output pointer is valid for writes.
        unsafe { cudnn::cudnnBackendCreateDescriptor(kind, &raw mut raw) }.to_result()?;
        Ok(Descriptor(raw))
    }

    fn set<T>(self, name: Name, ty: Type, elements: &[T]) -> Result<Self, cudnnStatus_t> {
        let count = i64::try_from(elements.len()).unwrap_or(0);
        let elements: *const c_void = elements.as_ptr().cast();
        // SAFETY: the descriptor is live, and `elements` contains `count` elements of the type that this module uses
        // for the attribute.
        unsafe { cudnn::cudnnBackendSetAttribute(self.0, name, ty, count, elements) }.to_result()?;
        Ok(self)
    }

    fn part(self, name: Name, part: &Descriptor) -> Result<Self, cudnnStatus_t> {
        self.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &[part.0])
    }

    fn finalize(self) -> Result<Self, cudnnStatus_t> {
        // SAFETY: the descriptor is live.
        unsafe { cudnn::cudnnBackendFinalize(self.0) }.to_result()?;
        Ok(self)
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is live and not used afterwards.
        let _ = unsafe { cudnn::cudnnBackendDestroyDescriptor(self.0) };
    }
}
