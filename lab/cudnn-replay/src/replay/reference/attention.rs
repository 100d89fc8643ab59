//! Computes scaled dot product attention and its gradients.

use cudnn_graph::Node;
use cudnn_loader::cudnnBackendAttributeName_t as Name;
use rayon::prelude::*;

use super::super::tensor::{Array, Walk, dense_strides};
use super::context::{Context, Results};
use super::contraction::matrix_products;
use super::softmax::Softmax;
use super::{MAX_ELEMENTS, evaluate_inside};

/// Computes the outputs and the statistics. A nested graph, such as a mask, can change the scores.
pub(super) fn forward(context: &Context<'_>, operation: &Node) -> Results {
    use Name as N;
    let q = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC)?;
    let k = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC)?;
    let v = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC)?;
    let (o_uid, o_dims) = context.output(operation, N::CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC)?;
    let shape = Shape::new(q, k, v, &o_dims)?;
    context.spend(shape.products())?;
    let scale =
        context.optional(operation, N::CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC).map_or(1.0, |scale| scale.get(0));
    let mut scores = shape.scores(q, k, scale);
    if let Some(subgraph) = context.graph.children(operation, N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH).first() {
        let uid = |name| operation.integer(name).ok_or("an attention without the ids of the scores");
        let input = uid(N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID)?;
        let output = uid(N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID)?;
        let operations = context.graph.children(subgraph, N::CUDNN_ATTR_OPERATIONGRAPH_OPS);
        let mut values = evaluate_inside(context, operations, (input, scores))?;
        scores = values.remove(&output).ok_or("an attention with unknown scores")?;
    }
    let mut results = Vec::new();
    let softmax = context.graph.children(operation, N::CUDNN_ATTR_OPERATION_SDPA_FWD_SOFTMAX_DESC).first().copied();
    let probabilities = match softmax {
        Some(node) => {
            let (input, _) = context.output(node, N::CUDNN_ATTR_OPERATION_SOFTMAX_XDESC)?;
            let (output, _) = context.output(node, N::CUDNN_ATTR_OPERATION_SOFTMAX_YDESC)?;
            let mut values = evaluate_inside(context, vec![node], (input, scores))?;
            let probabilities = values.remove(&output).ok_or("a softmax with an unknown result")?;
            let written = context.graph.outputs(node);
            results.extend(values.into_iter().filter(|(uid, _)| written.contains(uid)));
            probabilities
        }
        None => {
            let softmax = Softmax::new(&scores, None)?;
            let stats = N::CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC;
            if operation.value(stats).is_some() {
                results.push((context.output(operation, stats)?.0, softmax.stats()));
            }
            softmax.y
        }
    };
    results.push((o_uid, shape.output(&probabilities, v, &o_dims)));
    Ok(results)
}

/// Returns the output and the statistics of the forward pass, from which the gradients are computed.
pub(super) fn forward_results(context: &Context<'_>, operation: &Node) -> Results {
    use Name as N;
    let q = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC)?;
    let k = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC)?;
    let v = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC)?;
    let (o_uid, o_dims) = context.output(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC)?;
    let (stats_uid, stats_dims) = context.output(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC)?;
    let shape = Shape::new(q, k, v, &o_dims)?;
    context.spend(shape.products())?;
    let scale = context.optional(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC);
    let softmax = Softmax::new(&shape.scores(q, k, scale.map_or(1.0, |scale| scale.get(0))), None)?;
    let stats = Array { dims: stats_dims, values: softmax.stats().values };
    Ok(vec![(o_uid, shape.output(&softmax.y, v, &o_dims)), (stats_uid, stats)])
}

/// Computes the gradients from the output and the statistics of the forward pass.
///
/// With the probabilities `p = exp(score - stats)`, `dp = do v^T` and `d = sum(do * o)`, the gradient of the scores is
/// `p * (dp - d)`.
pub(super) fn backward(context: &Context<'_>, operation: &Node) -> Results {
    use Name as N;
    let q = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC)?;
    let k = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC)?;
    let v = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC)?;
    let o = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC)?;
    let d_o = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC)?;
    let stats = context.input(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC)?;
    let shape = Shape::new(q, k, v, &d_o.dims)?;
    let (width, depth) = (shape.width, shape.depth);
    context.spend(shape.products().and_then(|products| products.checked_mul(3)))?;
    let scale =
        context.optional(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC).map_or(1.0, |scale| scale.get(0));
    let scores = shape.scores(q, k, scale);
    if o.dims != d_o.dims || stats.values.len() * shape.keys != scores.values.len() {
        return Err("an attention of tensors with contradictory extents".to_owned());
    }
    let [(dq_uid, dq_dims), (dk_uid, dk_dims), (dv_uid, dv_dims)] = [
        context.output(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC)?,
        context.output(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC)?,
        context.output(operation, N::CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC)?,
    ];
    if dq_dims != q.dims || dk_dims != k.dims || dv_dims != v.dims {
        return Err("an attention of tensors with contradictory extents".to_owned());
    }
    let rows = Walk::new(&stats.dims, [&dense_strides(&stats.dims)]);
    let d = rows.values(|row, _| (row * width..(row + 1) * width).map(|at| d_o.get(at) * o.get(at)).sum());
    let d = |row| d.get(row).copied().unwrap_or(f64::NAN);
    let dp = shape.products_of_rows(d_o, v, shape.v_heads, width);
    let every = Walk::new(&scores.dims, [&dense_strides(&scores.dims)]);
    let row = |index| index / shape.keys;
    let array = |values| Array { dims: scores.dims.clone(), values };
    let p = array(every.values(|index, _| libm::exp(scores.get(index) - stats.get(row(index)))));
    let ds = array(every.values(|index, _| scale * p.get(index) * (dp.get(index) - d(row(index)))));
    let dq = Array { values: shape.sums_over_keys(&ds, k, shape.k_heads, depth), dims: dq_dims };
    let dk = Array { values: shape.sums_over_queries(&ds, q, shape.k_heads, depth), dims: dk_dims };
    let dv = Array { values: shape.sums_over_queries(&p, d_o, shape.v_heads, width), dims: dv_dims };
    Ok(vec![(dq_uid, dq), (dk_uid, dk), (dv_uid, dv)])
}

/// The extents of an attention. Groups of query heads share a head of keys and values.
struct Shape {
    /// The product of batches and query heads.
    batches: usize,
    heads: usize,
    k_heads: usize,
    v_heads: usize,
    queries: usize,
    keys: usize,
    depth: usize,
    width: usize,
}

impl Shape {
    fn new(q: &Array, k: &Array, v: &Array, o: &[usize]) -> Result<Self, String> {
        let ([b, heads, queries, depth], [k_b, k_heads, keys, k_depth], [v_b, v_heads, v_keys, width]) =
            (&*q.dims, &*k.dims, &*v.dims)
        else {
            return Err("an attention without four dimensions".to_owned());
        };
        let is_shared = |own: usize| own > 0 && heads.is_multiple_of(own);
        let fits = (b, b, keys, depth) == (k_b, v_b, v_keys, k_depth) && o == [*b, *heads, *queries, *width];
        if !fits || !is_shared(*k_heads) || !is_shared(*v_heads) {
            return Err("an attention of tensors with contradictory extents".to_owned());
        }
        let scores = [*b, *heads, *queries, *keys].iter().try_fold(1_usize, |count, extent| count.checked_mul(*extent));
        if scores.is_none_or(|scores| scores > MAX_ELEMENTS) {
            return Err("an attention with too many scores".to_owned());
        }
        Ok(Shape {
            batches: *b,
            heads: *heads,
            k_heads: *k_heads,
            v_heads: *v_heads,
            queries: *queries,
            keys: *keys,
            depth: *depth,
            width: *width,
        })
    }

    fn score_dims(&self) -> [usize; 4] {
        [self.batches, self.heads, self.queries, self.keys]
    }

    fn products(&self) -> Option<u64> {
        let pairs: usize = self.score_dims().iter().product();
        (pairs as u64).checked_mul((self.depth + self.width) as u64)
    }

    /// Returns the head of keys or values that a query head uses. Both are numbered across all batches.
    fn own_head(&self, head: usize, own_heads: usize) -> usize {
        head / self.heads * own_heads + head % self.heads * own_heads / self.heads
    }

    /// Returns the products of query rows and key rows with this length.
    fn products_of_rows(&self, a: &Array, b: &Array, b_heads: usize, length: usize) -> Array {
        let Shape { batches, heads, queries, keys, .. } = *self;
        let planes = |head| [head * queries * length, self.own_head(head, b_heads) * keys * length];
        let values =
            matrix_products(batches * heads, [queries, length, keys], (a, [length, 1]), (b, [1, length]), planes);
        Array { dims: self.score_dims().to_vec(), values }
    }

    /// Returns the weighted sum of rows over all keys, for each query.
    fn sums_over_keys(&self, weights: &Array, values: &Array, own_heads: usize, length: usize) -> Vec<f64> {
        let Shape { batches, heads, queries, keys, .. } = *self;
        let planes = |head| [head * queries * keys, self.own_head(head, own_heads) * keys * length];
        matrix_products(batches * heads, [queries, keys, length], (weights, [keys, 1]), (values, [length, 1]), planes)
    }

    /// Returns the weighted sum of rows over all queries, for each key.
    fn sums_over_queries(&self, weights: &Array, values: &Array, own_heads: usize, length: usize) -> Vec<f64> {
        let Shape { batches, heads, queries, keys, .. } = *self;
        let terms = heads / own_heads * queries;
        let planes = |own| [own * terms * keys, own * terms * length];
        matrix_products(batches * own_heads, [keys, terms, length], (weights, [1, keys]), (values, [length, 1]), planes)
    }

    fn output(&self, probabilities: &Array, v: &Array, dims: &[usize]) -> Array {
        Array { values: self.sums_over_keys(probabilities, v, self.v_heads, self.width), dims: dims.to_vec() }
    }

    fn scores(&self, q: &Array, k: &Array, scale: f64) -> Array {
        let mut scores = self.products_of_rows(q, k, self.k_heads, self.depth);
        scores.values.par_iter_mut().for_each(|score| *score *= scale);
        scores
    }
}
