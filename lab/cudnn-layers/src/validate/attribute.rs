//! Checks the attributes that the program sets.

use cudnn_graph::operation::{attribute_prefix, is_operation};
use cudnn_graph::{declared, names};

use super::message::State;
use super::rules;
use super::texts::{self, attribute, kind_name};
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name, Raw, Type};

enum Expected {
    Kind(Kind),
    Operation,
}

impl Expected {
    fn includes(&self, content: &Content) -> bool {
        match self {
            // The kind is newer than these bindings.
            _ if content.kind.name().is_none() => true,
            Expected::Kind(kind) => content.kind == *kind,
            Expected::Operation => is_operation(content.kind),
        }
    }
}

fn expected(name: Name) -> Option<Expected> {
    Some(Expected::Kind(match name {
        Name::CUDNN_ATTR_OPERATIONGRAPH_OPS => return Some(Expected::Operation),
        Name::CUDNN_ATTR_OPERATION_MATMUL_DESC => Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR,
        Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR => Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
        Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC => Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
        Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC
        | Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
        | Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC => Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
        Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH | Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH => {
            Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR
        }
        Name::CUDNN_ATTR_ENGINECFG_ENGINE => Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR,
        Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES => Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
        Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG => Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
        Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC => Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR,
        name if is_operand(name) => Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR,
        _ => return None,
    }))
}

/// Returns whether an attribute without a special meaning is a tensor of an operation.
fn is_operand(name: Name) -> bool {
    const OPERATIONS: [&str; 5] = ["CONVOLUTION", "MATMUL", "POINTWISE", "REDUCTION", "RESHAPE"];
    let text = names::attribute(name);
    let operation = text.strip_prefix("OPERATION_").and_then(|text| text.split('_').next());
    operation.is_some_and(|operation| OPERATIONS.contains(&operation))
        && declared::most(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR) > 0
}

pub(super) fn check_child(state: &State, parent: Kind, name: Name, child: &Content) {
    let Some(expected) = expected(name).filter(|expected| !expected.includes(child)) else { return };
    let expected = match expected {
        Expected::Kind(kind) => kind_name(kind),
        Expected::Operation => "an operation".to_owned(),
    };
    let (parent, name, child) = (kind_name(parent), attribute(name), texts::descriptor(child));
    state.report(&rules::WRONG_KIND, &format!("{parent}: {name} is {child}, expected {expected}"));
}

pub(super) fn accepted(state: &State, descriptor: Raw, name: Name) {
    if expected(name).is_none() {
        return;
    }
    let Some(parent) = shadow::content(descriptor) else { return };
    for child in parent.children(name).iter().flatten() {
        check_child(state, parent.kind, name, child);
    }
}

pub(super) fn refused(state: &State, descriptor: Raw, name: Name) {
    let Some(content) = shadow::content(descriptor) else { return };
    let (of, name) = (texts::descriptor(&content), (name, attribute(name)));
    if let Some(owner) = owner(name.0).filter(|owner| *owner != content.kind) {
        let owner = kind_name(owner);
        state.report(&rules::WRONG_ATTRIBUTE, &format!("{of}: {} is an attribute of {owner}", name.1));
    } else if content.is_finalized {
        state.report(&rules::SET_AFTER_FINALIZE, &format!("{of}: {} is set, but it is finalized", name.1));
    }
}

fn owner(name: Name) -> Option<Kind> {
    let name = name.name()?.to_str().ok()?.strip_prefix("CUDNN_ATTR_")?;
    let matching = |number| {
        let kind = Kind(number);
        let prefix = attribute_prefix(kind)?;
        name.strip_prefix(prefix.as_str())?.starts_with('_').then_some((prefix.len(), kind))
    };
    // The loop covers more kinds than cuDNN has.
    (0..128).filter_map(matching).max_by_key(|(len, _)| *len).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// If newer bindings add attributes, this test fails until somebody checks that they are tensors.
    #[test]
    fn all_attributes_that_must_be_tensors_are_known() {
        let known = "\
            OPERATION_CONVOLUTION_BWD_DATA_DX OPERATION_CONVOLUTION_BWD_DATA_DY OPERATION_CONVOLUTION_BWD_DATA_W \
            OPERATION_CONVOLUTION_BWD_FILTER_DW OPERATION_CONVOLUTION_BWD_FILTER_DY \
            OPERATION_CONVOLUTION_BWD_FILTER_X OPERATION_CONVOLUTION_FORWARD_W OPERATION_CONVOLUTION_FORWARD_X \
            OPERATION_CONVOLUTION_FORWARD_Y OPERATION_MATMUL_ADESC OPERATION_MATMUL_BDESC OPERATION_MATMUL_CDESC \
            OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC \
            OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC OPERATION_POINTWISE_BDESC OPERATION_POINTWISE_DXDESC \
            OPERATION_POINTWISE_DYDESC OPERATION_POINTWISE_TDESC OPERATION_POINTWISE_XDESC OPERATION_POINTWISE_YDESC \
            OPERATION_REDUCTION_GROUP_OFFSET_DESC OPERATION_REDUCTION_XDESC OPERATION_REDUCTION_YDESC \
            OPERATION_RESHAPE_XDESC OPERATION_RESHAPE_YDESC TENSOR_RAGGED_OFFSET_DESC";
        let is_tensor =
            |name: &Name| matches!(expected(*name), Some(Expected::Kind(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)));
        let tensors: BTreeSet<_> =
            declared::all().map(|(name, ..)| name).filter(is_tensor).map(names::attribute).collect();
        assert_eq!(tensors, known.split(' ').map(str::to_owned).collect());
    }

    #[test]
    fn every_attribute_belongs_to_one_kind() {
        let unknown: Vec<_> = declared::all().map(|(name, ..)| name).filter(|name| owner(*name).is_none()).collect();
        // A part of this name is missing in the header.
        assert_eq!(unknown, [Name::CUDNN_ATTR_OPERATION_CONTRACT_BAND_MAX_TOKEN_VALUE]);
        for (name, kind) in [
            (Name::CUDNN_ATTR_POINTWISE_MODE, Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
            (Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR),
            (Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR),
            (Name::CUDNN_ATTR_ENGINEHEUR_MODE, Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR),
            (
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            ),
        ] {
            assert_eq!(owner(name), Some(kind), "{name:?}");
        }
    }
}
