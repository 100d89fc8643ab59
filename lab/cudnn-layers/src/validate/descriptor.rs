//! Checks single descriptors when the program creates and finalizes them.

use cudnn_graph::Value;
use cudnn_graph::label::numbers as shape;
use cudnn_sys::types::{cudnnDataType_t as DataType, cudnnPointwiseMode_t as Mode};

use super::message::State;
use super::rules::{self, ValidationRule};
use super::texts::{attribute, descriptor as subject, kind_name};
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name};

/// Required attributes and descriptors. If one is missing, cuDNN crashes (engine of a configuration), refuses the
/// descriptor without a reason (index of an engine), or accepts it.
const NEEDED: [(Kind, Name, &ValidationRule); 6] = [
    (Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR, Name::CUDNN_ATTR_REDUCTION_OPERATOR, &rules::MISSING_ATTRIBUTE),
    (Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR, Name::CUDNN_ATTR_POINTWISE_MODE, &rules::MISSING_ATTRIBUTE),
    (Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, Name::CUDNN_ATTR_ENGINEHEUR_MODE, &rules::MISSING_ATTRIBUTE),
    (Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &rules::MISSING_ATTRIBUTE),
    (Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &rules::MISSING_ATTRIBUTE),
    (Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, Name::CUDNN_ATTR_ENGINECFG_ENGINE, &rules::MISSING_DESCRIPTOR),
];

/// Returns whether the attributes of the descriptor are known, regardless of the descriptors that it refers to.
pub(super) fn is_known(content: &Content) -> bool {
    !content.is_uncertain && !content.lacks_attributes
}

pub(super) fn refused(state: &State, kind: Kind) {
    if kind.name().is_none() {
        state.report(&rules::UNKNOWN_KIND, &format!("cuDNN knows no {}", kind_name(kind)));
    }
}

/// Checks a descriptor before cuDNN finalizes it, because cuDNN crashes if the data type is unknown.
pub(super) fn finalizing(state: &State, content: &Content) {
    // cuDNN has filled the descriptors with an origin.
    if content.is_finalized || content.origin.is_some() || !is_known(content) {
        return;
    }
    for (_, needed, rule) in NEEDED.iter().filter(|(kind, ..)| *kind == content.kind) {
        if content.attribute(*needed).is_none() {
            state.report(rule, &format!("{}: {} is not set", subject(content), attribute(*needed)));
        }
    }
    match content.kind {
        Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR => tensor(state, content),
        Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR => pointwise(state, content),
        _ => {}
    }
}

pub(super) fn finalization_refused(state: &State, content: &Content) {
    if !is_known(content) {
        return;
    }
    match content.kind {
        Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR => convolution(state, content),
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR => {
            let index = content.number(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
            if let Some(index) = index.filter(|index| *index < 0) {
                state.report(&rules::NEGATIVE_ENGINE, &format!("{}: the index is {index}", subject(content)));
            }
        }
        _ => {}
    }
}

fn tensor(state: &State, content: &Content) {
    let report = |rule, text: String| state.report(rule, &format!("{}: {text}", subject(content)));
    let dims = content.numbers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
    if dims.contains(&0) {
        report(&rules::ZERO_DIMENSION, format!("the dimensions are {}, expected at least 1 each", shape(&dims)));
    }
    let is_set = |name| content.number(name) == Some(1);
    if is_set(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE) && is_set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL) {
        report(&rules::VALUE_AND_VIRTUAL, "it is both by value and virtual, expected one of them".to_owned());
    }
    let data_type = content.number(Name::CUDNN_ATTR_TENSOR_DATA_TYPE);
    if let Some(number) = data_type.filter(|number| DataType(*number as u32).name().is_none()) {
        report(&rules::UNKNOWN_TYPE, format!("the data type is {number}, expected a value of cudnnDataType_t"));
    }
    let count = content.number(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT);
    if let Some(count) = count.filter(|count| *count > 1)
        && content.attribute(Name::CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION).is_none()
    {
        let name = attribute(Name::CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION);
        report(&rules::VECTOR, format!("the vector count is {count}, but {name} is not set"));
    }
}

fn pointwise(state: &State, content: &Content) {
    let mode = content.number(Name::CUDNN_ATTR_POINTWISE_MODE).map(|mode| Mode(mode as u32));
    let is_relu = matches!(mode, Some(Mode::CUDNN_POINTWISE_RELU_FWD | Mode::CUDNN_POINTWISE_RELU_BWD));
    let lower = float(content, Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP);
    let upper = float(content, Name::CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP);
    if let (true, Some(lower), Some(upper)) = (is_relu, lower, upper)
        && lower > upper
    {
        let text = format!("{}: the lower clip {lower} is above the upper clip {upper}", subject(content));
        state.report(&rules::CLIP, &text);
    }
}

fn convolution(state: &State, content: &Content) {
    for name in [Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS] {
        let padding = content.numbers(name);
        if padding.iter().any(|number| *number < 0) {
            let text = format!("{}: {} is {}", subject(content), attribute(name), shape(&padding));
            state.report(&rules::NEGATIVE_PADDING, &format!("{text}, expected at least 0 each"));
        }
    }
}

fn float(content: &Content, name: Name) -> Option<f64> {
    let attribute = content.attribute(name)?;
    match Value::from_bytes(attribute.ty, attribute.count, content.elements(name)?.as_slice())? {
        Value::Floats(floats) => floats.first().copied(),
        _ => None,
    }
}
