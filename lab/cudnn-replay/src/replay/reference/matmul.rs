//! Computes matrix multiplications.

use cudnn_graph::Node;
use cudnn_loader::cudnnBackendAttributeName_t as Name;

use super::super::tensor::Array;
use super::context::{Context, Operand, Pull, Results};
use super::contraction::matrix_products;

const A: Name = Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC;
const B: Name = Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC;

struct Extents {
    uid: i64,
    dims: Vec<usize>,
    /// The extents of the result and the operands, without rows and columns.
    batches: [Vec<usize>; 3],
    m: usize,
    n: usize,
    k: usize,
}

impl Extents {
    fn new(context: &Context<'_>, operation: &Node) -> Result<Self, String> {
        let (a, b) = (context.output(operation, A)?.1, context.output(operation, B)?.1);
        let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC)?;
        let ([a_batch @ .., m, k], [b_batch @ .., b_k, n], [c_batch @ .., c_m, c_n]) = (&*a, &*b, &*dims) else {
            return Err("a matmul with fewer than two dimensions".to_owned());
        };
        if (k, m, n) != (b_k, c_m, c_n) || a_batch.len() != c_batch.len() || b_batch.len() != c_batch.len() {
            return Err("a matmul of tensors with contradictory extents".to_owned());
        }
        let batches = [c_batch, a_batch, b_batch].map(<[usize]>::to_vec);
        Ok(Extents { uid, batches, m: *m, n: *n, k: *k, dims })
    }

    fn products(&self) -> Option<u64> {
        let factors = self.dims.iter().chain([&self.k]);
        factors.into_iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent as u64))
    }

    /// Returns the indices of the first elements of the operands' matrices.
    fn planes(&self, batch: usize) -> [usize; 2] {
        let [c, a, b] = &self.batches;
        [plane(batch, c, a) * self.m * self.k, plane(batch, c, b) * self.k * self.n]
    }
}

pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    let extents = Extents::new(context, operation)?;
    context.spend(extents.products())?;
    let (a, b) = (context.input(operation, A)?, context.input(operation, B)?);
    let Extents { m, n, k, .. } = extents;
    let batches: usize = extents.batches.iter().take(1).flatten().product();
    let values = matrix_products(batches, [m, k, n], (a, [k, 1]), (b, [n, 1]), |batch| extents.planes(batch));
    Ok(vec![(extents.uid, Array { values, dims: extents.dims })])
}

pub(super) fn products(context: &Context<'_>, operation: &Node) -> Result<Option<u64>, String> {
    Ok(Extents::new(context, operation)?.products())
}

pub(super) fn element(context: &Context<'_>, operation: &Node, index: usize, pull: &Pull<'_>) -> Result<f64, String> {
    let extents = Extents::new(context, operation)?;
    let Extents { m, n, k, .. } = extents;
    context.spend(Some(k as u64))?;
    let [a_plane, b_plane] = extents.planes(index / (m * n).max(1));
    let (row, column) = (index / n.max(1) % m.max(1), index % n.max(1));
    let [a, b] = [A, B].map(|name| Operand::new(context, operation, name));
    let mut sum = 0.0;
    for inner in 0..k {
        sum += a.get(a_plane + row * k + inner, pull)? * b.get(b_plane + inner * n + column, pull)?;
    }
    Ok(sum)
}

/// Returns the index of the operand's matrix for a matrix of the result. A smaller extent that divides the result's is
/// repeated, for example for the heads of grouped attention.
fn plane(batch: usize, dims: &[usize], own: &[usize]) -> usize {
    let (mut rest, mut index, mut stride) = (batch, 0, 1);
    for (extent, own) in dims.iter().zip(own).rev() {
        let position = rest % extent.max(&1);
        rest /= extent.max(&1);
        index += position * own / extent.max(&1) * stride;
        stride *= own;
    }
    index
}
