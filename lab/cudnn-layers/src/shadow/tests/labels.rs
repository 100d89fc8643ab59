//! Tests the text of labels.

use cudnn_sys::types::{
    cudnnBackendNormFwdPhase_t as Phase, cudnnBackendNormMode_t as NormMode, cudnnDataType_t as DataType,
    cudnnPointwiseMode_t as Pointwise, cudnnReduceTensorOp_t as Reduce, cudnnResampleMode_t as Resample,
};

use super::*;

const HALF: u32 = DataType::CUDNN_DATA_HALF.0;
const FLOAT: u32 = DataType::CUDNN_DATA_FLOAT.0;
const DESCRIPTOR: Type = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;

fn with(kind: Kind, attributes: &[(Name, Type, i64)]) -> Raw {
    let descriptor = create(kind);
    for (name, ty, value) in attributes {
        match element_size(*ty) {
            Some(4) => set(descriptor, *name, *ty, &[*value as u32]),
            Some(1) => set(descriptor, *name, *ty, &[*value as u8]),
            _ => set(descriptor, *name, *ty, &[*value]),
        }
    }
    descriptor
}

struct Shape {
    uid: i64,
    extents: Vec<i64>,
    data_type: u32,
    is_virtual: bool,
    is_by_value: bool,
}

fn real(uid: i64, extents: &[i64]) -> Shape {
    Shape { uid, extents: extents.to_vec(), data_type: HALF, is_virtual: false, is_by_value: false }
}

fn inner(uid: i64, extents: &[i64]) -> Shape {
    Shape { is_virtual: true, data_type: FLOAT, ..real(uid, extents) }
}

impl Shape {
    fn make(&self) -> Raw {
        let tensor = with(
            Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR,
            &[
                (Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, self.uid),
                (Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, i64::from(self.data_type)),
                (Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, Type::CUDNN_TYPE_BOOLEAN, i64::from(self.is_virtual)),
                (Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE, Type::CUDNN_TYPE_BOOLEAN, i64::from(self.is_by_value)),
            ],
        );
        set_numbers(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &self.extents);
        tensor
    }
}

fn operation(kind: Kind, attributes: &[(Name, Type, i64)], children: &[(Name, Raw)]) -> Raw {
    let operation = with(kind, attributes);
    for (name, child) in children {
        set_children(operation, *name, &[*child]);
        destroy(*child);
    }
    operation
}

fn pointwise(mode: Pointwise, x: &Shape, b: Option<&Shape>, y: &Shape) -> Raw {
    let function = with(
        Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
        &[
            (Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, i64::from(mode.0)),
            (Name::CUDNN_ATTR_POINTWISE_MATH_PREC, Type::CUDNN_TYPE_DATA_TYPE, i64::from(FLOAT)),
        ],
    );
    let mut children = vec![
        (Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function),
        (Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.make()),
        (Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.make()),
    ];
    children.extend(b.map(|b| (Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b.make())));
    operation(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, &[], &children)
}

fn product(a: &Shape, b: &Shape, c: &Shape) -> Raw {
    let function = with(
        Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR,
        &[(Name::CUDNN_ATTR_MATMUL_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, i64::from(FLOAT))],
    );
    let children = [
        (Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.make()),
        (Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.make()),
        (Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.make()),
        (Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, function),
    ];
    operation(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, &[], &children)
}

fn reduce(operator: Reduce, x: &Shape, y: &Shape) -> Raw {
    let function = with(
        Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
        &[(Name::CUDNN_ATTR_REDUCTION_OPERATOR, Type::CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, i64::from(operator.0))],
    );
    let children = [
        (Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.make()),
        (Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.make()),
        (Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, function),
    ];
    operation(Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, &[], &children)
}

fn graph_of(operations: Vec<Raw>) -> String {
    let graph = create(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, DESCRIPTOR, &operations);
    operations.into_iter().for_each(destroy);
    let label = text(graph);
    destroy(graph);
    label
}

#[test]
fn an_attention_of_single_operations() {
    let (q, k, v, o) = (
        real(1, &[8, 16, 1024, 64]),
        real(2, &[8, 16, 64, 1024]),
        real(3, &[8, 16, 1024, 64]),
        real(4, &[8, 16, 1024, 64]),
    );
    let square = |uid| inner(uid, &[8, 16, 1024, 1024]);
    let row = |uid| inner(uid, &[8, 16, 1024, 1]);
    let scale = Shape { is_by_value: true, ..real(20, &[1, 1, 1, 1]) };
    let stats = Shape { data_type: FLOAT, ..real(21, &[8, 16, 1024, 1]) };
    let label = graph_of(vec![
        product(&q, &k, &square(10)),
        pointwise(Pointwise::CUDNN_POINTWISE_MUL, &square(10), Some(&scale), &square(11)),
        reduce(Reduce::CUDNN_REDUCE_TENSOR_MAX, &square(11), &row(12)),
        pointwise(Pointwise::CUDNN_POINTWISE_SUB, &square(11), Some(&row(12)), &square(13)),
        pointwise(Pointwise::CUDNN_POINTWISE_EXP, &square(13), None, &square(14)),
        reduce(Reduce::CUDNN_REDUCE_TENSOR_ADD, &square(14), &row(15)),
        pointwise(Pointwise::CUDNN_POINTWISE_LOG, &row(15), None, &row(16)),
        pointwise(Pointwise::CUDNN_POINTWISE_ADD, &row(12), Some(&row(16)), &stats),
        pointwise(Pointwise::CUDNN_POINTWISE_DIV, &square(14), Some(&row(15)), &square(17)),
        product(&square(17), &v, &o),
    ]);
    assert_eq!(
        label,
        "matmul + scale + softmax + matmul a[8,16,1024,64] b[8,16,64,1024] b[8,16,1024,64] half -> \
         y[8,16,1024,1] float c[8,16,1024,64] half / float"
    );
}

#[test]
fn a_normalization_writes_statistics_only_in_training() {
    let norm = |phase: Phase| {
        let mode = i64::from(NormMode::CUDNN_LAYER_NORM.0);
        let x = real(1, &[64, 1024, 1, 1]);
        let children = [
            (Name::CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x.make()),
            (Name::CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, real(2, &[64, 1, 1, 1]).make()),
            (Name::CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, real(3, &[64, 1024, 1, 1]).make()),
        ];
        let attributes = [
            (Name::CUDNN_ATTR_OPERATION_NORM_FWD_MODE, Type::CUDNN_TYPE_NORM_MODE, mode),
            (Name::CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, Type::CUDNN_TYPE_NORM_FWD_PHASE, i64::from(phase.0)),
        ];
        graph_of(vec![operation(Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, &attributes, &children)])
    };
    let training = norm(Phase::CUDNN_NORM_FWD_TRAINING);
    assert_eq!(training, "layer_norm x[64,1024,1,1] half -> mean[64,1,1,1] y[64,1024,1,1] half");
    let inference = norm(Phase::CUDNN_NORM_FWD_INFERENCE);
    assert_eq!(inference, "layer_norm x[64,1024,1,1] mean[64,1,1,1] half -> y[64,1024,1,1] half");
}

#[test]
fn backward_pooling_reads_the_forward_output() {
    let mode = i64::from(Resample::CUDNN_RESAMPLE_MAXPOOL.0);
    let function = with(
        Kind::CUDNN_BACKEND_RESAMPLE_DESCRIPTOR,
        &[(Name::CUDNN_ATTR_RESAMPLE_MODE, Type::CUDNN_TYPE_RESAMPLE_MODE, mode)],
    );
    let children = [
        (Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, function),
        (Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, real(1, &[8, 64, 28, 28]).make()),
        (Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC, real(2, &[8, 64, 28, 28]).make()),
        (Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, real(3, &[8, 64, 56, 56]).make()),
    ];
    let label = graph_of(vec![operation(Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, &[], &children)]);
    assert_eq!(label, "maxpool_bwd dy[8,64,28,28] y[8,64,28,28] half -> dx[8,64,56,56] half");
}

#[test]
fn values_newer_than_the_bindings_are_shown_as_numbers() {
    let x = Shape { data_type: 4711, ..real(1, &[2, 3]) };
    let label = graph_of(vec![pointwise(Pointwise(9999), &x, None, &real(2, &[2, 3]))]);
    assert_eq!(label, "pointwise 9999 x[2,3] type 4711 -> y[2,3] half / float");
    let engine = create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    assert_eq!(text(engine), "unknown graph");
    let choice = with(
        Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
        &[
            (Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE, 4711),
            (Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, Type::CUDNN_TYPE_INT64, -1),
        ],
    );
    assert_eq!(text(choice), "KNOB_4711=-1");
    destroy(engine);
    destroy(choice);
}

#[test]
fn a_label_of_a_large_graph_stays_a_line() {
    let long = [7; 8];
    let operations = (0..1000).map(|index| {
        let (x, b, y) = (real(index, &long), real(5000 + index, &[1, 7]), real(10_000 + index, &long));
        pointwise(Pointwise::CUDNN_POINTWISE_MAX, &x, Some(&b), &y)
    });
    let label = graph_of(operations.collect());
    assert!(label.starts_with("max + max") && label.len() < 1000, "{label}");
    assert!(label.contains("+ 988 more x[7,7,7,7,7,7,7,7] b[1,7]") && label.contains("and 1992 more ->"), "{label}");
    assert_eq!(graph_of(Vec::new()), "empty graph");
}

#[test]
fn a_plan_from_json_is_named_so() {
    let plan = create(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, b"{}");
    workspace_read(plan, 5 << 30);
    assert_eq!(text(plan), "plan restored from JSON; workspace 5.0 GiB");
    destroy(plan);
}
