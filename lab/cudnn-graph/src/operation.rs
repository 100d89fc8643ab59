//! The operations of a graph: their names, and the roles of the tensors that they read and write.

use cudnn_sys::types::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use crate::graph::{Graph, Node};
use crate::names::{self, ATTRIBUTES, KINDS, NORM_MODES, POINTWISE_MODES, REDUCTIONS, RESAMPLE_MODES};
use crate::outputs::is_output;

/// An operation of a graph.
#[derive(Clone)]
pub struct Operation<'a> {
    /// The name, such as `conv_fwd`.
    pub name: String,
    /// The tensors that it reads.
    pub inputs: Vec<Operand<'a>>,
    /// The tensors that it writes.
    pub outputs: Vec<Operand<'a>>,
    /// The descriptor.
    pub node: &'a Node,
    graph: &'a Graph,
}

/// A tensor with its role in an operation.
#[derive(Clone)]
pub struct Operand<'a> {
    /// The role, such as `x`.
    pub role: String,
    /// The attribute of the operation.
    pub attribute: Name,
    /// The tensor.
    pub tensor: &'a Node,
}

/// Returns whether descriptors of this kind are operations.
pub fn is_operation(kind: Kind) -> bool {
    KINDS.known(i64::from(kind.0) as u32).is_some_and(|name| name.starts_with("OPERATION_"))
}

impl<'a> Operation<'a> {
    /// Returns the operations of a graph in the program's order.
    pub fn all_of(graph: &'a Graph) -> Vec<Self> {
        graph.operations().into_iter().map(|node| Operation::new(graph, node)).collect()
    }

    /// Returns the operations of a graph and of the graphs that are nested in operations, such as an attention.
    pub fn nested_in(graph: &'a Graph) -> Vec<Self> {
        let mut all = Operation::all_of(graph);
        let mut next = 0;
        // Nested graphs precede the operation, so the loop ends.
        while let Some(operation) = all.get(next) {
            let children = graph.descriptors(operation.node).map(|(_, child)| child);
            let nested = children.filter(|child| child.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
            let nested = nested.flat_map(|child| graph.children(child, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS));
            let below: Vec<_> = nested.map(|node| Operation::new(graph, node)).collect();
            all.extend(below);
            next += 1;
            if all.len() > crate::MAX_NODES {
                break;
            }
        }
        all
    }

    /// Returns the operation that a descriptor of a graph describes.
    pub fn new(graph: &'a Graph, node: &'a Node) -> Self {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let prefix = attribute_prefix(node.kind).unwrap_or_default();
        for (attribute, tensor) in graph.descriptors(node) {
            if tensor.kind == Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR {
                let operand = Operand { role: role(attribute.name, &prefix), attribute: attribute.name, tensor };
                let side = if is_output(node, attribute.name) { &mut outputs } else { &mut inputs };
                side.push(operand);
            }
        }
        let name = name(graph, node, &inputs);
        Operation { name, inputs, outputs, node, graph }
    }

    /// Returns the inputs and outputs.
    pub fn operands(&self) -> impl Iterator<Item = &Operand<'a>> {
        self.inputs.iter().chain(&self.outputs)
    }

    /// Returns the first tensor of an attribute.
    pub fn operand(&self, attribute: Name) -> Option<&Operand<'a>> {
        self.operands().find(|operand| operand.attribute == attribute)
    }

    /// Returns whether the operation works on each element.
    pub fn is_pointwise(&self) -> bool {
        self.node.kind == Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR
    }

    /// Returns the descriptors that the operation refers to, with the attributes.
    pub fn descriptors(&self) -> impl Iterator<Item = (&'a crate::graph::Attribute, &'a Node)> {
        self.graph.descriptors(self.node)
    }

    /// Returns the first descriptor of an attribute.
    pub fn child(&self, attribute: Name) -> Option<&'a Node> {
        self.graph.children(self.node, attribute).first().copied()
    }

    /// Returns the compute type, such as `float`, from the operation or from the descriptor of the function.
    pub fn compute_type(&self) -> Option<String> {
        let is_type = |name: Name| {
            let name = ATTRIBUTES.known(i64::from(name.0) as u32).unwrap_or_default();
            name.ends_with("_COMP_TYPE") || name.ends_with("_MATH_PREC")
        };
        let of = |node: &Node| {
            let attribute = node.attributes.iter().find(|attribute| is_type(attribute.name))?;
            node.integer(attribute.name)
        };
        let value = of(self.node).or_else(|| self.descriptors().find_map(|(_, child)| of(child)));
        value.map(names::data_type)
    }

    /// Returns the descriptor with the parameters of a convolution.
    pub fn convolution(&self) -> Option<&'a Node> {
        let mut children = self.descriptors().map(|(_, child)| child);
        children.find(|child| child.kind == Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
    }
}

/// Returns the attributes of a forward or backward convolution: image, filter, output, and parameters.
pub fn convolution_attributes(kind: Kind) -> Option<[Name; 4]> {
    Some(match kind {
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => [
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        ],
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => [
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        ],
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => [
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        ],
        _ => return None,
    })
}

/// Kinds of operations that are named by their mode if it is known.
pub(crate) const NAMED_BY_MODE: [Kind; 6] = [
    Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
    Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,
];

/// Returns the name of a kind of operation, such as `conv_fwd` or `matmul`.
pub(crate) fn name_of_kind(kind: Kind) -> Option<String> {
    let name = KINDS.known(i64::from(kind.0) as u32)?.strip_prefix("OPERATION_")?;
    Some(match name {
        "CONVOLUTION_FORWARD" => "conv_fwd".to_owned(),
        "CONVOLUTION_BACKWARD_DATA" => "conv_bwd_data".to_owned(),
        "CONVOLUTION_BACKWARD_FILTER" => "conv_bwd_filter".to_owned(),
        name => name.to_ascii_lowercase(),
    })
}

fn name(graph: &Graph, node: &Node, inputs: &[Operand<'_>]) -> String {
    let of_child = |child, mode| graph.children(node, child).first()?.integer(mode);
    let resample = |child| Some(RESAMPLE_MODES.short(of_child(child, Name::CUDNN_ATTR_RESAMPLE_MODE)?, "resample"));
    let norm = |mode| Some(NORM_MODES.short(node.integer(mode)?, "norm"));
    let by_mode = match node.kind {
        Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => {
            let mode = of_child(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, Name::CUDNN_ATTR_POINTWISE_MODE);
            mode.map(|mode| name_of_broadcast(POINTWISE_MODES.short(mode, "pointwise"), inputs))
        }
        Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR => {
            let operator = of_child(Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, Name::CUDNN_ATTR_REDUCTION_OPERATOR);
            operator.map(|operator| format!("reduce_{}", REDUCTIONS.short(operator, "operator")))
        }
        Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR => norm(Name::CUDNN_ATTR_OPERATION_NORM_FWD_MODE),
        Kind::CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR => {
            norm(Name::CUDNN_ATTR_OPERATION_NORM_BWD_MODE).map(|mode| mode + "_bwd")
        }
        Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR => resample(Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC),
        Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR => {
            resample(Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC).map(|mode| mode + "_bwd")
        }
        _ => None,
    };
    by_mode.or_else(|| name_of_kind(node.kind)).unwrap_or_else(|| format!("operation {}", node.kind.0))
}

/// Returns the usual name of an addition or multiplication with a smaller tensor.
fn name_of_broadcast(mode: String, inputs: &[Operand<'_>]) -> String {
    let is_b = |operand: &&Operand<'_>| operand.attribute == Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
    let other = inputs.iter().find(is_b).map(|operand| operand.tensor);
    match (mode.as_str(), other) {
        ("add", Some(b)) if b.is_per_channel() => "bias".to_owned(),
        ("mul", Some(b)) if b.is_scalar() || b.is_per_channel() => "scale".to_owned(),
        _ => mode,
    }
}

/// Returns the start of the names of a descriptor's attributes, such as `OPERATION_NORM_FWD`.
pub fn attribute_prefix(kind: Kind) -> Option<String> {
    let name = KINDS.known(i64::from(kind.0) as u32)?;
    Some(match name {
        "OPERATION_GEN_STATS" => "OPERATION_GENSTATS".to_owned(),
        "OPERATION_BN_FINALIZE_STATISTICS" => "OPERATION_BN_FINALIZE".to_owned(),
        "OPERATION_CONVOLUTION_FORWARD" => name.to_owned(),
        _ => name.replace("_FORWARD", "_FWD").replace("_BACKWARD", "_BWD"),
    })
}

fn role(name: Name, prefix: &str) -> String {
    let Some(name) = ATTRIBUTES.known(i64::from(name.0) as u32) else { return format!("attribute_{}", name.0) };
    let role = name.strip_prefix(prefix).and_then(|role| role.strip_prefix('_')).unwrap_or(name);
    let role = ["_DESCS", "_DESC", "DESC"].iter().find_map(|suffix| role.strip_suffix(suffix)).unwrap_or(role);
    role.to_ascii_lowercase()
}

/// Returns whether the tensors that an operation reads and writes are known.
pub fn has_known_roles(operation: &Operation<'_>) -> bool {
    let mut children = operation.descriptors().map(|(_, child)| child);
    let has_graph = children.any(|child| child.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    !has_graph
        && matches!(
            operation.node.kind,
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_BLOCK_SCALE_QUANTIZE_DESCRIPTOR
        )
}
