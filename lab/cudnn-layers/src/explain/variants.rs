//! Changes one property of a graph at a time to find a supported graph.

use std::collections::BTreeSet;

use cudnn_graph::edit::Edit;
use cudnn_graph::layout::{channels_last, order, packed, strides_in};
use cudnn_graph::names::data_type;
use cudnn_graph::{Attribute, Graph, Node, Operand, Operation, Value};
use cudnn_sys::types::cudnnDataType_t as DataType;

use super::drawing::tensors;
use crate::shadow::elements::{Kind, Name, Type};

const MAX_VARIANTS: usize = 64;

/// A graph that differs from the program's graph in one property.
pub(super) struct Variant {
    /// The change, such as `w (tensor 2) is half instead of float`.
    pub(super) change: String,
    pub(super) graph: Graph,
}

/// Returns the variants of a graph. Likely changes come first, because each attempt may compile code.
pub(super) fn variants(graph: &Graph) -> Vec<Variant> {
    let operations = Operation::nested_in(graph);
    let tensors = tensors(&operations);
    let search = Search { graph, operations: &operations, tensors: &tensors };
    let mut all = Vec::new();
    all.extend(search.alignment());
    all.extend(search.compute_types());
    all.extend(search.types_of_tensors());
    all.extend(search.broadcasts());
    all.extend(search.layouts());
    all.extend(search.extents());
    all.extend(search.types_of_all());
    all.extend(search.without_operations());
    all.truncate(MAX_VARIANTS);
    all
}

/// The types that most engines support.
const USUAL: [DataType; 3] = [DataType::CUDNN_DATA_HALF, DataType::CUDNN_DATA_BFLOAT16, DataType::CUDNN_DATA_FLOAT];

struct Search<'a> {
    graph: &'a Graph,
    operations: &'a [Operation<'a>],
    tensors: &'a [&'a Operand<'a>],
}

impl<'a> Search<'a> {
    fn with_tensors(&self, change: impl Fn(&mut Node)) -> Graph {
        self.edited(|node| {
            if node.kind == Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR {
                change(node);
            }
        })
    }

    /// Returns the graph with changed elements and the same references.
    fn edited(&self, change: impl Fn(&mut Node)) -> Graph {
        self.graph.edited(change).unwrap_or_default()
    }

    fn with_tensor(&self, operand: &Operand<'_>, change: impl Fn(&mut Node)) -> Graph {
        self.with_tensors(|tensor| {
            if tensor.uid() == operand.tensor.uid() {
                change(tensor);
            }
        })
    }

    fn in_memory(&self) -> impl Iterator<Item = &'a Operand<'a>> {
        self.tensors.iter().copied().filter(|operand| !operand.tensor.is_by_value())
    }

    fn alignment(&self) -> Option<Variant> {
        const NAME: Name = Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT;
        const USUAL: i64 = 16;
        let is_lower = |operand: &Operand<'_>| operand.tensor.alignment().is_some_and(|alignment| alignment < USUAL);
        self.in_memory().any(is_lower).then(|| Variant {
            change: format!("all tensors are aligned to {USUAL} bytes"),
            graph: self.with_tensors(|tensor| tensor.replace(NAME, integers(&[USUAL]))),
        })
    }

    fn types_of_tensors(&self) -> Vec<Variant> {
        let present: BTreeSet<i64> = self.in_memory().filter_map(|operand| operand.tensor.data_type()).collect();
        let mut types: Vec<i64> = present.iter().copied().collect();
        types.extend(USUAL.iter().map(|ty| i64::from(ty.0)).filter(|ty| !present.contains(ty)));
        let variant = |operand: &Operand<'_>, ty: i64| Variant {
            change: format!("{} is {} instead of {}", name(operand), data_type(ty), operand.tensor.type_name()),
            graph: self
                .with_tensor(operand, |tensor| tensor.replace(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, integers(&[ty]))),
        };
        // Types that the graph already uses are more plausible.
        types
            .iter()
            .flat_map(|ty| self.in_memory().map(move |operand| (operand, *ty)))
            .filter(|(operand, ty)| operand.tensor.data_type().is_some_and(|own| own != *ty))
            .map(|(operand, ty)| variant(operand, ty))
            .collect()
    }

    /// Changes the extents of inputs that cannot be broadcast to the output of a pointwise operation.
    fn broadcasts(&self) -> Vec<Variant> {
        let mut all = Vec::new();
        for operation in self.operations.iter().filter(|operation| operation.is_pointwise()) {
            let Some(output) = operation.outputs.first().map(|output| output.tensor.extents()) else { continue };
            for input in &operation.inputs {
                let extents = input.tensor.extents();
                let fits = |(own, of_output): (&i64, &i64)| if own == of_output { *own } else { 1 };
                let fitting: Vec<i64> = extents.iter().zip(output).map(fits).collect();
                if fitting.len() == extents.len()
                    && extents.iter().zip(&fitting).any(|(own, fit)| own != fit && *own != 1)
                {
                    all.push(Variant {
                        change: format!("{} has the extents {fitting:?} instead of {extents:?}", name(input)),
                        graph: self.with_tensor(input, |tensor| with_extents(tensor, &fitting)),
                    });
                }
            }
        }
        all
    }

    fn layouts(&self) -> Vec<Variant> {
        let channels_last = self.layout("channels-last", |extents| (4..=5).contains(&extents.len()), channels_last);
        channels_last.into_iter().chain(self.layout("packed in row-major order", |_| true, packed)).collect()
    }

    /// Returns the graph with these strides for suitable tensors, or `None` if they already have them.
    fn layout(
        &self,
        name: &str,
        is_possible: impl Fn(&[i64]) -> bool,
        strides: impl Fn(&[i64]) -> Vec<i64>,
    ) -> Option<Variant> {
        let differs = |operand: &Operand<'_>| {
            let extents = operand.tensor.extents();
            is_possible(extents) && operand.tensor.strides() != strides(extents)
        };
        self.in_memory().any(differs).then(|| Variant {
            change: format!("all tensors are {name}"),
            graph: self.with_tensors(|tensor| {
                let extents = tensor.extents();
                if is_possible(extents) {
                    let strides = strides(extents);
                    tensor.replace(Name::CUDNN_ATTR_TENSOR_STRIDES, Value::Integers(strides));
                }
            }),
        })
    }

    /// Rounds extents up, because many engines need multiples of a small number.
    fn extents(&self) -> Vec<Variant> {
        const UNIT: i64 = 8;
        let distinct: BTreeSet<i64> =
            self.tensors.iter().flat_map(|operand| operand.tensor.extents()).copied().collect();
        let rounded = distinct.iter().filter(|extent| **extent > 1 && *extent % UNIT != 0);
        let rounded = rounded.map(|extent| (*extent, extent.saturating_add(UNIT - extent % UNIT)));
        let variant = |(from, to): (i64, i64)| Variant {
            change: format!("the extent {from} is {to} in all tensors"),
            graph: self.with_tensors(|tensor| {
                let extents = tensor.extents();
                let changed: Vec<i64> = extents.iter().map(|own| if *own == from { to } else { *own }).collect();
                if changed != extents {
                    with_extents(tensor, &changed);
                }
            }),
        };
        rounded.map(variant).collect()
    }

    fn compute_types(&self) -> Vec<Variant> {
        let present: BTreeSet<String> = self.operations.iter().filter_map(Operation::compute_type).collect();
        let types = [DataType::CUDNN_DATA_FLOAT, DataType::CUDNN_DATA_INT32];
        let types = types.map(|ty| (i64::from(ty.0), data_type(i64::from(ty.0))));
        let others = types.into_iter().filter(|(_, name)| !present.is_empty() && present.iter().any(|own| own != name));
        let variant = |(ty, name): (i64, String)| Variant {
            change: format!("all operations compute in {name}"),
            graph: self.edited(|node| {
                let is_type = |attribute: &&Attribute| {
                    attribute.ty == Type::CUDNN_TYPE_DATA_TYPE && node.kind != Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR
                };
                if let Some(name) = node.attributes.iter().find(is_type).map(|attribute| attribute.name) {
                    node.replace(name, integers(&[ty]));
                }
            }),
        };
        others.map(variant).collect()
    }

    /// Changes the type of all tensors with the same type.
    fn types_of_all(&self) -> Vec<Variant> {
        let present: BTreeSet<i64> = self.in_memory().filter_map(|operand| operand.tensor.data_type()).collect();
        let pairs =
            present.iter().flat_map(|from| USUAL.map(|to| (*from, i64::from(to.0)))).filter(|(from, to)| from != to);
        let variant = |(from, to): (i64, i64)| Variant {
            change: format!("all {} tensors are {}", data_type(from), data_type(to)),
            graph: self.with_tensors(|tensor| {
                let name = Name::CUDNN_ATTR_TENSOR_DATA_TYPE;
                if tensor.data_type() == Some(from) {
                    tensor.replace(name, integers(&[to]));
                }
            }),
        };
        pairs.map(variant).collect()
    }

    /// Removes an operation that no other operation depends on, or that depends on no other operation.
    fn without_operations(&self) -> Vec<Variant> {
        let all = Operation::all_of(self.graph);
        if all.len() < 2 {
            return Vec::new();
        }
        let ids =
            |operands: &[Operand<'_>]| operands.iter().filter_map(|it| it.tensor.uid()).collect::<BTreeSet<i64>>();
        let mut variants = Vec::new();
        for (index, operation) in all.iter().enumerate().rev() {
            let others = || all.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, operation)| operation);
            let read: BTreeSet<i64> = others().flat_map(|other| ids(&other.inputs)).collect();
            let written: BTreeSet<i64> = others().flat_map(|other| ids(&other.outputs)).collect();
            let is_last = ids(&operation.outputs).is_disjoint(&read);
            let is_first = ids(&operation.inputs).is_disjoint(&written);
            if !is_last && !is_first {
                continue;
            }
            let mut edit = Edit::new(self.graph);
            edit.keep_operations(|place| place != index);
            let change = format!(
                "the graph {} {} (operation {} of {})",
                if is_last { "ends before" } else { "starts after" },
                operation.name,
                index + 1,
                all.len()
            );
            variants.extend(edit.finish().map(|graph| Variant { change, graph }));
        }
        variants
    }
}

fn name(operand: &Operand<'_>) -> String {
    operand.tensor.uid().map_or_else(|| operand.role.clone(), |uid| format!("{} (tensor {uid})", operand.role))
}

fn integers(integers: &[i64]) -> Value {
    Value::Integers(integers.to_vec())
}

/// Changes the extents of a tensor. The order of the dimensions in memory stays the same, without gaps.
fn with_extents(tensor: &mut Node, extents: &[i64]) {
    let strides = strides_in(&order(extents, tensor.strides()), extents);
    tensor.replace(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, integers(extents));
    tensor.replace(Name::CUDNN_ATTR_TENSOR_STRIDES, Value::Integers(strides));
}
