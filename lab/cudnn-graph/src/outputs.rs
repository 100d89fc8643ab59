//! Finds the tensors that operations read and write.

use cudnn_sys::types::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use crate::graph::{Graph, Node};
use crate::value::Value;

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
    // Buffers for the communication between GPUs.
    Name::CUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS,
    Name::CUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS,
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
    Name::CUDNN_ATTR_OPERATION_SIGNAL_YDESC,
    Name::CUDNN_ATTR_OPERATION_SOFTMAX_YDESC,
    Name::CUDNN_ATTR_OPERATION_SOFTMAX_STATS_DESC,
    Name::CUDNN_ATTR_OPERATION_SOFTMAX_MAX_DESC,
    Name::CUDNN_ATTR_OPERATION_SOFTMAX_SUM_EXP_DESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_AMAX_ODESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_AMAX_SDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_RNG_DUMP_DESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DBIAS_DESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DSINK_DESC,
    Name::CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_YDESC,
    Name::CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC,
    Name::CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC,
    Name::CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC,
    Name::CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_DWEIGHT_DESC,
    Name::CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC,
    Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC,
    Name::CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_YDESC,
    Name::CUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_YDESC,
    Name::CUDNN_ATTR_OPERATION_ROPE_FWD_YDESC,
    Name::CUDNN_ATTR_OPERATION_ROPE_BWD_DXDESC,
];

pub(crate) fn is_output(operation: &Node, name: Name) -> bool {
    let is = |name, value| operation.integer(name) == Some(value);
    match name {
        Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC => {
            operation.value(Name::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC).is_none()
        }
        Name::CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC | Name::CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC => {
            // CUDNN_NORM_FWD_TRAINING
            is(Name::CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, 1)
        }
        // CUDNN_SIGNAL_SET
        Name::CUDNN_ATTR_OPERATION_SIGNAL_FLAGDESC => is(Name::CUDNN_ATTR_OPERATION_SIGNAL_MODE, 0),
        name => OUTPUTS.contains(&name),
    }
}

impl Graph {
    /// Returns whether an operation adds to the previous values of its output because `beta` is not zero.
    pub fn reads_outputs(&self) -> bool {
        const FACTORS: [Name; 5] = [
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_BETA,
            Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_BETA,
        ];
        let is_nonzero =
            |value: &Value| matches!(value, Value::Floats(floats) if floats.iter().any(|float| *float != 0.0));
        let operations = self.operations();
        operations.iter().any(|operation| FACTORS.iter().filter_map(|name| operation.value(*name)).any(is_nonzero))
    }

    /// Returns the unique ids of the tensors that an operation writes, except inside nested graphs.
    pub fn outputs(&self, operation: &Node) -> Vec<i64> {
        self.uids(operation, true)
    }

    /// Returns the unique ids of the tensors that an operation reads, except inside nested graphs.
    pub fn inputs(&self, operation: &Node) -> Vec<i64> {
        self.uids(operation, false)
    }

    fn uids(&self, operation: &Node, written: bool) -> Vec<i64> {
        let names = operation.attributes.iter().map(|attribute| attribute.name);
        let children = names.filter(|name| is_output(operation, *name) == written);
        let tensors = children
            .flat_map(|name| self.children(operation, name))
            .filter(|child| child.kind == Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        tensors.filter_map(Node::uid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{ATTRIBUTES, KINDS};

    fn graph(operation: &str) -> Graph {
        let tensors: Vec<String> = (0..4).map(|uid| format!(r#"{{"kind":"TENSOR","UNIQUE_ID:3":{uid}}}"#)).collect();
        let json = format!(r#"[{},{operation},{{"kind":"OPERATIONGRAPH","OPS:15":4}}]"#, tensors.join(","));
        serde_json::from_str(&json).unwrap()
    }

    #[track_caller]
    fn check(operation: &str, inputs: &[i64], outputs: &[i64]) {
        let graph = graph(operation);
        let operations = graph.operations();
        assert_eq!((graph.inputs(operations[0]), graph.outputs(operations[0])), (inputs.to_vec(), outputs.to_vec()));
    }

    #[test]
    fn tensors_are_read_or_written() {
        check(r#"{"kind":"OPERATION_POINTWISE","XDESC:15":0,"YDESC:15":1}"#, &[0], &[1]);
        check(r#"{"kind":"OPERATION_POINTWISE","YDESC:15":0,"DXDESC:15":1,"DYDESC:15":2}"#, &[0, 2], &[1]);
        check(r#"{"kind":"OPERATION_CONCAT","INPUT_DESCS:15":[0,1,2],"OUTPUT_DESC:15":3}"#, &[0, 1, 2], &[3]);
        for (phase, inputs, outputs) in [(0, &[0, 1][..], &[2][..]), (1, &[0], &[1, 2])] {
            let operation = format!(
                r#"{{"kind":"OPERATION_NORM_FORWARD","OPERATION_NORM_FWD_PHASE:33":{phase},"OPERATION_NORM_FWD_XDESC:15":0,
                "OPERATION_NORM_FWD_MEAN_DESC:15":1,"OPERATION_NORM_FWD_YDESC:15":2}}"#
            );
            check(&operation, inputs, outputs);
        }
        for (mode, inputs, outputs) in [(0, &[0][..], &[1, 2][..]), (1, &[0, 1], &[2])] {
            let operation =
                format!(r#"{{"kind":"OPERATION_SIGNAL","MODE:25":{mode},"XDESC:15":0,"FLAGDESC:15":1,"YDESC:15":2}}"#);
            check(&operation, inputs, outputs);
        }
    }

    #[test]
    fn every_operation_writes_a_tensor() {
        let kinds = Kind::ENUMERATORS.iter().map(|(kind, _)| KINDS.name(i64::from(kind.0) as u32));
        let mut operations = 0;
        for kind in kinds.filter(|kind| kind.starts_with("OPERATION_")) {
            operations += 1;
            // Attributes abbreviate the names of some kinds.
            let prefix = kind
                .replace("BACKWARD", "BWD")
                .replace("NORM_FORWARD", "NORM_FWD")
                .replace("GEN_STATS", "GENSTATS")
                .replace("BN_FINALIZE_STATISTICS", "BN_FINALIZE");
            let name = |name: &Name| ATTRIBUTES.name(i64::from(name.0) as u32);
            let rest = |name: String| name.strip_prefix(&format!("{prefix}_")).map(str::to_owned);
            let is_of_kind = |rest: String| !rest.starts_with("BWD_");
            let written =
                OUTPUTS.iter().filter_map(|output| rest(name(output)).filter(|rest| is_of_kind(rest.clone())));
            assert!(written.count() > 0, "{kind}");
        }
        assert!(operations >= 30, "{operations}");
    }
}
