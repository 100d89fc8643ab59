//! Describes a tensor of a graph: id, data type, extents, and layout in memory.

use crate::cudnn::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnDataType_t as DataType,
};

use crate::descriptor::Descriptor;

/// The alignment of every tensor's memory, in bytes.
pub const ALIGNMENT: i64 = 16;

/// A tensor of a graph.
#[derive(Clone)]
pub struct Tensor {
    /// The tensor's id within the graph, which you choose. Memory is assigned to ids when the graph runs.
    pub uid: i64,
    /// The type of the elements.
    pub data_type: DataType,
    /// The extents in this order for every layout: images or filters, channels, then the spatial extents. In the
    /// grouped layout, the groups precede the channels or filters.
    pub dims: Vec<i64>,
    /// The distance between adjacent elements along every dimension, in elements.
    pub strides: Vec<i64>,
    /// Whether the tensor only connects two operations of a graph and needs no memory.
    pub is_virtual: bool,
}

impl Tensor {
    /// Returns a tensor with the last dimension innermost: NCHW.
    pub fn packed(uid: i64, data_type: DataType, dims: &[i64]) -> Self {
        let order: Vec<usize> = (0..dims.len()).rev().collect();
        Tensor::in_order(uid, data_type, dims, &order)
    }

    /// Returns a tensor with the channels innermost: NHWC.
    pub fn channels_last(uid: i64, data_type: DataType, dims: &[i64]) -> Self {
        let order: Vec<usize> = [1].into_iter().chain((2..dims.len()).rev()).chain([0]).collect();
        Tensor::in_order(uid, data_type, dims, &order)
    }

    /// Returns a tensor without gaps, with dimensions in this memory order, innermost first.
    fn in_order(uid: i64, data_type: DataType, dims: &[i64], order: &[usize]) -> Self {
        let (mut strides, mut stride) = (vec![0; dims.len()], 1);
        for dimension in order {
            if let (Some(target), Some(extent)) = (strides.get_mut(*dimension), dims.get(*dimension)) {
                *target = stride;
                stride *= extent;
            }
        }
        Tensor { uid, data_type, dims: dims.to_vec(), strides, is_virtual: false }
    }

    /// Returns a virtual tensor of the same shape, which connects two operations.
    pub fn to_virtual(&self, uid: i64, data_type: DataType) -> Self {
        Tensor { uid, data_type, is_virtual: true, ..self.clone() }
    }

    /// Returns the number of elements.
    pub fn element_count(&self) -> usize {
        self.dims.iter().product::<i64>().unsigned_abs() as usize
    }

    /// Returns the same memory with one dimension split in two: the groups, and the extent of one group.
    pub fn split(&self, dimension: usize, groups: i64) -> Self {
        let mut split = self.clone();
        let (extent, stride) = (self.dims.get(dimension), self.strides.get(dimension));
        if let (Some(extent), Some(stride)) = (extent, stride) {
            let each = extent / groups;
            split.dims.splice(dimension..=dimension, [groups, each]);
            split.strides.splice(dimension..=dimension, [each * stride, *stride]);
        }
        split
    }

    /// Returns cuDNN's finalized descriptor of the tensor.
    ///
    /// # Errors
    /// Returns an error if cuDNN rejects the tensor.
    pub fn descriptor(&self) -> Result<Descriptor, Error> {
        let descriptor = Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[self.uid])?
            .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[self.data_type])?
            .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[ALIGNMENT])?
            .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &self.dims)?
            .set(Name::CUDNN_ATTR_TENSOR_STRIDES, &self.strides)?;
        if self.is_virtual {
            descriptor.set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, &[true])?.finalize()
        } else {
            descriptor.finalize()
        }
    }
}
