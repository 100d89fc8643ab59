//! Computes the outputs of a graph on the CPU in double precision.
//!
//! Values between operations are not rounded, whatever the types of their tensors are.
//!
//! | module | purpose |
//! | --- | --- |
//! | `context` | the values of the tensors |
//! | `convolution`, `matmul`, `normalization`, `pointwise`, `reduction` | the operations |

mod context;
mod convolution;
mod matmul;
mod normalization;
mod pointwise;
mod reduction;

use std::collections::BTreeMap;

use cudnn_capture_file::{Graph, Node};
use cudnn_loader::cudnnBackendDescriptorType_t as Kind;

use super::tensor::Array;
use context::Context;

/// Maximum number of multiplications.
pub(super) const MAX_PRODUCTS: u64 = 1 << 31;
/// Maximum number of elements of all tensors.
const MAX_ELEMENTS: usize = 1 << 27;

/// Returns the values of all tensors by uid. `given` has the values of the tensors before the execution.
///
/// # Errors
/// The reason why there is no reference.
pub(super) fn compute(graph: &Graph, given: BTreeMap<i64, Array>) -> Result<BTreeMap<i64, Array>, String> {
    let mut context = Context::new(graph, given)?;
    let mut pending = graph.operations();
    for operation in &pending {
        known(operation.kind)?;
    }
    while !pending.is_empty() {
        let before = pending.len();
        let mut waiting = Vec::new();
        for operation in pending {
            let is_ready = graph.inputs(operation).iter().all(|uid| context.is_known(*uid));
            if is_ready { evaluate(&mut context, operation)? } else { waiting.push(operation) }
        }
        if waiting.len() == before {
            return Err("an operation reads a tensor that no operation writes".to_owned());
        }
        pending = waiting;
    }
    Ok(context.into_values())
}

/// Computes an operation's outputs.
type Evaluate = fn(&Context<'_>, &Node) -> context::Results;

/// Returns the function that computes an operation.
fn function(kind: Kind) -> Option<Evaluate> {
    Some(match kind {
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
        | Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
        | Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => convolution::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR => matmul::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => pointwise::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR => reduction::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR => normalization::evaluate,
        _ => return None,
    })
}

/// Returns the function that computes an operation, or the name of the operation.
fn known(kind: Kind) -> Result<Evaluate, String> {
    function(kind).ok_or_else(|| match kind.name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => "an unknown operation".to_owned(),
    })
}

/// Returns whether all operations of a graph are known here.
pub(super) fn is_known(graph: &Graph) -> bool {
    graph.operations().iter().all(|operation| function(operation.kind).is_some())
}

fn evaluate(context: &mut Context<'_>, operation: &Node) -> Result<(), String> {
    let results = known(operation.kind)?(context, operation)?;
    if results.len() != context.graph.outputs(operation).len() {
        return Err("an output of an operation is not computed".to_owned());
    }
    for (uid, array) in results {
        context.insert(uid, array);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a graph with these tensors, parameters and operation. The types of attributes are added.
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

    fn run(graph: &Graph, given: &[(i64, Array)], output: i64) -> Vec<f64> {
        compute(graph, given.iter().cloned().collect()).unwrap().remove(&output).unwrap().values
    }

    fn pseudo_random(dims: &[usize], seed: u64) -> Array {
        let count = dims.iter().product::<usize>() as u64;
        let data = super::super::request::DataSet::Integers;
        array(dims, &(0..count).map(|index| super::super::data::value(data, seed, index)).collect::<Vec<_>>())
    }

    const CONVOLUTION: &str = r#"{"kind":"CONVOLUTION","CONVOLUTION_CONV_MODE:7":<mode>,"CONVOLUTION_PRE_PADDINGS:3":<pads>,"CONVOLUTION_FILTER_STRIDES:3":<strides>,"CONVOLUTION_DILATIONS:3":<dilations>}"#;

    fn convolution(dims: [&[usize]; 3], operation: &str, mode: u8, [pads, strides, dilations]: [&str; 3]) -> Graph {
        let parameters = CONVOLUTION.replace("<mode>", &mode.to_string());
        let parameters =
            parameters.replace("<pads>", pads).replace("<strides>", strides).replace("<dilations>", dilations);
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

    /// The gradients are the adjoint maps: all three sum the same products.
    #[test]
    fn gradients_of_convolutions_are_adjoint() {
        let cases: [([&[usize]; 3], [&str; 3]); 3] = [
            ([&[2, 4, 7, 6], &[6, 2, 3, 2], &[2, 6, 4, 4]], ["[1,2]", "[2,3]", "[1,2]"]),
            ([&[1, 3, 4, 5, 6], &[2, 3, 2, 3, 1], &[1, 2, 3, 5, 3]], ["[0,1,0]", "[1,1,2]", "[1,1,1]"]),
            ([&[2, 3, 5], &[3, 1, 2], &[2, 3, 4]], ["0", "1", "1"]),
        ];
        for (dims, parameters) in cases {
            for mode in [0, 1] {
                let [x, w, dy] =
                    [(dims[0], 1), (dims[1], 2), (dims[2], 3)].map(|(dims, seed)| pseudo_random(dims, seed));
                let none = Array::filled(dims[2], 0.0);
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                let y =
                    run(&convolution(dims, FORWARD, mode, parameters), &[(0, x.clone()), (1, w.clone()), (2, none)], 2);
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
    fn rows_are_normalized() {
        let norm = |mode: u8, phase: u8| {
            format!(
                r#"{{"kind":"TENSOR","TENSOR_UNIQUE_ID:3":9,"TENSOR_DIMENSIONS:3":1,"TENSOR_STRIDES:3":1}},{{"kind":"OPERATION_NORM_FORWARD","OPERATION_NORM_FWD_MODE:27":{mode},"OPERATION_NORM_FWD_PHASE:28":{phase},"OPERATION_NORM_FWD_XDESC:15":0,"OPERATION_NORM_FWD_SCALE_DESC:15":1,"OPERATION_NORM_FWD_BIAS_DESC:15":2,"OPERATION_NORM_FWD_EPSILON_DESC:15":5,"OPERATION_NORM_FWD_MEAN_DESC:15":3,"OPERATION_NORM_FWD_INV_VARIANCE_DESC:15":4,"OPERATION_NORM_FWD_YDESC:15":6}}"#
            )
        };
        // The tensors 3 and 4 are the statistics, 5 is epsilon, and 6 is the output.
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
        assert!(compute(&unknown, BTreeMap::new()).unwrap_err().contains("RNG"));
        let large = graph(
            &[&[1, 4096, 4096], &[1, 4096, 4096], &[1, 4096, 4096]],
            r#"{"kind":"MATMUL"},{"kind":"OPERATION_MATMUL","OPERATION_MATMUL_ADESC:15":0,"OPERATION_MATMUL_BDESC:15":1,"OPERATION_MATMUL_CDESC:15":2}"#,
        );
        let zeros = Array::filled(&[1, 4096, 4096], 0.0);
        let given = BTreeMap::from([(0, zeros.clone()), (1, zeros)]);
        assert!(compute(&large, given).unwrap_err().contains("multiplications"));
    }
}
