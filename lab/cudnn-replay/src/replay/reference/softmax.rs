//! Computes softmax along the last dimension, and the statistics of the rows.

use cudnn_graph::Node;
use cudnn_loader::cudnnBackendAttributeName_t as Name;
use rayon::prelude::*;

use super::super::tensor::{Array, Walk, maximum};
use super::context::{Context, Results};

pub(super) struct Softmax {
    pub(super) y: Array,
    pub(super) max: Array,
    /// The sum of the exponentials of the differences to the maximum.
    pub(super) sum: Array,
}

impl Softmax {
    /// Computes the softmax of all rows. A sink is an additional element of the row without a result. A row of negative
    /// infinities, such as an attention's row without keys, becomes NaN.
    pub(super) fn new(x: &Array, sink: Option<&Array>) -> Result<Self, String> {
        let mut row_dims = x.dims.clone();
        let length = std::mem::replace(row_dims.last_mut().ok_or("a softmax of a scalar")?, 1);
        let none = Array::filled(&[1], f64::NEG_INFINITY);
        let sink = sink.unwrap_or(&none);
        let sink_strides = sink.strides_in(&row_dims)?;
        let mut softmax =
            Softmax { y: x.clone(), max: Array::filled(&row_dims, 0.0), sum: Array::filled(&row_dims, 0.0) };
        let sinks = Walk::new(&row_dims, [&sink_strides]).values(|_, [at]| sink.get(at));
        let rows = softmax.y.values.par_chunks_mut(length.max(1)).zip(&mut softmax.max.values);
        rows.zip(&mut softmax.sum.values).zip(&sinks).for_each(|(((row, max), sum), sink)| {
            *max = row.iter().copied().fold(*sink, maximum);
            row.iter_mut().for_each(|value| *value = libm::exp(*value - *max));
            *sum = row.iter().sum::<f64>() + libm::exp(sink - *max);
            row.iter_mut().for_each(|value| *value /= *sum);
        });
        Ok(softmax)
    }

    /// Returns the logarithm of the sum of the exponentials.
    pub(super) fn stats(&self) -> Array {
        let values = self.max.values.iter().zip(&self.sum.values).map(|(max, sum)| max + libm::log(*sum));
        Array { dims: self.max.dims.clone(), values: values.collect() }
    }
}

pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    if operation.integer(Name::CUDNN_ATTR_OPERATION_SOFTMAX_STATS_LOG2).is_some_and(|is| is != 0) {
        return Err("a softmax with binary logarithms".to_owned());
    }
    let x = context.input(operation, Name::CUDNN_ATTR_OPERATION_SOFTMAX_XDESC)?;
    let softmax = Softmax::new(x, context.optional(operation, Name::CUDNN_ATTR_OPERATION_SOFTMAX_SINK_DESC))?;
    let outputs = [
        (Name::CUDNN_ATTR_OPERATION_SOFTMAX_STATS_DESC, softmax.stats()),
        (Name::CUDNN_ATTR_OPERATION_SOFTMAX_YDESC, softmax.y),
        (Name::CUDNN_ATTR_OPERATION_SOFTMAX_MAX_DESC, softmax.max),
        (Name::CUDNN_ATTR_OPERATION_SOFTMAX_SUM_EXP_DESC, softmax.sum),
    ];
    context.results(operation, outputs)
}
