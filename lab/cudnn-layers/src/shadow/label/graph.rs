//! Describes operations and graphs.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use super::names::{self, short};
use super::tensor::{self, Named};
use crate::shadow::content::{Attribute, Content};
use crate::shadow::content::{Child, Value};
use crate::shadow::elements::{Kind, Name};

/// Maximum number of operations in a label.
const MAX_OPERATIONS: usize = 12;

/// An operation of a graph.
pub(crate) struct Operation<'a> {
    /// The name, such as `conv_fwd`.
    pub(crate) name: String,
    pub(crate) inputs: Vec<Named<'a>>,
    pub(crate) outputs: Vec<Named<'a>>,
    pub(crate) content: &'a Content,
}

/// Returns whether a descriptor is an operation of a graph.
pub(crate) fn is_operation(content: &Content) -> bool {
    content.kind.name().and_then(|name| name.to_str().ok()).is_some_and(|name| name.contains("_OPERATION_"))
}

/// Returns the operations of a graph and of the graphs that are nested in operations, such as the one of an attention.
pub(crate) fn all_operations(graph: &Content) -> Vec<Operation<'_>> {
    let mut all = operations(graph);
    // The depth of contents is limited.
    let children = all.iter().flat_map(|operation| descriptors(operation.content)).map(|(_, child)| child);
    let nested = children.filter(|child| child.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    let below: Vec<_> = nested.flat_map(|graph| all_operations(graph)).collect();
    all.extend(below);
    all
}

/// Returns the operations of a graph in the program's order.
pub(crate) fn operations(graph: &Content) -> Vec<Operation<'_>> {
    let operations = graph.children(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS);
    operations.iter().filter_map(Child::content).map(|it| Operation::new(it)).collect()
}

/// Returns the label of a graph.
pub(super) fn label(graph: &Content) -> String {
    let operations = operations(graph);
    let (inputs, outputs) = ends(&operations);
    describe(&operations, &inputs, &outputs)
}

/// Returns the label of one operation.
pub(super) fn operation_label(operation: &Content) -> String {
    let operation = Operation::new(operation);
    describe(std::slice::from_ref(&operation), &operation.inputs, &operation.outputs)
}

fn describe(operations: &[Operation<'_>], inputs: &[Named<'_>], outputs: &[Named<'_>]) -> String {
    let mut text = operation_names(operations);
    for (separator, tensors) in [(" ", inputs), (" -> ", outputs)] {
        if !tensors.is_empty() {
            text.push_str(separator);
            text.push_str(&tensor::list(tensors));
        }
    }
    // The main operation of a fusion comes first, such as a convolution or a matrix product.
    let main = operations.iter().find(|operation| !is_pointwise(operation.content)).or(operations.first());
    if let Some(compute_type) = main.and_then(|main| compute_type(main.content)) {
        let _ = write!(text, " / {compute_type}");
    }
    if let Some(convolution) = operations.iter().find_map(|operation| convolution(operation.content)) {
        describe_convolution(convolution, &mut text);
    }
    if let Some(order) = tensor::order(inputs.iter().chain(outputs)) {
        let _ = write!(text, ", {order}");
    }
    text
}

impl<'a> Operation<'a> {
    /// Returns the operation that a descriptor describes.
    pub(crate) fn new(content: &'a Content) -> Self {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let prefix = common_prefix(content);
        for (attribute, child) in descriptors(content) {
            if child.kind == Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR {
                let role = role(attribute.name, &prefix);
                let named = Named { role, tensor: child };
                if is_output(content, &named.role) { outputs.push(named) } else { inputs.push(named) }
            }
        }
        let name = operation_name(content, &inputs);
        Operation { name, inputs, outputs, content }
    }

    /// Returns whether the operation works on each element.
    pub(crate) fn is_pointwise(&self) -> bool {
        is_pointwise(self.content)
    }

    /// Returns the parameters that differ from the default, such as `, pad 1, stride 2`.
    pub(crate) fn parameters(&self) -> String {
        let mut text = String::new();
        if let Some(convolution) = convolution(self.content) {
            describe_convolution(convolution, &mut text);
        }
        text
    }

    /// Returns the inputs and outputs.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &Named<'a>> {
        self.inputs.iter().chain(&self.outputs)
    }

    /// Returns the compute type, such as `float`.
    pub(crate) fn compute_type(&self) -> Option<String> {
        compute_type(self.content)
    }
}

/// Returns the inputs and outputs of the graph: non-virtual tensors that no other operation writes or reads.
fn ends<'a>(operations: &[Operation<'a>]) -> (Vec<Named<'a>>, Vec<Named<'a>>) {
    let written: BTreeSet<_> = operations
        .iter()
        .flat_map(|operation| &operation.outputs)
        .filter_map(|named| tensor::uid(named.tensor))
        .collect();
    let is_set = |named: &Named<'_>, name| named.tensor.number(name) == Some(1);
    let mut seen = BTreeSet::new();
    let mut inputs: Vec<_> = operations.iter().flat_map(|operation| &operation.inputs).cloned().collect();
    inputs.retain(|named| {
        let uid = tensor::uid(named.tensor);
        let is_inner =
            is_set(named, Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL) || uid.is_some_and(|uid| written.contains(&uid));
        // Skip scalars such as an epsilon or the scale of an attention.
        let is_number = is_set(named, Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE);
        !is_inner && !is_number && uid.is_none_or(|uid| seen.insert(uid))
    });
    let mut outputs: Vec<_> = operations.iter().flat_map(|operation| &operation.outputs).cloned().collect();
    outputs.retain(|named| !is_set(named, Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL));
    (inputs, outputs)
}

/// Formats the operations as `conv_fwd + bias + relu`.
fn operation_names(operations: &[Operation<'_>]) -> String {
    let mut names: Vec<&str> = operations.iter().map(|operation| operation.name.as_str()).collect();
    join_softmax(&mut names);
    let more = names.len().saturating_sub(MAX_OPERATIONS);
    names.truncate(MAX_OPERATIONS);
    let mut text = names.join(" + ");
    if names.is_empty() {
        text.push_str("empty graph");
    }
    if more > 0 {
        let _ = write!(text, " + {more} more");
    }
    text
}

/// Replaces the operations that frontends use for a softmax with a single name.
fn join_softmax(names: &mut Vec<&str>) {
    const START: [&str; 4] = ["reduce_max", "sub", "exp", "reduce_add"];
    while let Some(start) = names.windows(START.len()).position(|window| window == START) {
        let body = names.iter().skip(start + START.len());
        // The logarithm and the sum are the statistics for training.
        let rest = body.take_while(|name| matches!(**name, "log" | "add" | "div")).count();
        names.splice(start..start + START.len() + rest, ["softmax"]);
    }
}

/// Returns the name of an operation, such as `conv_fwd`, `relu` or `layer_norm`.
fn operation_name(operation: &Content, inputs: &[Named<'_>]) -> String {
    let mode = |name, named: fn(i64) -> String| operation.number(name).map(named);
    let of_child = |child, name, named: fn(i64) -> String| operation.child(child)?.number(name).map(named);
    let special = match operation.kind {
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => Some("conv_fwd".to_owned()),
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => Some("conv_bwd_data".to_owned()),
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => Some("conv_bwd_filter".to_owned()),
        Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => {
            let mode = of_child(
                Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                Name::CUDNN_ATTR_POINTWISE_MODE,
                names::pointwise_mode,
            );
            mode.map(|mode| name_of_broadcast(mode, inputs))
        }
        Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR => {
            of_child(Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, Name::CUDNN_ATTR_REDUCTION_OPERATOR, names::reduction)
                .map(|operator| format!("reduce_{operator}"))
        }
        Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR => {
            mode(Name::CUDNN_ATTR_OPERATION_NORM_FWD_MODE, names::norm_mode)
        }
        Kind::CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR => {
            mode(Name::CUDNN_ATTR_OPERATION_NORM_BWD_MODE, names::norm_mode).map(|mode| mode + "_bwd")
        }
        Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR => {
            of_child(Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, Name::CUDNN_ATTR_RESAMPLE_MODE, names::resample_mode)
        }
        Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR => {
            of_child(Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, Name::CUDNN_ATTR_RESAMPLE_MODE, names::resample_mode)
                .map(|mode| mode + "_bwd")
        }
        _ => None,
    };
    special
        .or_else(|| short(operation.kind.name(), "CUDNN_BACKEND_OPERATION_", "_DESCRIPTOR"))
        .unwrap_or_else(|| format!("operation {}", operation.kind.0))
}

/// Returns the usual name of an addition or multiplication with a smaller tensor.
fn name_of_broadcast(mode: String, inputs: &[Named<'_>]) -> String {
    let other = inputs.iter().find(|named| named.role == "b").map(|named| named.tensor);
    match (mode.as_str(), other) {
        ("add", Some(b)) if tensor::is_per_channel(b) => "bias".to_owned(),
        ("mul", Some(b)) if tensor::is_scalar(b) || tensor::is_per_channel(b) => "scale".to_owned(),
        _ => mode,
    }
}

fn is_pointwise(operation: &Content) -> bool {
    operation.kind == Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR
}

/// Returns the compute type from the operation or from the descriptor of the function.
fn compute_type(operation: &Content) -> Option<String> {
    let is_type = |name: Name| {
        let name = name.name().and_then(|name| name.to_str().ok()).unwrap_or_default();
        name.ends_with("_COMP_TYPE") || name.ends_with("_MATH_PREC")
    };
    let of = |content: &Content| {
        let attribute = content.attributes.iter().find(|attribute| is_type(attribute.name))?;
        content.number(attribute.name)
    };
    let value = of(operation).or_else(|| descriptors(operation).find_map(|(_, child)| of(child)));
    value.map(names::data_type)
}

/// Returns the parameters of a convolution.
fn convolution(operation: &Content) -> Option<&Arc<Content>> {
    descriptors(operation)
        .map(|(_, child)| child)
        .find(|child| child.kind == Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
}

/// Adds parameters that differ from the default, such as `, pad 1, stride 2`.
fn describe_convolution(convolution: &Content, text: &mut String) {
    let before = convolution.numbers(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    let after = convolution.numbers(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    if before == after {
        list_unless(text, "pad", &before, 0);
    } else {
        list_unless(text, "pad before", &before, 0);
        list_unless(text, "pad after", &after, 0);
    }
    list_unless(text, "stride", &convolution.numbers(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), 1);
    list_unless(text, "dilation", &convolution.numbers(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS), 1);
}

fn list_unless(text: &mut String, what: &str, values: &[i64], usual: i64) {
    let Some(first) = values.first() else { return };
    if values.iter().all(|value| value == first) {
        if *first != usual {
            let _ = write!(text, ", {what} {first}");
        }
    } else {
        let values: Vec<_> = values.iter().take(8).map(i64::to_string).collect();
        let _ = write!(text, ", {what} {}", values.join("x"));
    }
}

/// Returns the descriptors among an operation's attributes.
pub(crate) fn descriptors(operation: &Content) -> impl Iterator<Item = (&Attribute, &Arc<Content>)> {
    operation.attributes.iter().flat_map(|attribute| {
        let children = match &attribute.value {
            Value::Descriptors(children) => &**children,
            _ => &[],
        };
        children.iter().filter_map(Child::content).map(move |child| (attribute, child))
    })
}

/// Returns the common prefix of the operation's attribute names, such as `CUDNN_ATTR_OPERATION_MATMUL_`.
fn common_prefix(operation: &Content) -> String {
    let mut names = operation.attributes.iter().filter_map(|attribute| attribute.name.name()?.to_str().ok());
    let Some(first) = names.next() else { return String::new() };
    let len = names.fold(first.len(), |len, name| {
        first.bytes().zip(name.bytes()).take(len).take_while(|(one, other)| one == other).count()
    });
    let common = first.get(..len).unwrap_or_default();
    common.rfind('_').and_then(|end| common.get(..=end)).unwrap_or_default().to_owned()
}

/// Returns the role of a tensor in an operation, such as `x` for `CUDNN_ATTR_OPERATION_POINTWISE_XDESC`.
fn role(name: Name, prefix: &str) -> String {
    let Some(name) = name.name().and_then(|name| name.to_str().ok()) else { return format!("attribute_{}", name.0) };
    let role = name.strip_prefix(prefix).unwrap_or(name);
    let role = ["_DESCS", "_DESC", "DESC"].iter().find_map(|suffix| role.strip_suffix(suffix)).unwrap_or(role);
    role.to_ascii_lowercase()
}

/// Returns whether an operation writes the tensor in this role.
fn is_output(operation: &Content, role: &str) -> bool {
    let is_backward_of_max = operation.kind == Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR;
    let is_set = |name| operation.attribute(name).is_some();
    match role {
        "y" => !is_backward_of_max && !is_set(Name::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC),
        "c" | "dx" | "dw" | "dq" | "dk" | "dv" | "dscale" | "dbias" | "dsink" | "dweight" | "output" | "sum"
        | "sqsum" => true,
        "o" | "stats" => operation.kind != Kind::CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR,
        "amax_s" | "amax_o" | "dropout_rng_dump" | "max" | "sum_exp" => true,
        "dbn_scale" | "dbn_bias" | "eq_dy_scale" | "eq_x_scale" | "eq_bias" | "eq_scale" => true,
        "updated_running_mean" | "updated_running_var" | "saved_mean" | "saved_inv_std" => true,
        "output_running_mean" | "output_running_var" => true,
        "idx" => operation.kind == Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
        "scale" => operation.kind == Kind::CUDNN_BACKEND_OPERATION_BLOCK_SCALE_QUANTIZE_DESCRIPTOR,
        // Training writes the statistics, while inference and the backward pass read them.
        "mean" | "inv_variance" => {
            let training = i64::from(cudnn_sys::types::cudnnBackendNormFwdPhase_t::CUDNN_NORM_FWD_TRAINING.0);
            operation.number(Name::CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) == Some(training)
        }
        _ => false,
    }
}
