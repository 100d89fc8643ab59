//! Provides the operations of a graph, and the graph.

use crate::cudnn::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind,
    cudnnConvolutionMode_t as ConvolutionMode, cudnnDataType_t as DataType, cudnnPointwiseMode_t as PointwiseMode,
};

use crate::descriptor::Descriptor;
use crate::handle::Handle;
use crate::tensor::Tensor;

/// The parameters of a convolution, with one number per spatial dimension.
#[derive(Clone)]
pub struct Convolution {
    /// Elements added on both sides.
    pub padding: Vec<i64>,
    /// The step of the filter.
    pub stride: Vec<i64>,
    /// The distance between the filter's taps.
    pub dilation: Vec<i64>,
}

impl Convolution {
    /// Returns a convolution with this padding in all `spatial` dimensions, stride 1 and dilation 1.
    pub fn padded(padding: i64, spatial: usize) -> Self {
        Convolution { padding: vec![padding; spatial], stride: vec![1; spatial], dilation: vec![1; spatial] }
    }

    /// Returns cuDNN's finalized descriptor of the parameters. It accumulates in float for every tensor type.
    ///
    /// # Errors
    /// Returns an error if cuDNN rejects the parameters.
    pub fn descriptor(&self) -> Result<Descriptor, Error> {
        // The length of the following arrays, as a single number.
        let spatial = self.padding.len() as i64;
        Descriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &[DataType::CUDNN_DATA_FLOAT])?
            // Neural networks use cross-correlation, which they call convolution although it does not flip the filter.
            .set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[ConvolutionMode::CUDNN_CROSS_CORRELATION])?
            .set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[spatial])?
            .set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &self.padding)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &self.padding)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &self.stride)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &self.dilation)?
            .finalize()
    }

    /// Returns the operation y = alpha * conv(x, w) + beta * y. Alpha and beta are float, even for half tensors.
    ///
    /// # Errors
    /// Returns an error if cuDNN rejects the tensors or the combination.
    pub fn forward(&self, [x, w, y]: [&Tensor; 3], alpha: f32, beta: f32) -> Result<Descriptor, Error> {
        let (x, w, y, convolution) = (x.descriptor()?, w.descriptor()?, y.descriptor()?, self.descriptor()?);
        Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?
            .set_descriptors(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &[&x])?
            .set_descriptors(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &[&w])?
            .set_descriptors(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &[&y])?
            .set_descriptors(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &[&convolution])?
            .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, &[alpha])?
            .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, &[beta])?
            .finalize()
    }
}

/// Returns the elementwise operation y = x + b in float. The extents of b are 1 or equal to those of x.
///
/// # Errors
/// Returns an error if cuDNN rejects the tensors.
pub fn add([x, b, y]: [&Tensor; 3]) -> Result<Descriptor, Error> {
    pointwise(PointwiseMode::CUDNN_POINTWISE_ADD, x, Some(b), y)
}

/// Returns the operation y = max(x, 0), in float.
///
/// # Errors
/// Returns an error if cuDNN rejects the tensors.
pub fn relu([x, y]: [&Tensor; 2]) -> Result<Descriptor, Error> {
    pointwise(PointwiseMode::CUDNN_POINTWISE_RELU_FWD, x, None, y)
}

fn pointwise(mode: PointwiseMode, x: &Tensor, b: Option<&Tensor>, y: &Tensor) -> Result<Descriptor, Error> {
    let function = Descriptor::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_POINTWISE_MODE, &[mode])?
        .set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, &[DataType::CUDNN_DATA_FLOAT])?
        .finalize()?;
    let (x, y, b) = (x.descriptor()?, y.descriptor()?, b.map(Tensor::descriptor).transpose()?);
    let operation = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[&function])?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &[&x])?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &[&y])?;
    match &b {
        Some(b) => operation.set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC, &[b])?.finalize(),
        None => operation.finalize(),
    }
}

/// Returns the graph of these operations, which tensors with equal ids connect. A graph without a handle can be planned
/// for a described device, but not run.
///
/// # Errors
/// Returns an error if cuDNN rejects the operations.
#[allow(deprecated, reason = "cuDNN 9.0 to 9.7 have no device property, which replaces the handle")]
pub fn graph(handle: Option<&Handle>, operations: &[&Descriptor]) -> Result<Descriptor, Error> {
    let graph = Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)?;
    match handle {
        Some(handle) => graph.set_handle(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle)?.finalize(),
        None => graph.finalize(),
    }
}
