//! Matrix multiplications.

use cudnn_capture_file::Node;
use cudnn_loader::cudnnBackendAttributeName_t as Name;

use super::super::tensor::Array;
use super::context::{Context, Results};

pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    let overrides = [
        Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
        Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
        Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
    ];
    if overrides.into_iter().any(|name| operation.value(name).is_some()) {
        return Err("a matmul whose extents are tensors".to_owned());
    }
    let a = context.input(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC)?;
    let b = context.input(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC)?;
    let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC)?;
    let ([a_batch @ .., m, k], [b_batch @ .., b_k, n], [c_batch @ .., c_m, c_n]) = (&*a.dims, &*b.dims, &*dims) else {
        return Err("a matmul with fewer than two dimensions".to_owned());
    };
    if (k, m, n) != (b_k, c_m, c_n) || a_batch.len() != c_batch.len() || b_batch.len() != c_batch.len() {
        return Err("a matmul whose extents do not fit".to_owned());
    }
    let batches: usize = c_batch.iter().product();
    let products =
        [batches, *m, *n, *k].into_iter().try_fold(1_u64, |product, extent| product.checked_mul(extent as u64));
    context.spend(products)?;
    let mut c = Array::filled(&dims, 0.0);
    for batch in 0..batches {
        let (a_plane, b_plane) = (plane(batch, c_batch, a_batch) * m * k, plane(batch, c_batch, b_batch) * k * n);
        for row in 0..*m {
            let start = (batch * m + row) * n;
            for inner in 0..*k {
                let factor = a.get(a_plane + row * k + inner);
                let b_start = b_plane + inner * n;
                let values = b.values.get(b_start..b_start + n).unwrap_or_default();
                let sums = c.values.get_mut(start..start + n).unwrap_or_default();
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
            }
        }
    }
    Ok(vec![(uid, c)])
}

/// Returns the index of the matrix that an operand uses for this matrix of the result. An extent that divides the
/// result's is repeated, as for the heads of grouped attention.
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
