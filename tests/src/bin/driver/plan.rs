//! Plans one convolution for a device that is described in JSON: the way, without a GPU, to have cuDNN's graph library
//! open its heuristics and engines.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudnn_loader::{
    self as cudnn, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptor_t as Descriptor, cudnnBackendDescriptorType_t as Kind, cudnnStatus_t,
};

/// Prints how many configurations of engines the heuristics propose.
pub(crate) fn plan(json: &str) {
    match configurations(json) {
        Ok(count) => println!("plan = {count} configurations"),
        Err(status) => println!("plan = {status:?}"),
    }
}

/// Makes a descriptor with these attributes, each given as its elements' type, count and address.
fn descriptor(kind: Kind, attributes: &[(Name, Type, i64, *const c_void)]) -> Result<Descriptor, cudnnStatus_t> {
    let mut descriptor = null_mut();
    // SAFETY: cuDNN writes a new descriptor to where it is told.
    unsafe { cudnn::cudnnBackendCreateDescriptor(kind, &raw mut descriptor) }.to_result()?;
    for (name, of, count, elements) in attributes {
        // SAFETY: the elements are of the type and number that is said.
        unsafe { cudnn::cudnnBackendSetAttribute(descriptor, *name, *of, *count, *elements) }.to_result()?;
    }
    // SAFETY: the descriptor is live.
    unsafe { cudnn::cudnnBackendFinalize(descriptor) }.to_result()?;
    Ok(descriptor)
}

fn tensor(uid: i64, dims: [i64; 4]) -> Result<Descriptor, cudnnStatus_t> {
    let [_, c, h, w] = dims;
    let strides = [c * h * w, 1, c * w, c];
    let (half, alignment) = (cudnn::cudnnDataType_t::CUDNN_DATA_HALF, 16i64);
    descriptor(
        Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR,
        &[
            (Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, 1, address(&uid)),
            (Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, 1, address(&half)),
            (Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Type::CUDNN_TYPE_INT64, 1, address(&alignment)),
            (Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT64, 4, address(&dims)),
            (Name::CUDNN_ATTR_TENSOR_STRIDES, Type::CUDNN_TYPE_INT64, 4, address(&strides)),
        ],
    )
}

fn address<T>(value: &T) -> *const c_void {
    (&raw const *value).cast()
}

fn configurations(json: &str) -> Result<i64, cudnnStatus_t> {
    let (x, w, y) = (tensor(1, [8, 32, 16, 16])?, tensor(2, [32, 32, 3, 3])?, tensor(3, [8, 32, 16, 16])?);
    let (float, mode) =
        (cudnn::cudnnDataType_t::CUDNN_DATA_FLOAT, cudnn::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION);
    let (dims, ones) = (2i64, [1i64, 1]);
    let convolution = descriptor(
        Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
        &[
            (Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, 1, address(&float)),
            (Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, Type::CUDNN_TYPE_CONVOLUTION_MODE, 1, address(&mode)),
            (Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Type::CUDNN_TYPE_INT64, 1, address(&dims)),
            (Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, Type::CUDNN_TYPE_INT64, 2, address(&ones)),
            (Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Type::CUDNN_TYPE_INT64, 2, address(&ones)),
            (Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Type::CUDNN_TYPE_INT64, 2, address(&ones)),
            (Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Type::CUDNN_TYPE_INT64, 2, address(&ones)),
        ],
    )?;
    let part = |name, descriptor: &Descriptor| (name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, address(descriptor));
    let (one, zero) = (1f32, 0f32);
    let operation = descriptor(
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        &[
            part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &x),
            part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &w),
            part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &y),
            part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &convolution),
            (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, Type::CUDNN_TYPE_FLOAT, 1, address(&one)),
            (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, Type::CUDNN_TYPE_FLOAT, 1, address(&zero)),
        ],
    )?;
    let graph = descriptor(
        Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
        &[part(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operation)],
    )?;
    let length = i64::try_from(json.len()).unwrap_or(i64::MAX);
    let device = descriptor(
        Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
        &[(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, length, json.as_ptr().cast())],
    )?;
    let heuristics = cudnn::cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_A;
    let heuristics = descriptor(
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
        &[
            part(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &graph),
            part(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &device),
            (Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, 1, address(&heuristics)),
        ],
    )?;
    let (name, mut count) = (Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, 0i64);
    let of = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
    // SAFETY: nothing but the count is asked for.
    unsafe { cudnn::cudnnBackendGetAttribute(heuristics, name, of, 0, &raw mut count, null_mut()) }.to_result()?;
    Ok(count)
}
