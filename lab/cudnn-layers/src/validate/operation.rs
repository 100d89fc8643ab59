//! Checks single operations: operands, types and shapes.

use cudnn_sys::types::{cudnnDataType_t as DataType, cudnnPointwiseMode_t as Mode};

use super::message::State;
use super::rules::{self, Rule};
use super::shape::{self, Axis, Broadcast};
use super::texts::{Place, attribute, shape as text, subject, tensor};
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name};
use crate::shadow::{self, Named};

/// The number of operands of a pointwise function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    One,
    Two,
    /// A selection, a backward function, or a function that these bindings do not know.
    Other,
}

fn operands(mode: Mode) -> Operands {
    let name = mode.name().and_then(|name| name.to_str().ok()).unwrap_or_default();
    let Some(name) = name.strip_prefix("CUDNN_POINTWISE_") else { return Operands::Other };
    match name {
        _ if name.ends_with("_FWD") => Operands::One,
        "ABS" | "CEIL" | "COS" | "ERF" | "EXP" | "FLOOR" | "GEN_INDEX" | "IDENTITY" | "LOG" | "LOGICAL_NOT" | "NEG"
        | "RECIPROCAL" | "RSQRT" | "SIN" | "SQRT" | "TAN" => Operands::One,
        _ if name.starts_with("CMP_") => Operands::Two,
        "ADD" | "ADD_SQUARE" | "DIV" | "LOGICAL_AND" | "LOGICAL_OR" | "MAX" | "MIN" | "MOD" | "MUL" | "POW" | "SUB" => {
            Operands::Two
        }
        _ => Operands::Other,
    }
}

/// Checks an operation. `has_failed` means that cuDNN refused the operation or the graph.
pub(super) fn check(state: &State, place: &Place<'_>, has_failed: bool) {
    let check = Check { state, place, content: place.operation.content };
    if has_failed {
        check.finalized();
    }
    match check.content.kind {
        Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => check.pointwise(has_failed),
        Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR => check.matmul(has_failed),
        Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR => check.reduction(),
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => check.convolution([
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        ]),
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => check.convolution([
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        ]),
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => check.convolution([
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        ]),
        _ => {}
    }
    check.outputs();
}

struct Check<'a> {
    state: &'a State,
    place: &'a Place<'a>,
    content: &'a Content,
}

impl Check<'_> {
    fn report(&self, rule: &Rule, what: &str) {
        self.state.report(rule, &format!("{}: {what}", self.place));
    }

    /// Returns the tensor of an attribute.
    fn tensor(&self, name: Name) -> Option<&Named<'_>> {
        let content = self.content.child(name)?;
        self.place.operation.tensors().find(|named| std::ptr::eq(named.tensor, &raw const **content))
    }

    fn text(&self, named: &Named<'_>) -> String {
        tensor(self.place.operation, named)
    }

    /// Reports descriptors that were not finalized before they were set.
    fn finalized(&self) {
        for (attribute, child) in shadow::descriptors(self.content).filter(|(_, child)| !child.is_finalized) {
            let named = self.place.operation.tensors().find(|named| std::ptr::eq(named.tensor, &raw const **child));
            let child = named.map_or_else(|| subject(child), |named| self.text(named));
            let name = super::texts::attribute(attribute.name);
            self.report(&rules::NOT_FINALIZED, &format!("{child} was not finalized before {name} was set"));
        }
    }

    fn pointwise(&self, has_failed: bool) {
        let mode = self.content.child(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
        let mode = mode.and_then(|function| function.number(Name::CUDNN_ATTR_POINTWISE_MODE));
        let (Some(mode), operation) = (mode.map(|mode| Mode(mode as u32)), self.place.operation) else { return };
        let b = self.tensor(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
        match (operands(mode), b) {
            (Operands::One, Some(b)) => {
                let what = format!("it has {}, but a {} has only operand X", self.text(b), operation.name);
                self.report(&rules::EXTRA_OPERAND, &what);
                return;
            }
            (Operands::Two, None)
                if has_failed && self.content.attribute(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC).is_none() =>
            {
                let name = attribute(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
                self.report(&rules::MISSING_OPERAND, &format!("operand B is missing: {name} is not set"));
            }
            _ => {}
        }
        let Some(output) = operation.outputs.first() else { return };
        // Engines for attention recognize the pattern of operations and ignore the shapes between them. cudnn-frontend
        // 1.32 sets a wrong one in an attention with sink tokens.
        if self.place.is_in_attention && is_virtual(output.tensor) {
            return;
        }
        if operation.tensors().any(|named| is_vectorized(named.tensor)) {
            return;
        }
        let (output_dims, inputs) = (output.extents(), &operation.inputs);
        let dims: Vec<_> = inputs.iter().map(Named::extents).filter(|dims| !dims.is_empty()).collect();
        let list = || {
            let texts: Vec<_> =
                inputs.iter().map(|input| format!("{} is {}", self.text(input), text(&input.extents()))).collect();
            texts.join(" and ")
        };
        match shape::broadcast(&dims) {
            Some(Broadcast::Impossible(index)) => {
                let what = format!("{}, expected equal extents or 1 in dimension {index}", list());
                self.report(&rules::BROADCAST, &what);
            }
            Some(Broadcast::Shape(expected)) if !shape::is_broadcast_to(&expected, &output_dims) => {
                self.wrong_shape(output, &expected);
            }
            _ => {}
        }
    }

    fn wrong_shape(&self, output: &Named<'_>, expected: &[i64]) {
        let (output, actual, expected) = (self.text(output), text(&output.extents()), text(expected));
        self.report(&rules::WRONG_SHAPE, &format!("{output} is {actual}, expected {expected}"));
    }

    fn matmul(&self, has_failed: bool) {
        const TENSORS: [Name; 3] = [
            Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC,
            Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC,
            Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC,
        ];
        // cuDNN accepts an operation without a matmul descriptor, but refuses it without tensors.
        let needed =
            [Name::CUDNN_ATTR_OPERATION_MATMUL_DESC].into_iter().chain(TENSORS.into_iter().filter(|_| has_failed));
        for name in needed.filter(|name| self.content.attribute(*name).is_none()) {
            self.report(&rules::MISSING_DESCRIPTOR, &format!("{} is not set", attribute(name)));
        }
        let [Some(a), Some(b), Some(c)] = TENSORS.map(|name| self.tensor(name)) else { return };
        let all = [a, b, c];
        if all.iter().any(|named| is_vectorized(named.tensor)) {
            return;
        }
        let [dims_a, dims_b, dims_c] = all.map(Named::extents);
        if dims_a.len() != dims_b.len() || dims_a.len() != dims_c.len() {
            if has_failed {
                let texts = all.map(|named| format!("{} is {}", self.text(named), text(&named.extents())));
                self.report(&rules::RANKS, &format!("{}, expected equal ranks", texts.join(", ")));
            }
            return;
        }
        let irregular = self.content.number(Name::CUDNN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT);
        if let Some(expected) = shape::product(&dims_a, &dims_b, &dims_c)
            && expected != dims_c
            && irregular.is_none_or(|count| count <= 1)
        {
            self.wrong_shape(c, &expected);
        }
        self.matmul_strides(all);
        let types = [a, b].map(|named| named.tensor.number(Name::CUDNN_ATTR_TENSOR_DATA_TYPE));
        let types = types.map(|number| number.map(|number| DataType(number as u32)));
        let is_mixed = matches!(
            types,
            [Some(DataType::CUDNN_DATA_HALF), Some(DataType::CUDNN_DATA_BFLOAT16)]
                | [Some(DataType::CUDNN_DATA_BFLOAT16), Some(DataType::CUDNN_DATA_HALF)]
        );
        if is_mixed && !is_virtual(a.tensor) && !is_virtual(b.tensor) {
            let texts = [a, b].map(|named| format!("{} is {}", self.text(named), named.data_type()));
            self.report(&rules::MIXED_MATMUL, &format!("{}, expected one type", texts.join(" and ")));
        }
    }

    fn matmul_strides(&self, tensors: [&Named<'_>; 3]) {
        let strides = |named: &Named<'_>| named.tensor.numbers(Name::CUDNN_ATTR_TENSOR_STRIDES);
        let is_strided = |named: &Named<'_>| {
            let (strides, dims) = (strides(named), named.extents());
            !is_virtual(named.tensor)
                && !strides.is_empty()
                && !strides.contains(&1)
                && dims.iter().rev().take(2).all(|extent| *extent > 1)
        };
        if tensors.iter().all(|named| is_strided(named)) {
            let texts = tensors.map(|named| format!("{} has the strides {}", self.text(named), text(&strides(named))));
            self.report(&rules::STRIDED_MATMUL, &format!("{}, expected a stride of 1", texts.join(", ")));
        }
    }

    fn reduction(&self) {
        let is_new =
            [Name::CUDNN_ATTR_OPERATION_REDUCTION_DIMS, Name::CUDNN_ATTR_OPERATION_REDUCTION_GROUP_OFFSET_DESC];
        let x = self.tensor(Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
        let y = self.tensor(Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
        let (Some(x), Some(y)) = (x, y) else { return };
        if is_new.iter().any(|name| self.content.attribute(*name).is_some()) || is_vectorized(x.tensor) {
            return;
        }
        let (dims, output) = (x.extents(), y.extents());
        if !shape::is_reduced_to(&dims, &output) {
            let (x, y) = (self.text(x), self.text(y));
            let what =
                format!("{y} is {}, but {x} is {}, expected extents that divide those", text(&output), text(&dims));
            self.report(&rules::WRONG_SHAPE, &what);
        }
    }

    /// Compares the tensors of a convolution. A backward pass has the same shapes as the forward pass.
    fn convolution(&self, [x, w, y, convolution]: [Name; 4]) {
        let [Some(x), Some(w), Some(y)] = [x, w, y].map(|name| self.tensor(name)) else { return };
        let Some(axes) = self.content.child(convolution).and_then(|convolution| axes(convolution)) else { return };
        if [x, w, y].iter().any(|named| is_vectorized(named.tensor)) {
            return;
        }
        let (dims, filter, actual) = (x.extents(), w.extents(), y.extents());
        let Some(expected) = shape::convolved(&dims, &filter, &axes).filter(|expected| *expected != actual) else {
            return;
        };
        if self.place.operation.outputs.iter().any(|output| std::ptr::eq(output.tensor, y.tensor)) {
            self.wrong_shape(y, &expected);
        } else {
            let [x, w, y] = [x, w, y].map(|named| self.text(named));
            let (dims, filter, actual, expected) = (text(&dims), text(&filter), text(&actual), text(&expected));
            let what = format!("{x} is {dims} and {w} is {filter}, which gives {expected}, but {y} is {actual}");
            self.report(&rules::WRONG_SHAPE, &what);
        }
    }

    fn outputs(&self) {
        for output in &self.place.operation.outputs {
            let tensor = output.tensor;
            let is_plain = !is_virtual(tensor)
                && !is_vectorized(tensor)
                && tensor.attribute(Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC).is_none();
            let (dims, strides) = (output.extents(), tensor.numbers(Name::CUDNN_ATTR_TENSOR_STRIDES));
            if is_plain && shape::overlaps(&dims, &strides) {
                let (dims, strides) = (text(&dims), text(&strides));
                let what = format!("{} is {dims} with the strides {strides}, which overlap", self.text(output));
                self.report(&rules::OVERLAP, &what);
            }
        }
    }
}

pub(super) fn is_virtual(tensor: &Content) -> bool {
    tensor.number(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL) == Some(1)
}

/// Returns whether the elements of a tensor are vectors, so that the dimensions have another meaning.
fn is_vectorized(tensor: &Content) -> bool {
    tensor.number(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT).is_some_and(|count| count != 1)
}

/// Returns the parameters of a convolution, if all are set.
fn axes(convolution: &Content) -> Option<Vec<Axis>> {
    let [before, after, strides, dilations] = [
        Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
        Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
        Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
        Name::CUDNN_ATTR_CONVOLUTION_DILATIONS,
    ]
    .map(|name| convolution.numbers(name));
    let spatial = usize::try_from(convolution.number(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)?).ok()?;
    let axis = |index| {
        let of = |numbers: &[i64]| numbers.get(index).copied();
        Some(Axis { before: of(&before)?, after: of(&after)?, stride: of(&strides)?, dilation: of(&dilations)? })
    };
    (spatial <= 8).then(|| (0..spatial).map(axis).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_one_or_two_operands() {
        for (mode, expected) in [
            (Mode::CUDNN_POINTWISE_RELU_FWD, Operands::One),
            (Mode::CUDNN_POINTWISE_IDENTITY, Operands::One),
            (Mode::CUDNN_POINTWISE_ADD, Operands::Two),
            (Mode::CUDNN_POINTWISE_CMP_GE, Operands::Two),
            (Mode::CUDNN_POINTWISE_BINARY_SELECT, Operands::Other),
            (Mode::CUDNN_POINTWISE_RELU_BWD, Operands::Other),
            (Mode(12_345), Operands::Other),
        ] {
            assert!(operands(mode) == expected, "{mode:?}");
        }
    }
}
