//! Makes mistakes in single descriptors: types, counts and values of attributes of tensors, convolutions and
//! operations.

use cudnn_backend::cudnn::{
    self, Error, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind, cudnnDataType_t as DataType,
};
use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::graph::Convolution;
use cudnn_backend::tensor::Tensor;

use super::{ACCEPTED, Mistake, Verdict};

const FLOAT: DataType = DataType::CUDNN_DATA_FLOAT;

pub(crate) const MISTAKES: &[Mistake] = &[
    ("the count is in bytes, not in elements", count_in_bytes),
    ("dimensions as int32", int32_dimensions),
    ("the id as int32", int32_id),
    ("the data type as an int64", int64_data_type),
    ("`IS_VIRTUAL` as an int64", int64_boolean),
    ("a tensor without strides", no_strides),
    ("a tensor without a data type", no_data_type),
    ("a tensor without an id", no_id),
    ("a tensor without an alignment", no_alignment),
    ("fewer strides than dimensions", fewer_strides),
    ("an attribute for a different kind of descriptor", foreign_attribute),
    ("an attribute set after `cudnnBackendFinalize`", set_after_finalize),
    ("an attribute read before `cudnnBackendFinalize`", read_before_finalize),
    ("`SPATIAL_DIMS` as an array of extents", spatial_dims_array),
    ("`SPATIAL_DIMS` as int32", spatial_dims_int32),
    ("`SPATIAL_DIMS` omitted", no_spatial_dims),
    ("three paddings for two spatial dimensions", three_paddings),
    ("a stride of 0", stride_of_zero),
    ("alpha as a double, accumulation in float", double_alpha),
    ("an operation with a tensor that is not finalized", unfinalized_tensor),
    ("the filter's channels do not divide x's", other_channels),
    ("x's dimensions in memory order: N, H, W, C", dimensions_in_memory_order),
    ("y has the wrong spatial size", wrong_y),
    ("y has another number of channels than there are filters", wrong_y_channels),
    ("the grouped layout only for x", grouped_x_alone),
];

fn accepted(descriptor: Descriptor) -> Verdict {
    drop(descriptor);
    Ok(ACCEPTED)
}

fn tensor() -> Result<Descriptor, Error> {
    Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)
}

fn count_in_bytes() -> Verdict {
    // The array has as many elements as the wrong count, so that cuDNN stays within it. In a real program, this mistake
    // makes cuDNN read past the end of the array.
    let (elements, bytes) = ([8i64; 32], 32);
    let mut tensor = tensor()?
        .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[1i64])?
        .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[FLOAT])?
        .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16i64])?;
    for name in [Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Name::CUDNN_ATTR_TENSOR_STRIDES] {
        // SAFETY: the array has that many elements.
        tensor = unsafe { tensor.set_raw(name, Type::CUDNN_TYPE_INT64, bytes, elements.as_ptr().cast()) }?;
    }
    tensor.finalize().and_then(accepted)
}

fn int32_dimensions() -> Verdict {
    tensor()?.set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &[8i32; 4]).and_then(accepted)
}

fn int32_id() -> Verdict {
    tensor()?.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[1i32]).and_then(accepted)
}

fn int64_data_type() -> Verdict {
    tensor()?.set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[0i64]).and_then(accepted)
}

fn int64_boolean() -> Verdict {
    tensor()?.set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, &[1i64]).and_then(accepted)
}

/// Returns a tensor without one of the attributes.
fn tensor_without(omitted: Name) -> Verdict {
    let (dims, strides) = ([4i64, 16, 20, 20], [6400i64, 400, 20, 1]);
    let mut tensor = tensor()?;
    if omitted != Name::CUDNN_ATTR_TENSOR_UNIQUE_ID {
        tensor = tensor.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[1i64])?;
    }
    if omitted != Name::CUDNN_ATTR_TENSOR_DATA_TYPE {
        tensor = tensor.set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[FLOAT])?;
    }
    if omitted != Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT {
        tensor = tensor.set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16i64])?;
    }
    tensor = tensor.set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &dims)?;
    if omitted != Name::CUDNN_ATTR_TENSOR_STRIDES {
        tensor = tensor.set(Name::CUDNN_ATTR_TENSOR_STRIDES, &strides)?;
    }
    tensor.finalize().and_then(accepted)
}

fn no_strides() -> Verdict {
    tensor_without(Name::CUDNN_ATTR_TENSOR_STRIDES)
}

fn no_data_type() -> Verdict {
    tensor_without(Name::CUDNN_ATTR_TENSOR_DATA_TYPE)
}

fn no_id() -> Verdict {
    tensor_without(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID)
}

fn no_alignment() -> Verdict {
    tensor_without(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
}

fn fewer_strides() -> Verdict {
    let tensor = Tensor { strides: vec![400, 20, 1], ..Tensor::packed(1, FLOAT, &[4, 16, 20, 20]) };
    tensor.descriptor().and_then(accepted)
}

fn foreign_attribute() -> Verdict {
    tensor()?.set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2i64]).and_then(accepted)
}

fn set_after_finalize() -> Verdict {
    x().descriptor()?.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[2i64]).and_then(accepted)
}

fn read_before_finalize() -> Verdict {
    let tensor = tensor()?.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[2i64])?;
    tensor.number(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID).map(|_| ACCEPTED)
}

fn convolution() -> Result<Descriptor, Error> {
    Descriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
}

fn spatial_dims_array() -> Verdict {
    convolution()?.set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[20i64, 20]).and_then(accepted)
}

fn spatial_dims_int32() -> Verdict {
    convolution()?.set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2i32]).and_then(accepted)
}

/// A convolution with these attributes and dilation 1; `None` omits `SPATIAL_DIMS`.
fn convolution_with(spatial: Option<i64>, paddings: &[i64], stride: i64) -> Verdict {
    let mut convolution = convolution()?
        .set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &[FLOAT])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[cudnn::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION])?;
    if let Some(spatial) = spatial {
        convolution = convolution.set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[spatial])?;
    }
    convolution
        .set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, paddings)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, paddings)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &[stride, stride])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &[1i64, 1])?
        .finalize()
        .and_then(accepted)
}

fn no_spatial_dims() -> Verdict {
    convolution_with(None, &[1, 1], 1)
}

fn three_paddings() -> Verdict {
    convolution_with(Some(2), &[1, 1, 1], 1)
}

fn stride_of_zero() -> Verdict {
    convolution_with(Some(2), &[1, 1], 0)
}

pub(crate) fn x() -> Tensor {
    Tensor::packed(1, FLOAT, &[4, 16, 20, 20])
}

pub(crate) fn w() -> Tensor {
    Tensor::packed(2, FLOAT, &[32, 16, 3, 3])
}

pub(crate) fn y() -> Tensor {
    Tensor::packed(3, FLOAT, &[4, 32, 20, 20])
}

/// The convolution of these tensors with padding 1.
pub(crate) fn forward(x: &Tensor, w: &Tensor, y: &Tensor) -> Result<Descriptor, Error> {
    Convolution::padded(1, 2).forward([x, w, y], 1.0, 0.0)
}

fn double_alpha() -> Verdict {
    Convolution::padded(1, 2).forward_scaled([&x(), &w(), &y()], 1f64, 0f64).and_then(accepted)
}

fn unfinalized_tensor() -> Verdict {
    let convolution = Convolution::padded(1, 2).descriptor()?;
    Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &[&tensor()?])?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &[&w().descriptor()?])?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &[&y().descriptor()?])?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &[&convolution])?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, &[1f32])?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, &[0f32])?
        .finalize()
        .and_then(accepted)
}

fn other_channels() -> Verdict {
    forward(&x(), &Tensor::packed(2, FLOAT, &[32, 12, 3, 3]), &y()).and_then(accepted)
}

fn dimensions_in_memory_order() -> Verdict {
    forward(&Tensor::packed(1, FLOAT, &[4, 20, 20, 16]), &w(), &y()).and_then(accepted)
}

fn wrong_y() -> Verdict {
    forward(&x(), &w(), &Tensor::packed(3, FLOAT, &[4, 32, 18, 18])).and_then(accepted)
}

fn wrong_y_channels() -> Verdict {
    forward(&x(), &w(), &Tensor::packed(3, FLOAT, &[4, 16, 20, 20])).and_then(accepted)
}

fn grouped_x_alone() -> Verdict {
    forward(&x().split(1, 4), &Tensor::packed(2, FLOAT, &[32, 4, 3, 3]), &y()).and_then(accepted)
}
