//! Checks single operations: operands, types and shapes.

use cudnn_graph::label::numbers as text;
use cudnn_graph::layout::overlaps;
use cudnn_graph::operation::convolution_attributes;
use cudnn_graph::shape::{self, Broadcast};
use cudnn_graph::{Node, Operand};
use cudnn_sys::types::{cudnnDataType_t as DataType, cudnnPointwiseMode_t as Mode};

use super::message::State;
use super::rules::{self, ValidationRule};
use super::texts::{OperationPosition, attribute, subject, tensor};
use crate::shadow::elements::{Kind, Name};

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

/// `has_failed` means that cuDNN refused the operation or the graph.
pub(super) fn check(state: &State, place: OperationPosition<'_>, is_in_attention: bool, has_failed: bool) {
    let check = OperationCheck { state, place, is_in_attention, node: place.operation.node };
    if has_failed {
        check.finalized();
    }
    match check.node.kind {
        Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => check.pointwise(has_failed),
        Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR => check.matmul(has_failed),
        Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR => check.reduction(),
        kind => convolution_attributes(kind).into_iter().for_each(|attributes| check.convolution(attributes)),
    }
    check.outputs();
}

struct OperationCheck<'a> {
    state: &'a State,
    place: OperationPosition<'a>,
    is_in_attention: bool,
    node: &'a Node,
}

impl OperationCheck<'_> {
    fn report(&self, rule: &ValidationRule, what: &str) {
        self.state.report(rule, &format!("{}: {what}", self.place));
    }

    fn tensor(&self, name: Name) -> Option<&Operand<'_>> {
        self.place.operation.operand(name)
    }

    fn text(&self, operand: &Operand<'_>) -> String {
        tensor(self.place.operation, operand)
    }

    fn finalized(&self) {
        for (attribute, child) in self.place.operation.descriptors().filter(|(_, child)| !child.is_finalized) {
            let operand = self.tensor(attribute.name);
            let child = operand.map_or_else(|| subject(child.kind, child.uid()), |operand| self.text(operand));
            let name = super::texts::attribute(attribute.name);
            self.report(&rules::NOT_FINALIZED, &format!("{child} was not finalized before {name} was set"));
        }
    }

    fn pointwise(&self, has_failed: bool) {
        let mode = self.place.operation.child(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
        let mode = mode.and_then(|function| function.integer(Name::CUDNN_ATTR_POINTWISE_MODE));
        let (Some(mode), operation) = (mode.map(|mode| Mode(mode as u32)), self.place.operation) else { return };
        let b = self.tensor(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
        match (operands(mode), b) {
            (Operands::One, Some(b)) => {
                let what = format!("it has {}, but a {} has only operand X", self.text(b), operation.name);
                self.report(&rules::EXTRA_OPERAND, &what);
                return;
            }
            (Operands::Two, None)
                if has_failed && self.node.value(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC).is_none() =>
            {
                let name = attribute(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
                self.report(&rules::MISSING_OPERAND, &format!("operand B is missing: {name} is not set"));
            }
            _ => {}
        }
        let Some(output) = operation.outputs.first() else { return };
        // Engines for attention recognize the pattern of operations and ignore the shapes between them. For example,
        // cudnn-frontend 1.32 sets a wrong one in an attention with sink tokens.
        if self.is_in_attention && output.tensor.is_virtual() {
            return;
        }
        if operation.operands().any(|operand| operand.tensor.is_vectorized()) {
            return;
        }
        let (output_dims, inputs) = (output.tensor.extents(), &operation.inputs);
        let dims: Vec<_> = inputs.iter().map(|input| input.tensor.extents()).filter(|dims| !dims.is_empty()).collect();
        let list = || {
            let texts: Vec<_> = inputs
                .iter()
                .map(|input| format!("{} is {}", self.text(input), text(input.tensor.extents())))
                .collect();
            texts.join(" and ")
        };
        match shape::broadcast(&dims) {
            Some(Broadcast::Impossible(index)) => {
                let what = format!("{}, expected equal extents or 1 in dimension {index}", list());
                self.report(&rules::BROADCAST, &what);
            }
            Some(Broadcast::Shape(expected)) if !shape::is_broadcast_to(&expected, output_dims) => {
                self.wrong_shape(output, &expected);
            }
            _ => {}
        }
    }

    fn wrong_shape(&self, output: &Operand<'_>, expected: &[i64]) {
        let (output, actual, expected) = (self.text(output), text(output.tensor.extents()), text(expected));
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
        for name in needed.filter(|name| self.node.value(*name).is_none()) {
            self.report(&rules::MISSING_DESCRIPTOR, &format!("{} is not set", attribute(name)));
        }
        let [Some(a), Some(b), Some(c)] = TENSORS.map(|name| self.tensor(name)) else { return };
        let all = [a, b, c];
        if all.iter().any(|operand| operand.tensor.is_vectorized()) {
            return;
        }
        let [dims_a, dims_b, dims_c] = all.map(|operand| operand.tensor.extents());
        if dims_a.len() != dims_b.len() || dims_a.len() != dims_c.len() {
            if has_failed {
                let texts = all.map(|operand| format!("{} is {}", self.text(operand), text(operand.tensor.extents())));
                self.report(&rules::RANKS, &format!("{}, expected equal ranks", texts.join(", ")));
            }
            return;
        }
        let irregular = self.node.integer(Name::CUDNN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT);
        if let Some(expected) = shape::product(dims_a, dims_b, dims_c)
            && expected != dims_c
            && irregular.is_none_or(|count| count <= 1)
        {
            self.wrong_shape(c, &expected);
        }
        self.matmul_strides(all);
        let types = [a, b].map(|operand| operand.tensor.data_type());
        let types = types.map(|number| number.map(|number| DataType(number as u32)));
        let is_mixed = matches!(
            types,
            [Some(DataType::CUDNN_DATA_HALF), Some(DataType::CUDNN_DATA_BFLOAT16)]
                | [Some(DataType::CUDNN_DATA_BFLOAT16), Some(DataType::CUDNN_DATA_HALF)]
        );
        if is_mixed && !a.tensor.is_virtual() && !b.tensor.is_virtual() {
            let texts = [a, b].map(|operand| format!("{} is {}", self.text(operand), operand.tensor.type_name()));
            self.report(&rules::MIXED_MATMUL, &format!("{}, expected one type", texts.join(" and ")));
        }
    }

    fn matmul_strides(&self, tensors: [&Operand<'_>; 3]) {
        let is_strided = |Operand { tensor, .. }: &Operand<'_>| {
            let (strides, dims) = (tensor.strides(), tensor.extents());
            !tensor.is_virtual()
                && !strides.is_empty()
                && !strides.contains(&1)
                && dims.iter().rev().take(2).all(|extent| *extent > 1)
        };
        if tensors.iter().all(|operand| is_strided(operand)) {
            let texts = tensors
                .map(|operand| format!("{} has the strides {}", self.text(operand), text(operand.tensor.strides())));
            self.report(&rules::STRIDED_MATMUL, &format!("{}, expected a stride of 1", texts.join(", ")));
        }
    }

    fn reduction(&self) {
        let is_new =
            [Name::CUDNN_ATTR_OPERATION_REDUCTION_DIMS, Name::CUDNN_ATTR_OPERATION_REDUCTION_GROUP_OFFSET_DESC];
        let x = self.tensor(Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
        let y = self.tensor(Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
        let (Some(x), Some(y)) = (x, y) else { return };
        if is_new.iter().any(|name| self.node.value(*name).is_some()) || x.tensor.is_vectorized() {
            return;
        }
        let (dims, output) = (x.tensor.extents(), y.tensor.extents());
        if !shape::is_reduced_to(dims, output) {
            let (x, y) = (self.text(x), self.text(y));
            let what =
                format!("{y} is {}, but {x} is {}, expected extents that divide those", text(output), text(dims));
            self.report(&rules::WRONG_SHAPE, &what);
        }
    }

    /// Compares the tensors of a convolution. A backward pass has the same shapes as the forward pass.
    fn convolution(&self, [x, w, y, convolution]: [Name; 4]) {
        let [Some(x), Some(w), Some(y)] = [x, w, y].map(|name| self.tensor(name)) else { return };
        let Some(axes) = self.place.operation.child(convolution).and_then(shape::axes) else { return };
        if [x, w, y].iter().any(|operand| operand.tensor.is_vectorized()) {
            return;
        }
        let [dims, filter, actual] = [x, w, y].map(|operand| operand.tensor.extents());
        let Some(expected) = shape::convolved(dims, filter, &axes).filter(|expected| *expected != actual) else {
            return;
        };
        if self.place.operation.outputs.iter().any(|output| output.attribute == y.attribute) {
            self.wrong_shape(y, &expected);
        } else {
            let [x, w, y] = [x, w, y].map(|operand| self.text(operand));
            let (dims, filter, actual, expected) = (text(dims), text(filter), text(actual), text(&expected));
            let what = format!("{x} is {dims} and {w} is {filter}, which gives {expected}, but {y} is {actual}");
            self.report(&rules::WRONG_SHAPE, &what);
        }
    }

    fn outputs(&self) {
        for output in &self.place.operation.outputs {
            let tensor = output.tensor;
            let is_plain = !tensor.is_virtual()
                && !tensor.is_vectorized()
                && tensor.value(Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC).is_none();
            let (dims, strides) = (tensor.extents(), tensor.strides());
            if is_plain && overlaps(dims, strides) {
                let (dims, strides) = (text(dims), text(strides));
                let what = format!("{} is {dims} with the strides {strides}, which overlap", self.text(output));
                self.report(&rules::OVERLAP, &what);
            }
        }
    }
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
