//! Scaled dot product attention, and the gradients.

use cudnn_graph::Node;
use cudnn_loader::cudnnBackendAttributeName_t as Name;

use super::super::tensor::{Array, Walk};
use super::context::{Context, Results};
use super::softmax::Softmax;
use super::{MAX_ELEMENTS, evaluate_inside};

/// Computes the outputs and the statistics. The scores can be changed by a graph inside of the operation, such as a mask.
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

/// Returns the output and the statistics of the forward pass, which the gradients are computed from.
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
    let [mut dq, mut dk, mut dv] = [dq_dims, dk_dims, dv_dims].map(|dims| Array::filled(&dims, 0.0));
    let dot = |a: &Array, a_row: usize, b: &Array, b_row: usize, length: usize| -> f64 {
        (0..length).map(|column| a.get(a_row * length + column) * b.get(b_row * length + column)).sum()
    };
    shape.each(|at| {
        let (k_row, v_row) = (at.k_plane * shape.keys + at.kv, at.v_plane * shape.keys + at.kv);
        let p = libm::exp(scores.get(at.score) - stats.get(at.query));
        let dp = dot(d_o, at.query, v, v_row, width) - dot(d_o, at.query, o, at.query, width);
        let ds = scale * p * dp;
        for column in 0..depth {
            let (q_at, k_at) = (at.query * depth + column, k_row * depth + column);
            dq.update(q_at, |sum| sum + ds * k.get(k_at));
            dk.update(k_at, |sum| sum + ds * q.get(q_at));
        }
        for column in 0..width {
            dv.update(v_row * width + column, |sum| sum + p * d_o.get(at.query * width + column));
        }
    });
    Ok(vec![(dq_uid, dq), (dk_uid, dk), (dv_uid, dv)])
}

/// The extents of an attention. The heads of keys and values are shared by groups of heads.
struct Shape {
    /// Batches and heads of the queries.
    batches: usize,
    heads: usize,
    k_heads: usize,
    v_heads: usize,
    queries: usize,
    keys: usize,
    /// The length of a query and of a key.
    depth: usize,
    /// The length of a value.
    width: usize,
}

/// A pair of a query and a key.
struct Pair {
    score: usize,
    /// The row of the query, which is also the row of the output.
    query: usize,
    k_plane: usize,
    v_plane: usize,
    /// The row of the key and of the value in the plane.
    kv: usize,
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

    /// Calls a function for all pairs.
    fn each(&self, mut function: impl FnMut(Pair)) {
        let steps = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]];
        let [batches, heads, queries, keys] = &steps;
        let places = Walk::new(&self.score_dims(), [batches, heads, queries, keys]);
        for (score, [batch, head, query, kv]) in places.enumerate() {
            let plane = |own: usize| batch * own + head * own / self.heads.max(1);
            function(Pair {
                score,
                query: (batch * self.heads + head) * self.queries + query,
                k_plane: plane(self.k_heads),
                v_plane: plane(self.v_heads),
                kv,
            });
        }
    }

    /// Returns the sums of the values, weighted with the probabilities.
    fn output(&self, probabilities: &Array, v: &Array, dims: &[usize]) -> Array {
        let mut o = Array::filled(dims, 0.0);
        self.each(|at| {
            let (p, start) = (probabilities.get(at.score), at.kv * self.width);
            for column in 0..self.width {
                let value = v.get(at.v_plane * self.keys * self.width + start + column);
                o.update(at.query * self.width + column, |sum| sum + p * value);
            }
        });
        o
    }

    fn scores(&self, q: &Array, k: &Array, scale: f64) -> Array {
        let mut scores = Array::filled(&self.score_dims(), 0.0);
        let depth = self.depth;
        self.each(|at| {
            let k_row = at.k_plane * self.keys + at.kv;
            let products = (0..depth).map(|column| q.get(at.query * depth + column) * k.get(k_row * depth + column));
            let sum: f64 = products.sum();
            scores.update(at.score, |_| scale * sum);
        });
        scores
    }
}
