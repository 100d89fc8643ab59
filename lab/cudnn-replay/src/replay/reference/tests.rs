//! Tests the operations against values that were computed by hand or with another formula.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;

/// Returns a graph with these tensors, parameters and operation. Adds the types of attributes.
fn graph(tensors: &[&[usize]], rest: &str) -> Graph {
    let tensors: Vec<String> = tensors
        .iter()
        .enumerate()
        .map(|(uid, dims)| {
            format!(r#"{{"kind":"TENSOR","TENSOR_UNIQUE_ID:3":{uid},"TENSOR_DIMENSIONS:3":{dims:?},"TENSOR_STRIDES:3":{:?}}}"#, vec![1; dims.len()])
        })
        .collect();
    let operation = tensors.len() + 1;
    serde_json::from_str(&format!(
        r#"[{},{rest},{{"kind":"OPERATIONGRAPH","OPERATIONGRAPH_OPS:15":{operation}}}]"#,
        tensors.join(",")
    ))
    .unwrap()
}

fn array(dims: &[usize], values: &[f64]) -> Array {
    assert_eq!(dims.iter().product::<usize>(), values.len());
    Array { dims: dims.to_vec(), values: values.to_vec() }
}

fn compute(
    graph: &Graph,
    given: impl FnOnce() -> BTreeMap<i64, Array>,
    element: &dyn Fn(i64, usize) -> Option<f64>,
) -> Result<BTreeMap<i64, Expected>, String> {
    compute_within(MAX_PRODUCTS, graph, given, element)
}

/// For small graphs, which read all values at once.
fn unread(_: i64, _: usize) -> Option<f64> {
    panic!("an element was read")
}

/// Computes a graph with extreme numbers, which a hostile capture may contain. Tries only the first graph of each kind.
fn try_extreme_numbers(graph: &Graph) {
    const EXTREMES: [i64; 4] = [i64::MIN, -1, 1 << 47, i64::MAX];
    static TRIED: Mutex<BTreeSet<Vec<u32>>> = Mutex::new(BTreeSet::new());
    if !TRIED.lock().unwrap().insert(graph.nodes().iter().map(|node| node.kind.0).collect()) {
        return;
    }
    let small = |node: &Node| {
        let tensor = Tensor::new(node).ok().filter(|tensor| tensor.count() < 1 << 12)?;
        Some((tensor.uid, Array::filled(&tensor.dims, 1.0)))
    };
    for (place, node) in graph.nodes().iter().enumerate() {
        for (at, attribute) in node.attributes.iter().enumerate() {
            let cudnn_graph::Value::Integers(integers) = &attribute.value else { continue };
            for (index, number) in (0..integers.len()).flat_map(|index| EXTREMES.map(|number| (index, number))) {
                let mut nodes = graph.nodes().to_vec();
                let mut changed = integers.clone();
                changed[index] = number;
                nodes[place].attributes[at].value = cudnn_graph::Value::Integers(changed);
                let Ok(changed) = Graph::new(nodes) else { continue };
                let given = || changed.tensors().filter_map(small).collect();
                let _result = compute_within(1 << 16, &changed, given, &|_, _| Some(1.0));
            }
        }
    }
}

fn run(graph: &Graph, given: &[(i64, Array)], output: i64) -> Vec<f64> {
    try_extreme_numbers(graph);
    compute(graph, || given.iter().cloned().collect(), &unread).unwrap().remove(&output).unwrap().array.values
}

fn pseudo_random(dims: &[usize], seed: u64) -> Array {
    let count = dims.iter().product::<usize>() as u64;
    let data = super::super::request::DataSet::Integers;
    array(dims, &(0..count).map(|index| super::super::data::value(data, seed, index)).collect::<Vec<_>>())
}

const CONVOLUTION: &str = r#"{"kind":"CONVOLUTION","CONVOLUTION_CONV_MODE:7":<mode>,"CONVOLUTION_PRE_PADDINGS:3":<pads>,"CONVOLUTION_FILTER_STRIDES:3":<strides>,"CONVOLUTION_DILATIONS:3":<dilations>}"#;

fn convolution(dims: [&[usize]; 3], operation: &str, mode: u8, [pads, strides, dilations]: [&str; 3]) -> Graph {
    let parameters = CONVOLUTION.replace("<mode>", &mode.to_string());
    let parameters = parameters.replace("<pads>", pads).replace("<strides>", strides).replace("<dilations>", dilations);
    graph(&dims, &format!("{parameters},{operation}"))
}

const FORWARD: &str = r#"{"kind":"OPERATION_CONVOLUTION_FORWARD","OPERATION_CONVOLUTION_FORWARD_X:15":0,"OPERATION_CONVOLUTION_FORWARD_W:15":1,"OPERATION_CONVOLUTION_FORWARD_Y:15":2,"OPERATION_CONVOLUTION_FORWARD_CONV_DESC:15":3,"OPERATION_CONVOLUTION_FORWARD_ALPHA:4":2.0,"OPERATION_CONVOLUTION_FORWARD_BETA:4":0.5}"#;
const DATA: &str = r#"{"kind":"OPERATION_CONVOLUTION_BACKWARD_DATA","OPERATION_CONVOLUTION_BWD_DATA_DX:15":0,"OPERATION_CONVOLUTION_BWD_DATA_W:15":1,"OPERATION_CONVOLUTION_BWD_DATA_DY:15":2,"OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC:15":3}"#;
const FILTER: &str = r#"{"kind":"OPERATION_CONVOLUTION_BACKWARD_FILTER","OPERATION_CONVOLUTION_BWD_FILTER_X:15":0,"OPERATION_CONVOLUTION_BWD_FILTER_DW:15":1,"OPERATION_CONVOLUTION_BWD_FILTER_DY:15":2,"OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC:15":3}"#;

#[test]
fn a_convolution_adds_products() {
    let dims: [&[usize]; 3] = [&[1, 1, 4], &[1, 1, 3], &[1, 1, 4]];
    let given = [
        (0, array(dims[0], &[1.0, 2.0, 3.0, 4.0])),
        (1, array(dims[1], &[1.0, 10.0, 100.0])),
        (2, array(dims[2], &[2.0, 4.0, 6.0, 8.0])),
    ];
    for (mode, sums) in [(1, [210.0, 321.0, 432.0, 43.0]), (0, [12.0, 123.0, 234.0, 340.0])] {
        let graph = convolution(dims, FORWARD, mode, ["1", "1", "1"]);
        let expected: Vec<f64> =
            sums.iter().zip([1.0, 2.0, 3.0, 4.0]).map(|(sum, former)| 2.0 * sum + former).collect();
        assert_eq!(run(&graph, &given, 2), expected);
    }
}

/// The gradients are the adjoint maps, because all three are sums of the same products.
#[test]
fn gradients_of_convolutions_are_adjoint() {
    let cases: [([&[usize]; 3], [&str; 3]); 3] = [
        ([&[2, 4, 7, 6], &[6, 2, 3, 2], &[2, 6, 4, 4]], ["[1,2]", "[2,3]", "[1,2]"]),
        ([&[1, 3, 4, 5, 6], &[2, 3, 2, 3, 1], &[1, 2, 3, 5, 3]], ["[0,1,0]", "[1,1,2]", "[1,1,1]"]),
        ([&[2, 3, 5], &[3, 1, 2], &[2, 3, 4]], ["0", "1", "1"]),
    ];
    for (dims, parameters) in cases {
        for mode in [0, 1] {
            let [x, w, dy] = [(dims[0], 1), (dims[1], 2), (dims[2], 3)].map(|(dims, seed)| pseudo_random(dims, seed));
            let none = Array::filled(dims[2], 0.0);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let y = run(&convolution(dims, FORWARD, mode, parameters), &[(0, x.clone()), (1, w.clone()), (2, none)], 2);
            let dx = run(&convolution(dims, DATA, mode, parameters), &[(1, w.clone()), (2, dy.clone())], 0);
            let dw = run(&convolution(dims, FILTER, mode, parameters), &[(0, x.clone()), (2, dy.clone())], 1);
            let product = dot(&y, &dy.values) / 2.0;
            assert!(product != 0.0);
            assert_eq!((dot(&dx, &x.values), dot(&dw, &w.values)), (product, product), "{dims:?}");
        }
    }
}

#[test]
fn matrices_are_multiplied_and_heads_are_shared() {
    let matmul = r#"{"kind":"MATMUL"},{"kind":"OPERATION_MATMUL","OPERATION_MATMUL_ADESC:15":0,"OPERATION_MATMUL_BDESC:15":1,"OPERATION_MATMUL_CDESC:15":2}"#;
    let given = [
        (0, array(&[4, 1, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])),
        (1, array(&[2, 2, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 2.0])),
    ];
    let graph = graph(&[&[4, 1, 2], &[2, 2, 2], &[4, 1, 2]], matmul);
    assert_eq!(run(&graph, &given, 2), [1.0, 2.0, 3.0, 4.0, 5.0, 17.0, 7.0, 23.0]);
}

#[test]
fn reductions_have_their_operators() {
    let x = array(&[2, 3], &[1.0, -2.0, 0.0, 3.0, 4.0, -5.0]);
    let cases = [
        (0, [-1.0, 2.0]),
        (1, [0.0, -60.0]),
        (2, [-2.0, -5.0]),
        (3, [1.0, 4.0]),
        (4, [2.0, 5.0]),
        (5, [-1.0 / 3.0, 2.0 / 3.0]),
        (6, [3.0, 12.0]),
        (7, [5_f64.sqrt(), 50_f64.sqrt()]),
        (8, [-2.0, -60.0]),
    ];
    for (operator, expected) in cases {
        let reduction = format!(
            r#"{{"kind":"REDUCTION","REDUCTION_OPERATOR:18":{operator}}},{{"kind":"OPERATION_REDUCTION","OPERATION_REDUCTION_XDESC:15":0,"OPERATION_REDUCTION_YDESC:15":1,"OPERATION_REDUCTION_DESC:15":2}}"#
        );
        assert_eq!(run(&graph(&[&[2, 3], &[2, 1]], &reduction), &[(0, x.clone())], 1), expected, "{operator}");
    }
}

#[test]
fn reductions_along_other_dimensions_have_no_reference() {
    let refused = |dims: &str| {
        let reduction = format!(
            r#"{{"kind":"REDUCTION","REDUCTION_OPERATOR:18":0}},{{"kind":"OPERATION_REDUCTION","OPERATION_REDUCTION_XDESC:15":0,"OPERATION_REDUCTION_YDESC:15":1,"OPERATION_REDUCTION_DESC:15":2,"OPERATION_REDUCTION_DIMS:3":{dims}}}"#
        );
        let graph = graph(&[&[2, 3, 1], &[2, 1, 1]], &reduction);
        compute(&graph, || BTreeMap::from([(0, Array::filled(&[2, 3, 1], 1.0))]), &unread).err()
    };
    assert_eq!((refused("1"), refused("[1,2]")), (None, None));
    for dims in ["0", "[0,1]", "2", "-1"] {
        assert!(refused(dims).unwrap().contains("along other dimensions"), "{dims}");
    }
}

#[test]
fn rows_are_normalized() {
    let norm = |mode: u8, phase: u8| {
        format!(
            r#"{{"kind":"TENSOR","TENSOR_UNIQUE_ID:3":9,"TENSOR_DIMENSIONS:3":1,"TENSOR_STRIDES:3":1}},{{"kind":"OPERATION_NORM_FORWARD","OPERATION_NORM_FWD_MODE:27":{mode},"OPERATION_NORM_FWD_PHASE:28":{phase},"OPERATION_NORM_FWD_XDESC:15":0,"OPERATION_NORM_FWD_SCALE_DESC:15":1,"OPERATION_NORM_FWD_BIAS_DESC:15":2,"OPERATION_NORM_FWD_EPSILON_DESC:15":5,"OPERATION_NORM_FWD_MEAN_DESC:15":3,"OPERATION_NORM_FWD_INV_VARIANCE_DESC:15":4,"OPERATION_NORM_FWD_YDESC:15":6}}"#
        )
    };
    // Tensors 3 and 4 are the statistics, 5 is epsilon, and 6 is the output.
    let given = |scale: &[usize]| {
        vec![
            (0, array(&[2, 2], &[1.0, 3.0, 4.0, 8.0])),
            (1, array(scale, &[2.0, 1.0])),
            (2, array(scale, &[0.0, 5.0])),
            (5, array(&[1], &[0.0])),
            (9, array(&[1], &[0.0])),
        ]
    };
    let layer = graph(&[&[2, 2], &[1, 2], &[1, 2], &[2, 1], &[2, 1], &[1], &[2, 2]], &norm(0, 1));
    assert_eq!(run(&layer, &given(&[1, 2]), 6), [-2.0, 6.0, -2.0, 6.0]);
    assert_eq!(run(&layer, &given(&[1, 2]), 3), [2.0, 6.0]);
    assert_eq!(run(&layer, &given(&[1, 2]), 4), [1.0, 0.5]);
    let rms = graph(&[&[2, 2], &[1, 2], &[1, 2], &[2, 1], &[2, 1], &[1], &[2, 2]], &norm(4, 1));
    let result = run(&rms, &given(&[1, 2]), 6);
    assert_eq!(result[0], 2.0 / 5_f64.sqrt());
    let batch = graph(&[&[2, 2], &[1, 2], &[1, 2], &[1, 2], &[1, 2], &[1], &[2, 2]], &norm(2, 0));
    let mut batch_given = given(&[1, 2]);
    batch_given.extend([(3, array(&[1, 2], &[1.0, 2.0])), (4, array(&[1, 2], &[10.0, 100.0]))]);
    assert_eq!(run(&batch, &batch_given, 6), [0.0, 105.0, 60.0, 605.0]);
}

#[test]
fn what_is_not_computed_is_named() {
    let unknown = graph(&[&[1]], r#"{"kind":"RNG"},{"kind":"OPERATION_RNG","OPERATION_RNG_YDESC:15":0}"#);
    assert!(compute(&unknown, BTreeMap::new, &unread).unwrap_err().contains("RNG"));
    let huge = single(&[&[1 << 28], &[1]], r#"{"kind":"OPERATION_RESHAPE","XDESC:15":0,"YDESC:15":1}"#);
    let refused = compute(&huge, || panic!("the values are read before the size is known"), &unread);
    assert!(refused.unwrap_err().starts_with("it is too large, and only convolutions"));
}

fn single(tensors: &[&[usize]], operation: &str) -> Graph {
    let text: Vec<String> = tensors
        .iter()
        .enumerate()
        .map(|(uid, dims)| {
            let strides = super::super::tensor::dense_strides(dims);
            format!(r#"{{"kind":"TENSOR","UNIQUE_ID:3":{uid},"DIMENSIONS:3":{dims:?},"STRIDES:3":{strides:?}}}"#)
        })
        .collect();
    let root = format!(r#"{{"kind":"OPERATIONGRAPH","OPS:15":{}}}"#, tensors.len());
    serde_json::from_str(&format!("[{},{operation},{root}]", text.join(","))).unwrap()
}

fn noise(dims: &[usize], seed: u64) -> Array {
    let data = super::super::request::DataSet::Normal;
    let count = dims.iter().product::<usize>() as u64;
    array(dims, &(0..count).map(|index| super::super::data::value(data, seed, index)).collect::<Vec<_>>())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[track_caller]
fn assert_close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?}\n{b:?}");
}

fn derivatives(at: &Array, function: impl Fn(Array) -> f64) -> Vec<f64> {
    let moved = |index: usize, step: f64| {
        let mut moved = at.clone();
        moved.values[index] += step;
        function(moved)
    };
    (0..at.values.len()).map(|index| (moved(index, 1e-5) - moved(index, -1e-5)) / 2e-5).collect()
}

/// A forward normalization with statistics in tensors 3 and 4, and epsilon in 5.
fn norm(mode: usize, dims: &[usize], scale: &[usize], stats: &[usize]) -> Graph {
    single(
        &[dims, scale, scale, stats, stats, &[1], dims],
        &format!(
            r#"{{"kind":"OPERATION_NORM_FORWARD","OPERATION_NORM_FWD_MODE:27":{mode},"OPERATION_NORM_FWD_PHASE:28":1,"OPERATION_NORM_FWD_XDESC:15":0,"OPERATION_NORM_FWD_SCALE_DESC:15":1,"OPERATION_NORM_FWD_BIAS_DESC:15":2,"OPERATION_NORM_FWD_EPSILON_DESC:15":5,"OPERATION_NORM_FWD_MEAN_DESC:15":3,"OPERATION_NORM_FWD_INV_VARIANCE_DESC:15":4,"OPERATION_NORM_FWD_YDESC:15":6}}"#
        ),
    )
}

#[test]
fn gradients_of_normalizations_are_derivatives() {
    let dims = [2, 3, 2, 2];
    let cases: [(usize, [usize; 4], [usize; 4]); 4] = [
        (0, [1, 3, 2, 2], [2, 1, 1, 1]),
        (1, [1, 3, 1, 1], [2, 3, 1, 1]),
        (2, [1, 3, 1, 1], [1, 3, 1, 1]),
        (4, [1, 3, 2, 2], [2, 1, 1, 1]),
    ];
    for (mode, scale_dims, stats) in cases {
        let graph = norm(mode, &dims, &scale_dims, &stats);
        let (x, scale, bias) = (noise(&dims, 1), noise(&scale_dims, 2), noise(&scale_dims, 3));
        let (dy, epsilon) = (noise(&dims, 4), array(&[1], &[0.01]));
        let outputs = |x: &Array, scale: &Array, bias: &Array| {
            let given = [(0, x.clone()), (1, scale.clone()), (2, bias.clone()), (5, epsilon.clone())];
            [3, 4, 6].map(|output| run(&graph, &given, output))
        };
        let loss = |x: &Array, scale: &Array, bias: &Array| dot(&outputs(x, scale, bias)[2], &dy.values);
        let [mean, inverse, _] = outputs(&x, &scale, &bias);
        let mean_name = if mode == 4 { "" } else { r#""OPERATION_NORM_BWD_MEAN_DESC:15":3,"# };
        let gradient = single(
            &[&dims, &dims, &scale_dims, &stats, &stats, &dims, &scale_dims, &scale_dims],
            &format!(
                r#"{{"kind":"OPERATION_NORM_BACKWARD","OPERATION_NORM_BWD_MODE:27":{mode},"OPERATION_NORM_BWD_XDESC:15":0,"OPERATION_NORM_BWD_DYDESC:15":1,"OPERATION_NORM_BWD_SCALE_DESC:15":2,{mean_name}"OPERATION_NORM_BWD_INV_VARIANCE_DESC:15":4,"OPERATION_NORM_BWD_DXDESC:15":5,"OPERATION_NORM_BWD_DSCALE_DESC:15":6,"OPERATION_NORM_BWD_DBIAS_DESC:15":7}}"#
            ),
        );
        let stats_array = |values: &[f64]| array(&stats, &values[..stats.iter().product()]);
        let mean = if mode == 4 { noise(&stats, 9) } else { stats_array(&mean) };
        let given = [(0, x.clone()), (1, dy.clone()), (2, scale.clone()), (3, mean), (4, stats_array(&inverse))];
        assert_close(&run(&gradient, &given, 5), &derivatives(&x, |x| loss(&x, &scale, &bias)));
        assert_close(&run(&gradient, &given, 6), &derivatives(&scale, |scale| loss(&x, &scale, &bias)));
        assert_close(&run(&gradient, &given, 7), &derivatives(&bias, |bias| loss(&x, &scale, &bias)));
    }
}

#[test]
fn statistics_are_those_of_a_batch_normalization() {
    let (dims, stats) = ([2, 3, 2, 2], [1, 3, 1, 1]);
    let x = noise(&dims, 1);
    let [scale, bias, former_mean, former_variance] = [2, 3, 4, 5].map(|seed| noise(&stats, seed));
    let (epsilon, factor, count) = (array(&[1], &[0.1]), array(&[1], &[0.25]), array(&[1], &[8.0]));
    let one: &[usize] = &[1];
    let batch = single(
        &[&dims, &stats, &stats, &stats, &stats, one, &dims, one, &stats, &stats, &stats, &stats],
        r#"{"kind":"OPERATION_NORM_FORWARD","OPERATION_NORM_FWD_MODE:27":2,"OPERATION_NORM_FWD_PHASE:28":1,"OPERATION_NORM_FWD_XDESC:15":0,"OPERATION_NORM_FWD_SCALE_DESC:15":1,"OPERATION_NORM_FWD_BIAS_DESC:15":2,"OPERATION_NORM_FWD_MEAN_DESC:15":3,"OPERATION_NORM_FWD_INV_VARIANCE_DESC:15":4,"OPERATION_NORM_FWD_EPSILON_DESC:15":5,"OPERATION_NORM_FWD_YDESC:15":6,"OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC:15":7,"OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC:15":8,"OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC:15":9,"OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC:15":10,"OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC:15":11}"#,
    );
    let given = [
        (0, x.clone()),
        (1, scale.clone()),
        (2, bias.clone()),
        (5, epsilon.clone()),
        (7, factor.clone()),
        (8, former_mean.clone()),
        (9, former_variance.clone()),
    ];
    let [mean, inverse, y, running_mean, running_variance] =
        [3, 4, 6, 10, 11].map(|output| run(&batch, &given, output));
    let sums = single(
        &[&dims, &stats, &stats],
        r#"{"kind":"OPERATION_GEN_STATS","OPERATION_GENSTATS_XDESC:15":0,"OPERATION_GENSTATS_SUMDESC:15":1,"OPERATION_GENSTATS_SQSUMDESC:15":2}"#,
    );
    let [sum, square_sum] = [1, 2].map(|output| array(&stats, &run(&sums, &[(0, x.clone())], output)));
    let finalize = single(
        &[
            &stats, &stats, &stats, &stats, one, one, one, &stats, &stats, &stats, &stats, &stats, &stats, &stats,
            &stats,
        ],
        r#"{"kind":"OPERATION_BN_FINALIZE_STATISTICS","OPERATION_BN_FINALIZE_STATS_MODE:3":0,"OPERATION_BN_FINALIZE_Y_SUM_DESC:15":0,"OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC:15":1,"OPERATION_BN_FINALIZE_SCALE_DESC:15":2,"OPERATION_BN_FINALIZE_BIAS_DESC:15":3,"OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC:15":4,"OPERATION_BN_FINALIZE_EPSILON_DESC:15":5,"OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC:15":6,"OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC:15":7,"OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC:15":8,"OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC:15":9,"OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC:15":10,"OPERATION_BN_FINALIZE_SAVED_MEAN_DESC:15":11,"OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC:15":12,"OPERATION_BN_FINALIZE_EQ_SCALE_DESC:15":13,"OPERATION_BN_FINALIZE_EQ_BIAS_DESC:15":14}"#,
    );
    let given = [
        (0, sum),
        (1, square_sum),
        (2, scale),
        (3, bias),
        (4, count),
        (5, epsilon),
        (6, factor),
        (7, former_mean.clone()),
        (8, former_variance),
    ];
    let result = [9, 10, 11, 12, 13, 14].map(|output| run(&finalize, &given, output));
    assert_close(&result[0], &running_mean);
    assert_close(&result[1], &running_variance);
    assert_close(&result[2], &mean);
    assert_close(&result[3], &inverse);
    let channel = |index: usize| index / 4 % 3;
    let normalized: Vec<f64> =
        x.values.iter().enumerate().map(|(at, x)| x * result[4][channel(at)] + result[5][channel(at)]).collect();
    assert_close(&normalized, &y);
    // Compute the first channel by hand.
    let first: Vec<f64> = x.values[..4].iter().chain(&x.values[12..16]).copied().collect();
    let first_mean = first.iter().sum::<f64>() / 8.0;
    let unbiased = first.iter().map(|x| (x - first_mean).powi(2)).sum::<f64>() / 7.0;
    assert_close(&mean[..1], &[first_mean]);
    assert_close(&running_mean[..1], &[0.75 * former_mean.values[0] + 0.25 * first_mean]);
    assert_close(&running_variance[..1], &[0.75 * noise(&stats, 5).values[0] + 0.25 * unbiased]);
}

#[test]
fn windows_are_pooled() {
    let x = array(&[1, 1, 3, 3], &[-1.0, -2.0, -3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    // Windows of 2 x 2 with padding before, and a stride of 2.
    for (mode, padding, expected) in [
        (3, 1, [-1.0, -2.0, 7.0, 9.0]),
        (3, 0, [0.0, 0.0, 7.0, 9.0]),
        (2, 0, [-0.25, -1.25, 2.75, 7.0]),
        (4, 0, [-1.0, -2.5, 5.5, 7.0]),
    ] {
        let pooling = format!(
            r#"{{"kind":"RESAMPLE","RESAMPLE_MODE:3":{mode},"RESAMPLE_PADDING_MODE:3":{padding},"RESAMPLE_WINDOW_DIMS:3":[2,2],"RESAMPLE_STRIDES:26":[2,1,2,1],"RESAMPLE_PRE_PADDINGS:3":[1,1]}},{{"kind":"OPERATION_RESAMPLE_FWD","OPERATION_RESAMPLE_FWD_XDESC:15":0,"OPERATION_RESAMPLE_FWD_YDESC:15":1,"OPERATION_RESAMPLE_FWD_DESC:15":2}}"#
        );
        let graph = graph(&[&[1, 1, 3, 3], &[1, 1, 2, 2]], &pooling);
        assert_eq!(run(&graph, &[(0, x.clone())], 1), expected, "{mode} {padding}");
    }
}

#[test]
fn values_are_moved() {
    let x = array(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let given = [(0, x.clone()), (1, array(&[2, 1], &[7.0, 8.0]))];
    for (y, operation, expected) in [
        (&[3, 2], r#"{"kind":"OPERATION_RESHAPE","XDESC:15":0,"YDESC:15":2}"#, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..]),
        (
            &[3, 2],
            r#"{"kind":"OPERATION_TRANSPOSE","PERMUTATION:3":[1,0],"XDESC:15":0,"YDESC:15":2}"#,
            &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0],
        ),
        (
            &[1, 2],
            r#"{"kind":"OPERATION_SLICE","START_INDICES:3":[1,0],"STRIDES:3":[1,2],"XDESC:15":0,"YDESC:15":2}"#,
            &[4.0, 6.0],
        ),
        (
            &[2, 4],
            r#"{"kind":"OPERATION_CONCAT","AXIS:3":1,"INPUT_DESCS:15":[0,1],"OUTPUT_DESC:15":2}"#,
            &[1.0, 2.0, 3.0, 7.0, 4.0, 5.0, 6.0, 8.0],
        ),
    ] {
        assert_eq!(run(&single(&[&[2, 3], &[2, 1], y], operation), &given, 2), expected, "{operation}");
    }
    let view = r#"[{"kind":"TENSOR","UNIQUE_ID:3":0,"DIMENSIONS:3":[2,3],"STRIDES:3":[3,1]},{"kind":"TENSOR","UNIQUE_ID:3":2,"DIMENSIONS:3":[3,2],"STRIDES:3":[1,3]},{"kind":"OPERATION_RESHAPE","XDESC:15":0,"YDESC:15":1},{"kind":"OPERATIONGRAPH","OPS:15":2}]"#;
    let graph: Graph = serde_json::from_str(view).unwrap();
    assert_eq!(run(&graph, &given, 2), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}

const ATTENTION: &str = r#""OPERATION_SDPA_FWD_QDESC:15":0,"OPERATION_SDPA_FWD_KDESC:15":1,"OPERATION_SDPA_FWD_VDESC:15":2,"OPERATION_SDPA_FWD_SCALEDESC:15":3,"OPERATION_SDPA_FWD_ODESC:15":4"#;

/// Queries, keys and values with two query heads per key head, the scale, and the values' tensors.
fn attention_inputs() -> [(i64, Array); 4] {
    [
        (0, noise(&[2, 4, 3, 2], 1)),
        (1, noise(&[2, 2, 5, 2], 2)),
        (2, noise(&[2, 1, 5, 3], 3)),
        (3, array(&[1, 1, 1, 1], &[0.7])),
    ]
}

const ATTENTION_DIMS: [&[usize]; 6] =
    [&[2, 4, 3, 2], &[2, 2, 5, 2], &[2, 1, 5, 3], &[1, 1, 1, 1], &[2, 4, 3, 3], &[2, 4, 3, 1]];

/// Computes the outputs and the statistics from the definition. `keeps` returns whether the mask preserves a score.
fn attention_by_hand(inputs: &[(i64, Array); 4], keeps: fn(usize, usize) -> bool) -> (Vec<f64>, Vec<f64>) {
    let [q, k, v, scale] = inputs.each_ref().map(|(_, array)| &array.values);
    let (mut o, mut stats) = (Vec::new(), Vec::new());
    for (b, h, s) in (0..2).flat_map(|b| (0..4).flat_map(move |h| (0..3).map(move |s| (b, h, s)))) {
        let key = |t: usize| ((b * 2 + h / 2) * 5 + t) * 2;
        let query = ((b * 4 + h) * 3 + s) * 2;
        let weight = |t: usize| {
            if keeps(s, t) { (scale[0] * dot(&q[query..query + 2], &k[key(t)..key(t) + 2])).exp() } else { 0.0 }
        };
        let sum: f64 = (0..5).map(weight).sum();
        stats.push(sum.ln());
        o.extend((0..3).map(|c| (0..5).map(|t| weight(t) * v[(b * 5 + t) * 3 + c]).sum::<f64>() / sum));
    }
    (o, stats)
}

#[test]
fn attention_follows_the_definition() {
    let inputs = attention_inputs();
    let stats = r#""OPERATION_SDPA_FWD_STATSDESC:15":5"#;
    let forward = single(&ATTENTION_DIMS, &format!(r#"{{"kind":"OPERATION_SDPA_FWD",{ATTENTION},{stats}}}"#));
    let (o, stats) = attention_by_hand(&inputs, |_, _| true);
    assert_close(&run(&forward, &inputs, 4), &o);
    assert_close(&run(&forward, &inputs, 5), &stats);
    let paged = format!(r#"{{"kind":"OPERATION_SDPA_FWD",{ATTENTION},"OPERATION_SDPA_FWD_PAGE_TABLE_KDESC:15":3}}"#);
    let refused = compute(&single(&ATTENTION_DIMS, &paged), || inputs.into_iter().collect(), &unread).unwrap_err();
    assert!(refused.contains("PAGE_TABLE"), "{refused}");
    // The page numbers of a paged attention must be valid, and are not generated.
    assert!(is_known(&forward) && !is_known(&single(&ATTENTION_DIMS, &paged)));
}

#[test]
fn attention_can_contain_a_mask_and_a_softmax() {
    let tensor = |uid: usize, dims: &[usize], is_virtual: bool| {
        let strides = super::super::tensor::dense_strides(dims);
        format!(
            r#"{{"kind":"TENSOR","UNIQUE_ID:3":{uid},"DIMENSIONS:3":{dims:?},"STRIDES:3":{strides:?},"IS_VIRTUAL:2":{}}}"#,
            u8::from(is_virtual)
        )
    };
    let scores = [2, 4, 3, 5];
    let mut nodes: Vec<String> =
        ATTENTION_DIMS.iter().enumerate().map(|(uid, dims)| tensor(uid, dims, false)).collect();
    nodes.extend((6..10).map(|uid| tensor(uid, &scores, true)));
    nodes.push(tensor(10, &[1, 1, 1, 1], false));
    let compare = cudnn_loader::cudnnPointwiseMode_t::CUDNN_POINTWISE_CMP_GE.0;
    nodes.push(format!(
        r#"{{"kind":"OPERATION_DIAGONAL_BAND_MASK","XDESC:15":6,"BDESC:15":10,"YDESC:15":7,"COMPARISON_MODE:14":{compare}}}"#
    ));
    nodes.push(r#"{"kind":"OPERATIONGRAPH","OPS:15":11}"#.to_owned());
    nodes.push(r#"{"kind":"OPERATION_SOFTMAX","XDESC:15":8,"YDESC:15":9,"STATS_DESC:15":5}"#.to_owned());
    nodes.push(format!(
        r#"{{"kind":"OPERATION_SDPA_FWD",{ATTENTION},"OPERATION_SDPA_FWD_SUBGRAPH:15":12,"OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID:3":6,"OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID:3":7,"OPERATION_SDPA_FWD_SOFTMAX_DESC:15":13}}"#
    ));
    nodes.push(r#"{"kind":"OPERATIONGRAPH","OPS:15":14}"#.to_owned());
    let graph: Graph = serde_json::from_str(&format!("[{}]", nodes.join(","))).unwrap();
    let inputs = attention_inputs();
    let given: Vec<(i64, Array)> =
        inputs.iter().cloned().chain([(10, array(&[1, 1, 1, 1], &[f64::NEG_INFINITY]))]).collect();
    let (o, stats) = attention_by_hand(&inputs, |row, column| row >= column);
    assert_close(&run(&graph, &given, 4), &o);
    assert_close(&run(&graph, &given, 5), &stats);
}

#[test]
fn gradients_of_attention_are_derivatives() {
    let inputs = attention_inputs();
    let d_o = noise(&[2, 4, 3, 3], 4);
    let (o, stats) = attention_by_hand(&inputs, |_, _| true);
    let [q, k, v, _, out, stat] = ATTENTION_DIMS;
    let backward = single(
        &[q, k, v, &[1, 1, 1, 1], out, stat, out, q, k, v],
        r#"{"kind":"OPERATION_SDPA_BWD","OPERATION_SDPA_BWD_QDESC:15":0,"OPERATION_SDPA_BWD_KDESC:15":1,"OPERATION_SDPA_BWD_VDESC:15":2,"OPERATION_SDPA_BWD_SCALEDESC:15":3,"OPERATION_SDPA_BWD_ODESC:15":4,"OPERATION_SDPA_BWD_STATSDESC:15":5,"OPERATION_SDPA_BWD_DODDESC:15":6,"OPERATION_SDPA_BWD_DQDESC:15":7,"OPERATION_SDPA_BWD_DKDESC:15":8,"OPERATION_SDPA_BWD_DVDESC:15":9}"#,
    );
    let mut given = inputs.to_vec();
    given.extend([(4, array(out, &o)), (5, array(stat, &stats)), (6, d_o.clone())]);
    for input in 0..3 {
        let loss = |moved: Array| {
            let mut inputs = inputs.clone();
            inputs[input].1 = moved;
            dot(&attention_by_hand(&inputs, |_, _| true).0, &d_o.values)
        };
        assert_close(&run(&backward, &given, 7 + input as i64), &derivatives(&inputs[input].1, loss));
    }
}

#[test]
fn samples_equal_the_whole_result() {
    let relu = |x: usize, y: usize| {
        format!(r#"{{"kind":"OPERATION_POINTWISE","XDESC:15":{x},"YDESC:15":{y},"PW_DESCRIPTOR:15":0}}"#)
    };
    // Tensors 1 and 2 are the inputs of the operation, 3 is the result, and ReLU computes 4 to 6.
    let convolution =
        |operation: &str| format!(r#"{{"kind":"OPERATION_{operation}","OPERATION_{operation}_CONV_DESC:15":7,"#);
    let name = |operation: &str, tensor: &str| format!(r#""OPERATION_{operation}_{tensor}:15":"#);
    let (x, w, y): (&[usize], &[usize], &[usize]) = (&[2, 4, 7, 6], &[6, 2, 3, 2], &[2, 6, 4, 4]);
    let (a, b, c): (&[usize], &[usize], &[usize]) = (&[4, 3, 5], &[2, 5, 4], &[4, 3, 4]);
    let (forward, data, filter) = ("CONVOLUTION_FORWARD", "CONVOLUTION_BWD_DATA", "CONVOLUTION_BWD_FILTER");
    let kind = |text: String| {
        text.replace(r#""OPERATION_CONVOLUTION_BWD_DATA","#, r#""OPERATION_CONVOLUTION_BACKWARD_DATA","#)
            .replace(r#""OPERATION_CONVOLUTION_BWD_FILTER","#, r#""OPERATION_CONVOLUTION_BACKWARD_FILTER","#)
    };
    let of = |operation: &str, names: [&str; 3]| {
        let [first, second, third] = names.map(|tensor| name(operation, tensor));
        kind(format!("{}{first}4,{second}2,{third}5}}", convolution(operation)))
    };
    let cases = [
        ([x, w, y], of(forward, ["X", "W", "Y"])),
        ([y, w, x], of(data, ["DY", "W", "DX"])),
        ([x, y, w], of(filter, ["X", "DY", "DW"])),
        (
            [a, b, c],
            r#"{"kind":"OPERATION_MATMUL","OPERATION_MATMUL_ADESC:15":4,"OPERATION_MATMUL_BDESC:15":2,"OPERATION_MATMUL_CDESC:15":5}"#
                .to_owned(),
        ),
    ];
    for ([first, second, result], operation) in cases {
        let mut nodes = vec![r#"{"kind":"POINTWISE","MODE:14":100}"#.to_owned()];
        for (uid, dims) in [first, second, result, first, result, result].into_iter().enumerate() {
            let strides = super::super::tensor::dense_strides(dims);
            nodes.push(format!(
                r#"{{"kind":"TENSOR","UNIQUE_ID:3":{},"DIMENSIONS:3":{dims:?},"STRIDES:3":{strides:?},"IS_VIRTUAL:2":{}}}"#,
                uid + 1,
                u8::from(uid == 3 || uid == 4)
            ));
        }
        nodes.push(r#"{"kind":"CONVOLUTION","CONV_MODE:7":0,"PRE_PADDINGS:3":[1,2],"FILTER_STRIDES:3":[2,3],"DILATIONS:3":[1,2]}"#.to_owned());
        nodes.extend([relu(1, 4), operation.clone(), relu(5, 6)]);
        nodes.push(r#"{"kind":"OPERATIONGRAPH","OPS:15":[8,9,10]}"#.to_owned());
        let graph: Graph = serde_json::from_str(&format!("[{}]", nodes.join(","))).unwrap();
        let given = || BTreeMap::from([(1, noise(first, 1)), (2, noise(second, 2))]);
        let whole = compute(&graph, given, &unread).unwrap().remove(&6).unwrap();
        assert!(!whole.is_sampled() && whole.array.values.iter().any(|value| *value > 0.0));
        let context = Context::new(&graph, given());
        let sampled = sample::compute(&context, &graph.operations(), &unread).unwrap();
        assert_eq!(sampled.keys().collect::<Vec<_>>(), [&6], "only outputs in memory have a sample");
        let sampled = &sampled[&6];
        let mut indices = sampled.sample.clone().unwrap();
        let selected: Vec<f64> = indices.iter().map(|index| whole.array.get(*index)).collect();
        assert_close(&sampled.array.values, &selected);
        let inputs = given();
        let read = |uid, index| inputs.get(&uid).map(|array: &Array| array.get(index));
        let large = sample::compute(&Context::new(&graph, BTreeMap::new()), &graph.operations(), &read).unwrap();
        assert_eq!(large[&6], *sampled);
        indices.sort_unstable();
        indices.dedup();
        let count: usize = result.iter().product();
        assert!(indices.len() > count / 2 && indices.last() == Some(&(count - 1)), "{operation}: {}", indices.len());
    }
}

#[test]
fn expensive_operations_are_sampled() {
    let matmul = r#"{"kind":"OPERATION_MATMUL","OPERATION_MATMUL_ADESC:15":0,"OPERATION_MATMUL_BDESC:15":1,"OPERATION_MATMUL_CDESC:15":2}"#;
    let large: &[usize] = &[1, 2048, 2048];
    let graph = single(&[large, large, large], matmul);
    let ones = || BTreeMap::from([(0, Array::filled(large, 1.0)), (1, Array::filled(large, 2.0))]);
    let expected = compute(&graph, ones, &unread).unwrap().remove(&2).unwrap();
    assert!(expected.is_sampled() && expected.array.values.iter().all(|value| *value == 4096.0));
    // Elements of large tensors are read on demand.
    let larger: &[usize] = &[1, 1 << 14, 1 << 14];
    let read = |uid, _| [1.0, 2.0].get(usize::try_from(uid).unwrap()).copied();
    let expected = compute(&single(&[larger, larger, larger], matmul), || panic!("all values were read"), &read);
    let expected = expected.unwrap().remove(&2).unwrap();
    assert!(expected.is_sampled() && expected.array.values.iter().all(|value| *value == 32768.0));
    let nodes = serde_json::to_string(&graph).unwrap();
    let reduction = r#"{"kind":"TENSOR","UNIQUE_ID:3":3,"DIMENSIONS:3":[1,1,1],"STRIDES:3":[1,1,1]},{"kind":"REDUCTION","REDUCTION_OPERATOR:18":0},{"kind":"OPERATION_REDUCTION","OPERATION_REDUCTION_XDESC:15":2,"OPERATION_REDUCTION_YDESC:15":4,"OPERATION_REDUCTION_DESC:15":5},{"kind":"OPERATIONGRAPH","OPS:15":[3,6]}]"#;
    let root = nodes.rfind(r#"{"kind":"OPERATIONGRAPH""#).unwrap();
    let graph: Graph = serde_json::from_str(&format!("{}{reduction}", &nodes[..root])).unwrap();
    assert!(compute(&graph, ones, &unread).unwrap_err().contains("it is too large"));
}

#[test]
fn samples_hide_no_failures() {
    let x: &[usize] = &[1 << 28];
    let nodes = format!(
        r#"[{{"kind":"POINTWISE","MODE:14":100}},{{"kind":"TENSOR","UNIQUE_ID:3":1,"DIMENSIONS:3":{x:?},"STRIDES:3":1}},{{"kind":"TENSOR","UNIQUE_ID:3":2,"DIMENSIONS:3":{x:?},"STRIDES:3":1}},{{"kind":"OPERATION_POINTWISE","XDESC:15":1,"YDESC:15":2,"PW_DESCRIPTOR:15":0}},{{"kind":"OPERATIONGRAPH","OPS:15":3}}]"#
    );
    let graph: Graph = serde_json::from_str(&nodes).unwrap();
    let count = std::cell::Cell::new(0);
    let read = |_, _| {
        count.set(count.get() + 1);
        (count.get() < 100).then_some(1.0)
    };
    let refused = compute(&graph, || panic!("all values were read"), &read).unwrap_err();
    assert_eq!(refused, "a value is unknown");
}

/// Trying all pairs of positions would take minutes.
#[test]
fn elements_of_long_convolutions_are_cheap() {
    let (x, w, y): (&[usize], &[usize], &[usize]) = (&[1, 1, (1 << 27) + 4095], &[1, 1, 4096], &[1, 1, 1 << 27]);
    let graph = convolution([x, w, y], &FORWARD.replace("0.5", "0.0"), 0, ["0", "1", "1"]);
    let read = |uid, _| [1.0, 0.5].get(usize::try_from(uid).unwrap()).copied();
    let expected = compute(&graph, || panic!("all values were read"), &read).unwrap().remove(&2).unwrap();
    assert!(expected.is_sampled() && expected.array.values.iter().all(|value| *value == 4096.0));
}

#[test]
fn settings_without_a_reference_are_named() {
    let matmul = r#"{"kind":"OPERATION_MATMUL","OPERATION_MATMUL_ADESC:15":0,"OPERATION_MATMUL_BDESC:15":1,"OPERATION_MATMUL_CDESC:15":2,"OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT:3":<count>}"#;
    let dims: &[usize] = &[1, 1, 1];
    let one = || BTreeMap::from([(0, Array::filled(dims, 1.0)), (1, Array::filled(dims, 1.0))]);
    let refused = |operation: &str| compute(&single(&[dims, dims, dims], operation), one, &unread).err();
    assert_eq!(refused(&matmul.replace("<count>", "1")), None);
    assert!(refused(&matmul.replace("<count>", "2")).unwrap().contains("IRREGULARLY_STRIDED"));
    let reduction = r#"{"kind":"OPERATION_REDUCTION","XDESC:15":0,"YDESC:15":2,"INIT_VALUES:4":1.0}"#;
    assert!(refused(reduction).unwrap().contains("INIT_VALUES"));
    let gradient = r#"{"kind":"OPERATION_NORM_BACKWARD","OPERATION_NORM_BWD_MODE:27":<mode>,"OPERATION_NORM_BWD_XDESC:15":0,"OPERATION_NORM_BWD_DXDESC:15":2}"#;
    assert!(refused(&gradient.replace("<mode>", "3")).unwrap().contains("GROUP_NORM"));
    let forward = norm(3, &[2, 3], &[1, 3], &[2, 1]);
    let given = || [([2, 3], 0), ([1, 3], 1), ([1, 3], 2), ([1, 1], 5)].map(|(dims, uid)| (uid, noise(&dims, 1)));
    assert!(compute(&forward, || given().into_iter().collect(), &unread).unwrap_err().contains("GROUP_NORM"));
    let (four, two) = (Array::filled(&[4], 1.0), Array::filled(&[2], 1.0));
    assert!(statistics::moving_average(&two, &four, 1.0, 0.5).is_err());
}

/// cuDNN may ignore a NaN, or return 0 for a row without keys, so an expected NaN is not compared.
#[test]
fn results_that_depend_on_the_treatment_of_nan_are_nan() {
    let x = array(&[1, 2], &[f64::NAN, 1.0]);
    for operator in [2, 3, 4] {
        let reduction = format!(
            r#"{{"kind":"REDUCTION","REDUCTION_OPERATOR:18":{operator}}},{{"kind":"OPERATION_REDUCTION","OPERATION_REDUCTION_XDESC:15":0,"OPERATION_REDUCTION_YDESC:15":1,"OPERATION_REDUCTION_DESC:15":2}}"#
        );
        assert!(run(&graph(&[&[1, 2], &[1, 1]], &reduction), &[(0, x.clone())], 1)[0].is_nan(), "{operator}");
    }
    let rows = array(&[1, 1, 2, 2], &[f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY, 3.0]);
    let softmax = softmax::Softmax::new(&rows, None).unwrap();
    assert!(softmax.y.values[..2].iter().all(|value| value.is_nan()) && softmax.stats().values[0].is_nan());
    assert_eq!((&softmax.y.values[2..], softmax.stats().values[1]), (&[0.0, 1.0][..], 3.0));
}

/// The rows and columns inside the band were counted by hand.
#[test]
fn bands_follow_bounds_and_lengths() {
    use cudnn_loader::cudnnPointwiseMode_t as Mode;
    let dims: &[usize] = &[2, 1, 3, 4];
    let inputs = [
        (0, Array::filled(dims, 1.0)),
        (1, array(&[1, 1, 1, 1], &[0.0])),
        (2, array(&[1, 1, 1, 1], &[1.0])),
        (3, array(&[2, 1, 1, 1], &[3.0, 2.0])),
        (4, array(&[2, 1, 1, 1], &[4.0, 4.0])),
    ];
    let one: &[usize] = &[1, 1, 1, 1];
    let two: &[usize] = &[2, 1, 1, 1];
    let lengths = r#""SEQ_LEN_QDESC:15":3,"SEQ_LEN_KVDESC:15":4,"#;
    for (mode, attributes, counts) in [
        // The row may precede the column by less than the shift.
        (Mode::CUDNN_POINTWISE_CMP_GE, r#""SHIFT_RIGHT_BOUND_DESC:15":2,"#.to_owned(), [2, 3, 4, 2, 3, 4]),
        // Lengths move the diagonal by 1 in the first sequence, and by 2 in the second one.
        (Mode::CUDNN_POINTWISE_CMP_GE, lengths.to_owned(), [2, 3, 4, 3, 4, 4]),
        // The column may precede the row by less than the bound.
        (Mode::CUDNN_POINTWISE_CMP_GT, r#""LEFT_BOUND_DESC:15":2,"#.to_owned(), [4, 3, 2, 4, 3, 2]),
        (Mode::CUDNN_POINTWISE_CMP_GT, format!(r#"{lengths}"LEFT_BOUND_DESC:15":2,"#), [3, 2, 1, 2, 1, 0]),
    ] {
        let operation = format!(
            r#"{{"kind":"OPERATION_DIAGONAL_BAND_MASK",{attributes}"XDESC:15":0,"BDESC:15":1,"YDESC:15":5,"COMPARISON_MODE:14":{}}}"#,
            mode.0
        );
        let y = run(&single(&[dims, one, one, two, two, dims], &operation), &inputs, 5);
        let found: Vec<f64> = y.chunks(4).map(|row| row.iter().sum()).collect();
        assert_eq!(found, counts.map(f64::from), "{attributes}");
    }
}

#[test]
fn a_sink_takes_a_share_of_the_softmax() {
    let given = [(0, array(&[1, 2, 1, 2], &[0.0, 0.0, 1.0, 2.0])), (1, array(&[1, 2, 1, 1], &[0.0, 4.0]))];
    let rows: &[usize] = &[1, 2, 1, 1];
    let graph = single(
        &[&[1, 2, 1, 2], rows, &[1, 2, 1, 2], rows, rows, rows],
        r#"{"kind":"OPERATION_SOFTMAX","XDESC:15":0,"SINK_DESC:15":1,"YDESC:15":2,"STATS_DESC:15":3,"MAX_DESC:15":4,"SUM_EXP_DESC:15":5}"#,
    );
    let sum = 1_f64.exp() + 2_f64.exp() + 4_f64.exp();
    let third = 1.0 / 3.0;
    assert_close(&run(&graph, &given, 2), &[third, third, 1_f64.exp() / sum, 2_f64.exp() / sum]);
    assert_close(&run(&graph, &given, 3), &[3_f64.ln(), sum.ln()]);
    assert_close(&run(&graph, &given, 4), &[0.0, 4.0]);
    assert_close(&run(&graph, &given, 5), &[3.0, sum / 4_f64.exp()]);
}

#[test]
fn unknown_attributes_are_named() {
    let dims: &[usize] = &[1, 2];
    let refused = |operation: &str| {
        let given = || BTreeMap::from([(0, noise(dims, 1)), (1, noise(dims, 2))]);
        compute(&single(&[dims, dims, &[2, 2]], operation), given, &unread).err()
    };
    let concat = r#"{"kind":"OPERATION_CONCAT","AXIS:3":0,"INPUT_DESCS:15":[0,1],"OUTPUT_DESC:15":2<more>}"#;
    assert_eq!(refused(&concat.replace("<more>", "")), None);
    let found = refused(&concat.replace("<more>", r#","INPLACE_INDEX:3":0"#));
    assert_eq!(found.unwrap(), "CUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX is set");
    // These bindings may not know the attributes of a newer cuDNN.
    assert_eq!(refused(&concat.replace("<more>", r##","#987654:3":1"##)).unwrap(), "attribute 987654 is set");
    let constant = r#"{"kind":"TENSOR","UNIQUE_ID:3":7,"DIMENSIONS:3":1,"STRIDES:3":1,"CONSTANT_VALUE:4":1.0},"#;
    let nodes = serde_json::to_string(&single(&[dims, dims, &[2, 2]], &concat.replace("<more>", ""))).unwrap();
    let root = nodes.rfind(r#"{"kind":"OPERATIONGRAPH""#).unwrap();
    let graph: Graph = serde_json::from_str(&format!("{}{constant}{}", &nodes[..root], &nodes[root..])).unwrap();
    assert!(compute(&graph, BTreeMap::new, &unread).unwrap_err().contains("TENSOR_CONSTANT_VALUE"));
    assert!(!is_known(&graph));
}

/// Applies a function to the product of a row with a matrix and to tensor 3. Tensor 6 selects tensor 3 or 0.
fn jump(mode: cudnn_loader::cudnnPointwiseMode_t, columns: [[f64; 4]; 2], operand: f64) -> [Vec<f64>; 2] {
    use cudnn_loader::cudnnPointwiseMode_t as Mode;
    let row: &[usize] = &[1, 1, 4];
    let one: &[usize] = &[1, 1, 1];
    let mut nodes = Vec::new();
    for (uid, dims) in [&[1, 1, 2], &[1, 2, 4], row, one, row, one, row].into_iter().enumerate() {
        let strides = super::super::tensor::dense_strides(dims);
        nodes.push(format!(
            r#"{{"kind":"TENSOR","UNIQUE_ID:3":{uid},"DATA_TYPE:1":2,"DIMENSIONS:3":{dims:?},"STRIDES:3":{strides:?}}}"#
        ));
    }
    let names = if mode == Mode::CUDNN_POINTWISE_RELU_BWD { ["DYDESC", "DXDESC"] } else { ["BDESC", "YDESC"] };
    nodes.extend([
        format!(r#"{{"kind":"POINTWISE","MODE:14":{}}}"#, mode.0),
        format!(r#"{{"kind":"POINTWISE","MODE:14":{}}}"#, Mode::CUDNN_POINTWISE_BINARY_SELECT.0),
        r#"{"kind":"OPERATION_MATMUL","OPERATION_MATMUL_ADESC:15":0,"OPERATION_MATMUL_BDESC:15":1,"OPERATION_MATMUL_CDESC:15":2}"#.to_owned(),
        format!(
            r#"{{"kind":"OPERATION_POINTWISE","PW_DESCRIPTOR:15":7,"XDESC:15":2,"{}:15":3,"{}:15":4}}"#,
            names[0], names[1]
        ),
        r#"{"kind":"OPERATION_POINTWISE","PW_DESCRIPTOR:15":8,"XDESC:15":3,"BDESC:15":5,"TDESC:15":4,"YDESC:15":6}"#.to_owned(),
        r#"{"kind":"OPERATIONGRAPH","OPS:15":[9,10,11]}"#.to_owned(),
    ]);
    let graph: Graph = serde_json::from_str(&format!("[{}]", nodes.join(","))).unwrap();
    let given = [
        (0, array(&[1, 1, 2], &[1.0, 1.0])),
        (1, array(&[1, 2, 4], &columns.concat())),
        (3, array(one, &[operand])),
        (5, array(one, &[9.0])),
    ];
    [4, 6].map(|output| run(&graph, &given, output))
}

/// A correct result may be on the other side of a jump.
#[test]
fn computed_values_near_a_jump_have_no_reference() {
    use cudnn_loader::cudnnPointwiseMode_t as Mode;
    let near = [[0.5005, 1.25, -0.75, 0.4], [-0.4995, 1.25, -0.75, 0.3]];
    // The exact products are 0, 3, -1 and 1, including those at the jump.
    let exact = [[1.0, 2.0, -1.0, 0.0], [-1.0, 1.0, 0.0, 1.0]];
    for (mode, operand, rounded, whole) in [
        (Mode::CUDNN_POINTWISE_CMP_GT, 0.0, [1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]),
        (Mode::CUDNN_POINTWISE_CMP_LE, 0.0, [0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]),
        (Mode::CUDNN_POINTWISE_CMP_EQ, 0.0, [0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]),
        (Mode::CUDNN_POINTWISE_LOGICAL_OR, 0.0, [1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]),
        (Mode::CUDNN_POINTWISE_FLOOR, 0.0, [2.0, -2.0, 0.0], [0.0, 3.0, -1.0, 1.0]),
        (Mode::CUDNN_POINTWISE_CEIL, 0.0, [3.0, -1.0, 1.0], [0.0, 3.0, -1.0, 1.0]),
        (Mode::CUDNN_POINTWISE_MOD, 2.0, [0.5, -1.5, 0.7], [0.0, 1.0, -1.0, 1.0]),
        (Mode::CUDNN_POINTWISE_RELU_BWD, 5.0, [5.0, 0.0, 5.0], [0.0, 5.0, 0.0, 5.0]),
    ] {
        let [y, selected] = jump(mode, near, operand);
        // Without a jump at zero, this element also has a reference.
        let at_zero = mode == Mode::CUDNN_POINTWISE_MOD;
        assert_eq!(y[0].is_nan(), !at_zero, "{mode:?}: {y:?}");
        assert_close(&y[1..], &rounded);
        assert!(selected[0].is_nan() && selected[1..].iter().all(|value| !value.is_nan()), "{mode:?}: {selected:?}");
        assert_eq!(jump(mode, exact, operand)[0], whole, "{mode:?}");
    }
    assert!(jump(Mode::CUDNN_POINTWISE_MAX, near, 0.0)[0].iter().all(|value| value.is_finite()));
}

/// The rounding of intermediate numbers to integers in cuDNN is unknown.
#[test]
fn fractions_between_operations_are_not_rounded_to_integers() {
    use cudnn_loader::{cudnnDataType_t as DataType, cudnnPointwiseMode_t as Mode};
    let tensor = |uid: usize, ty: DataType, is_virtual: u8| {
        format!(
            r#"{{"kind":"TENSOR","UNIQUE_ID:3":{uid},"DATA_TYPE:1":{},"IS_VIRTUAL:2":{is_virtual},"DIMENSIONS:3":4,"STRIDES:3":1}}"#,
            ty.0
        )
    };
    let identity = |x: usize, y: usize| {
        format!(r#"{{"kind":"OPERATION_POINTWISE","PW_DESCRIPTOR:15":3,"XDESC:15":{x},"YDESC:15":{y}}}"#)
    };
    let nodes = [
        tensor(0, DataType::CUDNN_DATA_FLOAT, 0),
        tensor(1, DataType::CUDNN_DATA_INT32, 1),
        tensor(2, DataType::CUDNN_DATA_FLOAT, 0),
        format!(r#"{{"kind":"POINTWISE","MODE:14":{}}}"#, Mode::CUDNN_POINTWISE_IDENTITY.0),
        identity(0, 1),
        identity(1, 2),
        r#"{"kind":"OPERATIONGRAPH","OPS:15":[4,5]}"#.to_owned(),
    ];
    let graph: Graph = serde_json::from_str(&format!("[{}]", nodes.join(","))).unwrap();
    let y = run(&graph, &[(0, array(&[4], &[0.5, 2.0, -1.25, 3.0]))], 2);
    assert!(y[0].is_nan() && y[2].is_nan() && [y[1], y[3]] == [2.0, 3.0], "{y:?}");
}

#[test]
fn inputs_near_a_jump_have_a_reference() {
    let dims: &[usize] = &[1 << 28];
    let graph = |mode: u32, computed: &str| -> Graph {
        let tensors: String = (1..4)
            .map(|uid| format!(r#"{{"kind":"TENSOR","UNIQUE_ID:3":{uid},"DIMENSIONS:3":{dims:?},"STRIDES:3":1}},"#))
            .collect();
        serde_json::from_str(&format!(
            r#"[{{"kind":"POINTWISE","MODE:14":{mode}}},{tensors}{{"kind":"POINTWISE","MODE:14":100}},{{"kind":"OPERATION_POINTWISE","PW_DESCRIPTOR:15":4,"XDESC:15":1,"YDESC:15":2}},{{"kind":"OPERATION_POINTWISE","PW_DESCRIPTOR:15":0,"XDESC:15":{computed},"YDESC:15":3}},{{"kind":"OPERATIONGRAPH","OPS:15":[5,6]}}]"#
        ))
        .unwrap()
    };
    let floor = cudnn_loader::cudnnPointwiseMode_t::CUDNN_POINTWISE_FLOOR.0;
    let read = |_, _| Some(0.999_999);
    let floors = compute(&graph(floor, "1"), || panic!("all values were read"), &read).unwrap();
    assert!(floors[&3].array.values.iter().all(|value| *value == 0.0));
    // In a sample, the other computed values are unknown.
    let refused = compute(&graph(floor, "2"), || panic!("all values were read"), &read).unwrap_err();
    assert!(refused.contains("FLOOR") && refused.contains("is a jump of computed values"), "{refused}");
}

#[test]
fn statistics_follow_from_the_values() {
    let (x, row): (&[usize], &[usize]) = (&[2, 2], &[2, 1]);
    let gradient = |mode: usize| {
        single(
            &[x, x, &[1, 2], row, row, x],
            &format!(
                r#"{{"kind":"OPERATION_NORM_BACKWARD","OPERATION_NORM_BWD_MODE:27":{mode},"OPERATION_NORM_BWD_XDESC:15":0,"OPERATION_NORM_BWD_DYDESC:15":1,"OPERATION_NORM_BWD_SCALE_DESC:15":2,"OPERATION_NORM_BWD_MEAN_DESC:15":3,"OPERATION_NORM_BWD_INV_VARIANCE_DESC:15":4,"OPERATION_NORM_BWD_DXDESC:15":5}}"#
            ),
        )
    };
    let given = || {
        let tensors = [(0, array(x, &[1.0, 3.0, 4.0, 8.0])), (1, noise(x, 1)), (2, noise(&[1, 2], 2))];
        tensors.into_iter().chain([(3, noise(row, 3)), (4, noise(row, 4))]).collect()
    };
    let inverse = |variance: f64| 1.0 / (variance + 1e-5).sqrt();
    let found: BTreeMap<i64, Array> = derived::inputs(&gradient(0), given).into_iter().collect();
    assert_eq!(found.keys().collect::<Vec<_>>(), [&3, &4]);
    assert_close(&found[&3].values, &[2.0, 6.0]);
    assert_close(&found[&4].values, &[inverse(1.0), inverse(4.0)]);
    let found: BTreeMap<i64, Array> = derived::inputs(&gradient(4), given).into_iter().collect();
    assert_close(&found[&4].values, &[inverse(5.0), inverse(40.0)]);
    // Attention: the output and the statistics of the forward pass.
    let inputs = attention_inputs();
    let [q, k, v, _, out, stat] = ATTENTION_DIMS;
    let backward = single(
        &[q, k, v, &[1, 1, 1, 1], out, stat, out, q, k, v],
        r#"{"kind":"OPERATION_SDPA_BWD","OPERATION_SDPA_BWD_QDESC:15":0,"OPERATION_SDPA_BWD_KDESC:15":1,"OPERATION_SDPA_BWD_VDESC:15":2,"OPERATION_SDPA_BWD_SCALEDESC:15":3,"OPERATION_SDPA_BWD_ODESC:15":4,"OPERATION_SDPA_BWD_STATSDESC:15":5,"OPERATION_SDPA_BWD_DODDESC:15":6,"OPERATION_SDPA_BWD_DQDESC:15":7,"OPERATION_SDPA_BWD_DKDESC:15":8,"OPERATION_SDPA_BWD_DVDESC:15":9}"#,
    );
    let given = || inputs.iter().cloned().chain([(4, noise(out, 4)), (5, noise(stat, 5))]).collect();
    let found: BTreeMap<i64, Array> = derived::inputs(&backward, given).into_iter().collect();
    let (o, stats) = attention_by_hand(&inputs, |_, _| true);
    assert_close(&found[&4].values, &o);
    assert_close(&found[&5].values, &stats);
    let one: &[usize] = &[1];
    let finalize = single(
        &[row, row, one],
        r#"{"kind":"OPERATION_BN_FINALIZE_STATISTICS","OPERATION_BN_FINALIZE_Y_SUM_DESC:15":0,"OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC:15":1,"OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC:15":2}"#,
    );
    let given =
        || BTreeMap::from([(0, array(row, &[4.0, -6.0])), (1, array(row, &[-1.0, 0.0])), (2, array(one, &[2.0]))]);
    assert_close(&derived::inputs(&finalize, given)[0].1.values, &[10.0, 18.0]);
    let matmul = r#"{"kind":"OPERATION_MATMUL","OPERATION_MATMUL_ADESC:15":0,"OPERATION_MATMUL_BDESC:15":1,"OPERATION_MATMUL_CDESC:15":2}"#;
    assert_eq!(derived::inputs(&single(&[x, x, x], matmul), || panic!("the values are read")), []);
}
