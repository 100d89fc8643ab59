//! Decides which attributes the reference understands.
//!
//! A graph with any other attribute has no reference, because ignoring it could turn a correct result into an error.

use cudnn_graph::operation::attribute_prefix;
use cudnn_graph::{Graph, Node, names};
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use super::context::label;

/// Kinds of descriptors with only supported attributes, except for [`OTHERS`]. Some attributes only affect rounding or
/// the choice of an engine. Operations check the values, and tensors with special layouts are refused.
const KINDS: &[Kind] = &[
    Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
    Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
    Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
    Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR,
    Kind::CUDNN_BACKEND_RESAMPLE_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_TRANSPOSE_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_SLICE_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR,
];

/// The unsupported attributes of these kinds.
const OTHERS: &[Name] = &[
    Name::CUDNN_ATTR_TENSOR_CONSTANT_VALUE,
    Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT,
    Name::CUDNN_ATTR_OPERATIONGRAPH_IS_SAME_TOPOLOGY,
    Name::CUDNN_ATTR_OPERATIONGRAPH_MODE,
    Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
    Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
    Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
    Name::CUDNN_ATTR_OPERATION_REDUCTION_GROUP_OFFSET_DESC,
    Name::CUDNN_ATTR_OPERATION_REDUCTION_INIT_VALUES,
    Name::CUDNN_ATTR_OPERATION_REDUCTION_SUBGRAPH,
    Name::CUDNN_ATTR_OPERATION_REDUCTION_SUBGRAPH_ACCUMULATOR_UIDS,
    Name::CUDNN_ATTR_OPERATION_REDUCTION_SUBGRAPH_COMPUTE_TYPES,
    Name::CUDNN_ATTR_OPERATION_REDUCTION_SUBGRAPH_CURRENT_UIDS,
    Name::CUDNN_ATTR_OPERATION_REDUCTION_SUBGRAPH_OUTPUT_UIDS,
    Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC,
    // Engines would not copy the input in place, but it is in a separate buffer here.
    Name::CUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX,
    Name::CUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS,
    Name::CUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS,
    Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_CU_SEQ_LEN_QDESC,
    Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_CU_SEQ_LEN_KVDESC,
];

/// The supported attributes of attention, which has many others.
const ATTENTION: &[Name] = &[
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SOFTMAX_DESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_FWD_UNFUSE_FMA,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC,
    // The size of ragged tensors, which have no reference.
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_MAX_TOTAL_SEQ_LEN_Q,
    Name::CUDNN_ATTR_OPERATION_SDPA_BWD_MAX_TOTAL_SEQ_LEN_KV,
];

pub(super) fn check(graph: &Graph) -> Result<(), String> {
    match graph.nodes().iter().find_map(unknown) {
        Some(name) => Err(format!("{} is set", label(name))),
        None => Ok(()),
    }
}

fn unknown(node: &Node) -> Option<Name> {
    // The number 1 is the default.
    let irregular = Name::CUDNN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT;
    let is_irregular = node.value(irregular).is_some() && node.integer(irregular) != Some(1);
    let prefix = attribute_prefix(node.kind).filter(|_| KINDS.contains(&node.kind)).map(|prefix| prefix + "_");
    let is_of_kind = |name| prefix.as_ref().is_some_and(|prefix| names::attribute(name).starts_with(prefix.as_str()));
    let is_known = |name| is_of_kind(name) && !OTHERS.contains(&name) || ATTENTION.contains(&name);
    let is_unknown = |name| !is_known(name) || is_irregular && name == irregular;
    node.attributes.iter().map(|attribute| attribute.name).find(|name| is_unknown(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attribute of a new release must be added to the reference or to [`OTHERS`].
    #[test]
    fn all_attributes_were_reviewed() {
        let of_kind = |kind: &Kind| {
            let prefix = attribute_prefix(*kind).unwrap() + "_";
            Name::ENUMERATORS.iter().filter(|(name, _)| names::attribute(*name).starts_with(&prefix)).count()
        };
        assert_eq!(KINDS.iter().map(of_kind).sum::<usize>(), 183);
    }
}
