//! Finds the tensors that operations read and write.

use cudnn_capture_file::{Graph, Node, Value};
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

/// The attributes for tensors that an operation writes. `NORM_FWD` also writes statistics in the training phase.
const OUTPUTS: &[Name] = &[
    Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
    Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC,
    Name::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC,
    Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
    Name::CUDNN_ATTR_OPERATION_NORM_FWD_YDESC,
    Name::CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
    Name::CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
    Name::CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC,
    Name::CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
    Name::CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC,
    Name::CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC,
    Name::CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC,
    Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC,
    Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC,
    Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC,
    Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC,
    Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC,
    Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC,
    Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC,
    Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC,
    Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC,
    Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC,
    Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS,
    Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC,
    Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC,
    Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC,
    Name::CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
    Name::CUDNN_ATTR_OPERATION_TRANSPOSE_YDESC,
    Name::CUDNN_ATTR_OPERATION_SLICE_YDESC,
    Name::CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC,
    Name::CUDNN_ATTR_OPERATION_RNG_YDESC,
    Name::CUDNN_ATTR_OPERATION_SOFTMAX_YDESC,
    Name::CUDNN_ATTR_OPERATION_SOFTMAX_STATS_DESC,
    Name::CUDNN_ATTR_OPERATION_SOFTMAX_MAX_DESC,
    Name::CUDNN_ATTR_OPERATION_SOFTMAX_SUM_EXP_DESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_AMAX_ODESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_AMAX_SDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DBIAS_DESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DSINK_DESC,
    Name::CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_YDESC,
    Name::CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC,
    Name::CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC,
    Name::CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC,
    Name::CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC,
    Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC,
    Name::CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_YDESC,
    Name::CUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_YDESC,
    Name::CUDNN_ATTR_OPERATION_ROPE_FWD_YDESC,
    Name::CUDNN_ATTR_OPERATION_ROPE_BWD_DXDESC,
];

/// Whether an operation writes the tensor of this attribute.
fn is_output(operation: &Node, name: Name) -> bool {
    let has_dx = || operation.value(Name::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC).is_some();
    match name {
        Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC => !has_dx(),
        Name::CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC | Name::CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC => {
            // CUDNN_NORM_FWD_TRAINING
            operation.integer(Name::CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) == Some(1)
        }
        name => OUTPUTS.contains(&name),
    }
}

/// Returns the uids of the tensors that an operation writes.
pub(super) fn outputs(graph: &Graph, operation: &Node) -> Vec<i64> {
    uids(graph, operation, true)
}

/// Returns the uids of the tensors that an operation reads.
pub(super) fn inputs(graph: &Graph, operation: &Node) -> Vec<i64> {
    uids(graph, operation, false)
}

fn uids(graph: &Graph, operation: &Node, written: bool) -> Vec<i64> {
    let attributes = operation.attributes.iter().filter(|attribute| {
        matches!(attribute.value, Value::Nodes(_)) && is_output(operation, attribute.name) == written
    });
    let children = attributes.flat_map(|attribute| graph.children(operation, attribute.name));
    let tensors = children.filter(|child| child.kind == Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    tensors.filter_map(|tensor| tensor.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID)).collect()
}
