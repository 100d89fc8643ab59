//! A tensor of a graph: what it is called there, its extents, and how it lies in memory.

use crate::backend::descriptor::Descriptor;
use crate::cudnn::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnDataType_t as DataType,
};

#[derive(Clone)]
pub(crate) struct Tensor {
    /// Its id, of one's own choice: an int64, and another one for each tensor of a graph. Memory is given by it later.
    pub(crate) uid: i64,
    pub(crate) of: DataType,
    /// Extents, always in this order, whatever lies how in memory: images, channels, then the spatial ones; of a filter,
    /// filters, channels, then its own. In the grouped layout the groups stand before the channels, and before the filters.
    pub(crate) dims: Vec<i64>,
    /// How many elements further the next one along each dimension lies.
    pub(crate) strides: Vec<i64>,
    /// Between two operations of a graph, never in memory.
    pub(crate) is_virtual: bool,
}

impl Tensor {
    /// The last dimension moves fastest: NCHW.
    pub(crate) fn packed(uid: i64, of: DataType, dims: &[i64]) -> Self {
        let order: Vec<usize> = (0..dims.len()).rev().collect();
        Tensor::in_order(uid, of, dims, &order)
    }

    /// The channels move fastest, then the last dimension: NHWC.
    pub(crate) fn channels_last(uid: i64, of: DataType, dims: &[i64]) -> Self {
        let order: Vec<usize> = [1].into_iter().chain((2..dims.len()).rev()).chain([0]).collect();
        Tensor::in_order(uid, of, dims, &order)
    }

    /// In this order the dimensions move, the fastest first.
    fn in_order(uid: i64, of: DataType, dims: &[i64], order: &[usize]) -> Self {
        let (mut strides, mut stride) = (vec![0; dims.len()], 1);
        for dimension in order {
            if let (Some(place), Some(extent)) = (strides.get_mut(*dimension), dims.get(*dimension)) {
                *place = stride;
                stride *= extent;
            }
        }
        Tensor { uid, of, dims: dims.to_vec(), strides, is_virtual: false }
    }

    /// The same, between two operations, and of this type.
    pub(crate) fn between(&self, uid: i64, of: DataType) -> Self {
        Tensor { uid, of, is_virtual: true, ..self.clone() }
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        self.dims.iter().product::<i64>().unsigned_abs() as usize
    }

    /// One dimension seen as two: so many groups, and what is left in each.
    pub(crate) fn split(&self, dimension: usize, groups: i64) -> Self {
        let mut split = self.clone();
        let (extent, stride) = (self.dims.get(dimension), self.strides.get(dimension));
        if let (Some(extent), Some(stride)) = (extent, stride) {
            let each = extent / groups;
            split.dims.splice(dimension..=dimension, [groups, each]);
            split.strides.splice(dimension..=dimension, [each * stride, *stride]);
        }
        split
    }

    pub(crate) fn describe(&self) -> Result<Descriptor, Error> {
        let descriptor = Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[self.uid])?
            .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[self.of])?
            .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16i64])?
            .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &self.dims)?
            .set(Name::CUDNN_ATTR_TENSOR_STRIDES, &self.strides)?;
        match self.is_virtual {
            true => descriptor.set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, &[true])?.finalize(),
            false => descriptor.finalize(),
        }
    }
}
