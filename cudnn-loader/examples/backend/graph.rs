//! The operations of a graph, and the graph.

use crate::backend::descriptor::{Descriptor, Element, Handle};
use crate::backend::tensor::Tensor;
use crate::cudnn::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind,
    cudnnConvolutionMode_t as ConvolutionMode, cudnnDataType_t as DataType, cudnnPointwiseMode_t as PointwiseMode,
};

/// How a convolution moves: one number for each spatial dimension.
#[derive(Clone)]
pub(crate) struct Convolution {
    pub(crate) padding: Vec<i64>,
    pub(crate) stride: Vec<i64>,
    pub(crate) dilation: Vec<i64>,
}

impl Convolution {
    /// Padded by this on both sides of so many spatial dimensions, one step at a time.
    pub(crate) fn padded(padding: i64, spatial: usize) -> Self {
        Convolution { padding: vec![padding; spatial], stride: vec![1; spatial], dilation: vec![1; spatial] }
    }

    /// With sums in float, whatever the tensors are of.
    pub(crate) fn describe(&self) -> Result<Descriptor, Error> {
        // One number, and not an array: how long the arrays below are.
        let spatial = self.padding.len() as i64;
        Descriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &[DataType::CUDNN_DATA_FLOAT])?
            // What networks call convolution does not turn the filter round.
            .set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[ConvolutionMode::CUDNN_CROSS_CORRELATION])?
            .set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[spatial])?
            .set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &self.padding)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &self.padding)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &self.stride)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &self.dilation)?
            .finalize()
    }

    /// The operation y = alpha * conv(x, w) + beta * y, with the two in float, also for half tensors.
    pub(crate) fn forward(&self, tensors: [&Tensor; 3], alpha: f32, beta: f32) -> Result<Descriptor, Error> {
        self.forward_with(tensors, alpha, beta)
    }

    /// The same, with alpha and beta of any type: of double, where sums are in double.
    pub(crate) fn forward_with<T: Element>(
        &self,
        [x, w, y]: [&Tensor; 3],
        alpha: T,
        beta: T,
    ) -> Result<Descriptor, Error> {
        let (x, w, y, convolution) = (x.describe()?, w.describe()?, y.describe()?, self.describe()?);
        Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?
            .parts(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &[&x])?
            .parts(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &[&w])?
            .parts(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &[&y])?
            .parts(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &[&convolution])?
            .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, &[alpha])?
            .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, &[beta])?
            .finalize()
    }
}

/// The operation y = x + b, element by element, in float; b is as long as x, or 1, in each dimension.
pub(crate) fn add([x, b, y]: [&Tensor; 3]) -> Result<Descriptor, Error> {
    pointwise(PointwiseMode::CUDNN_POINTWISE_ADD, x, Some(b), y)
}

/// The operation y = max(x, 0), in float.
pub(crate) fn relu([x, y]: [&Tensor; 2]) -> Result<Descriptor, Error> {
    pointwise(PointwiseMode::CUDNN_POINTWISE_RELU_FWD, x, None, y)
}

fn pointwise(mode: PointwiseMode, x: &Tensor, b: Option<&Tensor>, y: &Tensor) -> Result<Descriptor, Error> {
    let what = Descriptor::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_POINTWISE_MODE, &[mode])?
        .set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, &[DataType::CUDNN_DATA_FLOAT])?
        .finalize()?;
    let (x, y, b) = (x.describe()?, y.describe()?, b.map(Tensor::describe).transpose()?);
    let operation = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?
        .parts(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[&what])?
        .parts(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &[&x])?
        .parts(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &[&y])?;
    match &b {
        Some(b) => operation.parts(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC, &[b])?.finalize(),
        None => operation.finalize(),
    }
}

/// The graph of these operations. Where a tensor joins two of them, they know it by its id. Without a handle it can be planned
/// for a described device, and not be run.
pub(crate) fn graph(handle: Option<&Handle>, operations: &[&Descriptor]) -> Result<Descriptor, Error> {
    let graph = Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
        .parts(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)?;
    match handle {
        Some(handle) => graph.set(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &[handle.raw()])?.finalize(),
        None => graph.finalize(),
    }
}
