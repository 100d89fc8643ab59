//! Compares the operation graph in a plan's JSON with the graph that the program described.
//!
//! A plan is cached only if cuDNN understood the calls in the same way as this layer. The JSON contains all attributes
//! of the tensors (9.10 to 9.28), and the tensors and most values of each operation. Values that are missing from the
//! JSON are not compared.

use cudnn_sys::types::{
    cudnnBackendNormFwdPhase_t as Phase, cudnnBackendNormMode_t as NormMode,
    cudnnBackendTensorReordering_t as Reordering, cudnnConvolutionMode_t as ConvolutionMode,
    cudnnDataType_t as DataType, cudnnPointwiseMode_t as Pointwise, cudnnReduceTensorOp_t as Reduction,
    cudnnRngDistribution_t as Distribution,
};
use serde_json::Value as Json;

use crate::shadow::content::Content;
use crate::shadow::content::{Child, Value};
use crate::shadow::elements::{Kind, Name, Type};

/// Compares all tensors and operations. Returns the first difference.
pub(super) fn compare(graph: &Content, stated: &Json) -> Result<(), String> {
    let operations: Option<Vec<&Content>> =
        graph.children(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS).iter().map(|child| Some(&**child.content()?)).collect();
    let operations = operations.ok_or("an operation is unknown")?;
    let list = |name| stated.get(name).and_then(Json::as_array).ok_or_else(|| format!("the plan contains no {name}"));
    let (tensors, nodes) = (list("tensors")?, list("nodes")?);
    compare_tensors(&operations, tensors)?;

    let mut unused: Vec<&Json> = nodes.iter().collect();
    for operation in operations {
        let place = unused.iter().position(|node| matches_node(operation, node));
        let place = place.ok_or_else(|| format!("the plan has no matching operation for {:?}", operation.kind))?;
        unused.swap_remove(place);
    }
    if unused.is_empty() { Ok(()) } else { Err("the plan has additional operations".into()) }
}

fn compare_tensors(operations: &[&Content], stated: &[Json]) -> Result<(), String> {
    let mut described = Vec::new();
    for operation in operations {
        for child in descriptors(operation) {
            match child.kind {
                Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR => {
                    described.push((id(child).ok_or("a tensor has no id")?, child))
                }
                Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => return Err("the graph contains another graph".into()),
                _ => {}
            }
        }
    }
    let name_of = |tensor: &Json| tensor.get("name").and_then(Json::as_str).map(str::to_owned);
    for (id, tensor) in &described {
        let stated = stated.iter().find(|stated| name_of(stated).as_ref() == Some(id));
        let stated = stated.ok_or_else(|| format!("the plan has no tensor {id}"))?;
        if let Some(member) = different_member(tensor, stated) {
            return Err(format!("the plan has a different {member} for tensor {id}"));
        }
    }
    match stated.iter().map(name_of).find(|name| described.iter().all(|(id, _)| Some(id) != name.as_ref())) {
        None => Ok(()),
        Some(more) => Err(format!("the plan has an additional tensor, {}", more.unwrap_or_default())),
    }
}

/// Returns the descriptors among an operation's attributes.
fn descriptors(operation: &Content) -> impl Iterator<Item = &Content> {
    let lists = operation.attributes.iter().filter_map(|attribute| match &attribute.value {
        Value::Descriptors(children) => Some(children),
        _ => None,
    });
    lists.flat_map(|children| children.iter()).filter_map(Child::content).map(|child| &**child)
}

/// Returns the ID of a tensor in the format of the JSON.
fn id(tensor: &Content) -> Option<String> {
    tensor.number(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID).map(|id| id.to_string())
}

/// Returns the first member that differs between a tensor and its JSON.
fn different_member(tensor: &Content, stated: &Json) -> Option<&'static str> {
    let number = |name, default| tensor.number(name).unwrap_or(default);
    let is_set = |name| number(name, 0) != 0;
    let checks = [
        ("name", stated.get("name").and_then(Json::as_str).map(str::to_owned) == id(tensor)),
        ("dim", numbers(stated, "dim") == Some(tensor.numbers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS))),
        ("stride", numbers(stated, "stride") == Some(tensor.numbers(Name::CUDNN_ATTR_TENSOR_STRIDES))),
        ("dataType", is_enumerator(stated, "dataType", tensor.number(Name::CUDNN_ATTR_TENSOR_DATA_TYPE), data_type)),
        ("isVirtual", flag(stated, "isVirtual") == Some(is_set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL))),
        ("isByValue", flag(stated, "isByValue") == Some(is_set(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE))),
        ("vectCount", one_number(stated, "vectCount") == Some(number(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT, 1))),
        ("vectDim", one_number(stated, "vectDim") == Some(number(Name::CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, -1))),
        ("ptrAlignment", {
            let alignment = tensor.number(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
            alignment.is_none() || one_number(stated, "ptrAlignment") == alignment
        }),
        ("reordering", {
            let mode = number(Name::CUDNN_ATTR_TENSOR_REORDERING_MODE, 0);
            is_enumerator(stated, "reordering", Some(mode), reordering)
        }),
        ("isRagged", {
            let offsets = tensor.child(Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
            match (offsets, stated.get("isRagged").and_then(Json::as_array).map(Vec::as_slice)) {
                (None, None | Some([])) => true,
                (Some(offsets), Some([stated])) => different_member(offsets, stated).is_none(),
                _ => false,
            }
        }),
    ];
    checks.into_iter().find(|(_, is_same)| !is_same).map(|(member, _)| member)
}

/// The kind of value in a member of a node.
enum Member {
    /// The ID of a tensor.
    Tensor,
    /// The name of an enumerator.
    Enumerator(fn(i64, &str) -> bool),
    Numbers,
    Flag,
    Real,
}

use Member::{Enumerator, Flag, Numbers, Real, Tensor};

/// A member of the JSON, the attribute that refers to the nested descriptor (if the value belongs to one), and the
/// attribute that contains the value.
type Row = (&'static str, Option<Name>, Name, Member);

/// Returns whether a node matches this operation in all members that the node contains.
fn matches_node(operation: &Content, node: &Json) -> bool {
    let kind = operation.kind.name().and_then(|name| name.to_str().ok());
    if kind.is_none() || node.get("operation").and_then(Json::as_str) != kind {
        return false;
    }
    // Compare all tensors, including those in members that are missing from the table.
    let tensors = descriptors(operation).filter(|child| child.kind == Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    let mut described: Vec<String> = tensors.filter_map(id).collect();
    let mut stated: Vec<&str> =
        node.as_object().into_iter().flat_map(|node| node.values()).flat_map(tensor_ids).collect();
    described.sort_unstable();
    stated.sort_unstable();
    described == stated && members(operation.kind).iter().all(|row| member_matches(operation, node, row))
}

/// Returns the tensor IDs in a member. Other members contain names or numbers.
fn tensor_ids(member: &Json) -> impl Iterator<Item = &str> {
    let list = member.as_array().map_or(std::slice::from_ref(member), Vec::as_slice);
    list.iter().filter_map(Json::as_str).filter(|text| text.parse::<i64>().is_ok())
}

fn member_matches(operation: &Content, node: &Json, (member, through, name, what): &Row) -> bool {
    let holder = match through {
        Some(through) => operation.child(*through).map(|child| &**child),
        None => Some(operation),
    };
    let (Some(holder), Some(stated)) = (holder, node.get(member)) else { return true };
    let Some(attribute) = holder.attribute(*name) else { return !matches!(what, Tensor) };
    match what {
        Tensor => holder.child(*name).and_then(|tensor| id(tensor)).as_deref() == stated.as_str(),
        Enumerator(is_name) => is_enumerator(node, member, holder.number(*name), *is_name),
        Numbers => match stated {
            Json::Array(_) => numbers(node, member) == Some(holder.numbers(*name)),
            one => one.as_i64() == holder.number(*name),
        },
        Flag => flag(node, member) == holder.number(*name).map(|flag| flag != 0),
        Real => {
            let Value::Elements(bytes) = &attribute.value else { return false };
            let (bytes, double) = (bytes.as_slice(), attribute.ty == Type::CUDNN_TYPE_DOUBLE);
            let given = if double { bytes.try_into().map(f64::from_ne_bytes).ok() } else { float(bytes) };
            // Decimal parsers may differ in the last bit.
            let narrow = |real: f64| (real as f32).clamp(f32::MIN, f32::MAX).to_bits();
            given.map(narrow) == stated.as_f64().map(narrow)
        }
    }
}

fn float(bytes: &[u8]) -> Option<f64> {
    bytes.try_into().map(f32::from_ne_bytes).ok().map(f64::from)
}

fn numbers(stated: &Json, member: &str) -> Option<Vec<i64>> {
    stated.get(member)?.as_array()?.iter().map(Json::as_i64).collect()
}

fn one_number(stated: &Json, member: &str) -> Option<i64> {
    stated.get(member)?.as_i64()
}

fn flag(stated: &Json, member: &str) -> Option<bool> {
    stated.get(member)?.as_bool()
}

fn is_enumerator(stated: &Json, member: &str, value: Option<i64>, is_name: fn(i64, &str) -> bool) -> bool {
    let name = stated.get(member).and_then(Json::as_str);
    value.zip(name).is_some_and(|(value, name)| is_name(value, name))
}

macro_rules! names {
    ($($function:ident of $type:ident;)*) => {
        $(fn $function(value: i64, name: &str) -> bool {
            // Two enumerators may share a value.
            let is_it = |(known, text): &($type, &std::ffi::CStr)| {
                i64::from(known.0) == value && text.to_bytes() == name.as_bytes()
            };
            $type::ENUMERATORS.iter().any(is_it)
        })*
    };
}
names! {
    data_type of DataType;
    reordering of Reordering;
    pointwise of Pointwise;
    reduction of Reduction;
    convolution_mode of ConvolutionMode;
    norm_mode of NormMode;
    norm_phase of Phase;
    distribution of Distribution;
}

/// Returns the members that nodes of this kind contain in cuDNN 9.10, 9.19 or 9.28.
fn members(kind: Kind) -> &'static [Row] {
    match kind {
        Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => {
            const OF: Option<Name> = Some(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
            &[
                ("X", None, Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, Tensor),
                ("B", None, Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC, Tensor),
                ("T", None, Name::CUDNN_ATTR_OPERATION_POINTWISE_TDESC, Tensor),
                ("Y", None, Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, Tensor),
                ("alpha1", None, Name::CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, Real),
                ("alpha2", None, Name::CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, Real),
                ("pointwiseMode", OF, Name::CUDNN_ATTR_POINTWISE_MODE, Enumerator(pointwise)),
                ("mathPrec", OF, Name::CUDNN_ATTR_POINTWISE_MATH_PREC, Enumerator(data_type)),
                ("axis", OF, Name::CUDNN_ATTR_POINTWISE_AXIS, Numbers),
                ("lowerClip", OF, Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, Real),
                ("lowerClipSlope", OF, Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, Real),
                ("upperClip", OF, Name::CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, Real),
            ]
        }
        Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR => {
            const OF: Option<Name> = Some(Name::CUDNN_ATTR_OPERATION_MATMUL_DESC);
            &[
                ("matA", None, Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, Tensor),
                ("matB", None, Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, Tensor),
                ("matC", None, Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, Tensor),
                ("mOverride", None, Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, Tensor),
                ("nOverride", None, Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, Tensor),
                ("kOverride", None, Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, Tensor),
                ("mathPrec", OF, Name::CUDNN_ATTR_MATMUL_COMP_TYPE, Enumerator(data_type)),
                ("paddingValue", OF, Name::CUDNN_ATTR_MATMUL_PADDING_VALUE, Real),
            ]
        }
        Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR => {
            const OF: Option<Name> = Some(Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC);
            &[
                ("X", None, Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, Tensor),
                ("Y", None, Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, Tensor),
                ("reductionOp", OF, Name::CUDNN_ATTR_REDUCTION_OPERATOR, Enumerator(reduction)),
                ("mathPrec", OF, Name::CUDNN_ATTR_REDUCTION_COMP_TYPE, Enumerator(data_type)),
                ("isDeterministic", OF, Name::CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, Flag),
            ]
        }
        Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR => &[
            ("X", None, Name::CUDNN_ATTR_OPERATION_RESHAPE_XDESC, Tensor),
            ("Y", None, Name::CUDNN_ATTR_OPERATION_RESHAPE_YDESC, Tensor),
        ],
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => {
            const OF: Option<Name> = Some(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
            &[
                ("X", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, Tensor),
                ("W", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, Tensor),
                ("Y", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, Tensor),
                ("alpha", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, Real),
                ("beta", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, Real),
                ("mode", OF, Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, Enumerator(convolution_mode)),
                ("mathPrec", OF, Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, Enumerator(data_type)),
                ("pad", OF, Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Numbers),
                ("stride", OF, Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Numbers),
                ("dilation", OF, Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, Numbers),
            ]
        }
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => {
            const OF: Option<Name> = Some(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
            &[
                ("dX", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, Tensor),
                ("W", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, Tensor),
                ("dY", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, Tensor),
                ("alpha", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, Real),
                ("beta", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, Real),
                ("mode", OF, Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, Enumerator(convolution_mode)),
                ("mathPrec", OF, Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, Enumerator(data_type)),
                ("pad", OF, Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Numbers),
                ("stride", OF, Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Numbers),
                ("dilation", OF, Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, Numbers),
            ]
        }
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => {
            const OF: Option<Name> = Some(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
            &[
                ("X", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, Tensor),
                ("dW", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, Tensor),
                ("dY", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, Tensor),
                ("alpha", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, Real),
                ("beta", None, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, Real),
                ("mode", OF, Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, Enumerator(convolution_mode)),
                ("mathPrec", OF, Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, Enumerator(data_type)),
                ("pad", OF, Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Numbers),
                ("stride", OF, Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Numbers),
                ("dilation", OF, Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, Numbers),
            ]
        }
        Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR => &[
            ("mode", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_MODE, Enumerator(norm_mode)),
            ("fmode", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, Enumerator(norm_phase)),
            ("X", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, Tensor),
            ("Y", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, Tensor),
            ("Mean", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, Tensor),
            ("InvVariance", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, Tensor),
            ("Scale", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, Tensor),
            ("Bias", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, Tensor),
            ("InRunningMean", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, Tensor),
            ("InRunningVar", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, Tensor),
            ("OutRunningMean", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, Tensor),
            ("OutRunningVar", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, Tensor),
            ("epsilonDesc", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, Tensor),
            ("expavgfactorDesc", None, Name::CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, Tensor),
        ],
        Kind::CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR => &[
            ("mode", None, Name::CUDNN_ATTR_OPERATION_NORM_BWD_MODE, Enumerator(norm_mode)),
            ("X", None, Name::CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, Tensor),
            ("DY", None, Name::CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, Tensor),
            ("DX", None, Name::CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, Tensor),
            ("Mean", None, Name::CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, Tensor),
            ("InvVariance", None, Name::CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, Tensor),
            ("Scale", None, Name::CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, Tensor),
            ("DScale", None, Name::CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, Tensor),
            ("DBias", None, Name::CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, Tensor),
        ],
        Kind::CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR => {
            const OF: Option<Name> = Some(Name::CUDNN_ATTR_OPERATION_RNG_DESC);
            &[
                ("Y", None, Name::CUDNN_ATTR_OPERATION_RNG_YDESC, Tensor),
                ("seedTensor", None, Name::CUDNN_ATTR_OPERATION_RNG_SEED, Tensor),
                ("offset", None, Name::CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, Tensor),
                ("distribution", OF, Name::CUDNN_ATTR_RNG_DISTRIBUTION, Enumerator(distribution)),
                ("bernoulli_dist_probability", OF, Name::CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, Real),
            ]
        }
        Kind::CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR => &[
            ("Q", None, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, Tensor),
            ("K", None, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, Tensor),
            ("V", None, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, Tensor),
            ("O", None, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, Tensor),
            ("stats", None, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, Tensor),
            ("scale", None, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, Tensor),
        ],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::Arc;

    use super::*;
    use crate::shadow;
    use crate::shadow::elements::Raw;

    /// Returns an address that is unique among the tests.
    fn descriptor(kind: Kind, number: usize) -> Raw {
        let address = std::ptr::without_provenance_mut(0x7000_0000 + 64 * number);
        shadow::created(kind, address);
        address
    }

    fn set<T>(descriptor: Raw, name: Name, ty: Type, elements: &[T]) {
        // SAFETY: the elements have this type.
        unsafe { shadow::attribute_set(descriptor, name, ty, elements.len() as i64, elements.as_ptr().cast()) };
    }

    /// Describes a matrix product with a padding value of 2.
    fn matmul() -> Arc<Content> {
        let children = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        let function = descriptor(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR, 0);
        set(function, Name::CUDNN_ATTR_MATMUL_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[0_u32]);
        set(function, Name::CUDNN_ATTR_MATMUL_PADDING_VALUE, Type::CUDNN_TYPE_DOUBLE, &[2.0_f64]);
        let operation = descriptor(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, 1);
        set(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, children, &[function]);
        for (name, id, strides) in [
            (Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, 2, [64, 8, 1_i64]),
            (Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, 3, [64, 1, 8]),
            (Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, 4, [64, 8, 1]),
        ] {
            let tensor = descriptor(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR, id);
            set(tensor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, &[id as i64]);
            set(tensor, Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[2_u32]);
            set(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT64, &[1_i64, 8, 8]);
            set(tensor, Name::CUDNN_ATTR_TENSOR_STRIDES, Type::CUDNN_TYPE_INT64, &strides);
            set(tensor, Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Type::CUDNN_TYPE_INT64, &[16_i64]);
            set(operation, name, children, &[tensor]);
        }
        let graph = descriptor(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 5);
        set(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, children, &[operation]);
        shadow::content(graph).unwrap()
    }

    /// Returns the graph's JSON, as cuDNN 9.19 writes it.
    fn stated() -> String {
        let tensor = |id: &str, strides: &str| {
            format!(
                r#"{{"name":"{id}","dataType":"CUDNN_DATA_HALF","dim":[1,8,8],"stride":[{strides}],"isVirtual":false,"isByValue":false,
                "vectCount":1,"vectDim":-1,"ptrAlignment":16,"reordering":"CUDNN_TENSOR_REORDERING_NONE"}}"#
            )
        };
        let tensors = [tensor("4", "64,8,1"), tensor("3", "64,1,8"), tensor("2", "64,8,1")].join(",");
        let node = r#"{"operation":"CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR","mathPrec":"CUDNN_DATA_FLOAT","matA":"2","matB":"3",
            "matC":"4","paddingDataType":"CUDNN_TYPE_DOUBLE","paddingValue":2.0}"#;
        format!(r#"{{"finalizeMode":"GENERIC_MATMUL_FUSION","tensors":[{tensors}],"nodes":[{node}]}}"#)
    }

    #[test]
    fn each_difference_is_detected() {
        let (graph, stated) = (matmul(), stated());
        let compared = |text: &str| compare(&graph, &serde_json::from_str(text).unwrap());
        assert_eq!(compared(&stated), Ok(()));
        for (from, to) in [
            ("64,1,8", "64,8,1"),
            ("CUDNN_DATA_HALF", "CUDNN_DATA_BFLOAT16"),
            ("[1,8,8]", "[1,8,16]"),
            (r#""isVirtual":false"#, r#""isVirtual":true"#),
            (r#""isByValue":false"#, r#""isByValue":true"#),
            (r#""vectCount":1"#, r#""vectCount":4"#),
            (r#""ptrAlignment":16"#, r#""ptrAlignment":4"#),
            ("REORDERING_NONE", "REORDERING_INT8x32"),
            (r#""name":"3""#, r#""name":"5""#),
            (r#""matA":"2","matB":"3""#, r#""matA":"3","matB":"2""#),
            (r#""matC":"4""#, r#""matC":"4","mOverride":"2""#),
            ("CUDNN_DATA_FLOAT", "CUDNN_DATA_DOUBLE"),
            (r#""paddingValue":2.0"#, r#""paddingValue":1.0"#),
            ("OPERATION_MATMUL", "OPERATION_REDUCTION"),
            (r#""nodes":["#, r#""nodes":[{},"#),
            (r#""nodes""#, r#""others""#),
            (r#""tensors":["#, r#""tensors":[{"name":"7"},"#),
        ] {
            assert!(stated.contains(from), "{from}");
            assert!(compared(&stated.replace(from, to)).is_err(), "{from} -> {to}");
        }
    }
}
