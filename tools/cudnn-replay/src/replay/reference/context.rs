//! Provides the values of tensors to operations.

use std::cell::Cell;
use std::collections::BTreeMap;

use cudnn_capture_file::{Graph, Node, Value};
use cudnn_loader::cudnnBackendAttributeName_t as Name;

use super::super::tensor::{Array, Tensor};
use super::{MAX_ELEMENTS, MAX_PRODUCTS};

/// The values that are known so far.
pub(super) struct Context<'a> {
    pub(super) graph: &'a Graph,
    values: BTreeMap<i64, Array>,
    /// The values of outputs before the execution.
    former: BTreeMap<i64, Array>,
    products_left: Cell<u64>,
}

/// The outputs of an operation by uid.
pub(super) type Results = Result<Vec<(i64, Array)>, String>;

impl<'a> Context<'a> {
    pub(super) fn new(graph: &'a Graph, given: BTreeMap<i64, Array>) -> Result<Self, String> {
        let mut count = 0;
        for node in graph.tensors() {
            count += Tensor::new(node)?.count();
        }
        if count > MAX_ELEMENTS {
            return Err("the tensors are too large".to_owned());
        }
        let written: Vec<i64> = graph.operations().into_iter().flat_map(|operation| graph.outputs(operation)).collect();
        let (former, values) = given.into_iter().partition(|(uid, _)| written.contains(uid));
        Ok(Context { graph, values, former, products_left: Cell::new(MAX_PRODUCTS) })
    }

    pub(super) fn is_known(&self, uid: i64) -> bool {
        self.values.contains_key(&uid)
    }

    pub(super) fn insert(&mut self, uid: i64, array: Array) {
        self.values.insert(uid, array);
    }

    pub(super) fn into_values(self) -> BTreeMap<i64, Array> {
        self.values
    }

    /// Returns the values of an attribute's tensor, if it is set.
    pub(super) fn optional(&self, operation: &Node, name: Name) -> Option<&Array> {
        let tensor = self.graph.children(operation, name).first().copied()?;
        self.values.get(&tensor.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID)?)
    }

    /// Returns the values of an attribute's tensor.
    pub(super) fn input(&self, operation: &Node, name: Name) -> Result<&Array, String> {
        self.optional(operation, name).ok_or_else(|| format!("{} is not set", label(name)))
    }

    /// Returns the uid and the extents of an attribute's tensor.
    pub(super) fn output(&self, operation: &Node, name: Name) -> Result<(i64, Vec<usize>), String> {
        let tensor = self.graph.children(operation, name).first().copied();
        let tensor = Tensor::new(tensor.ok_or_else(|| format!("{} is not set", label(name)))?)?;
        Ok((tensor.uid, tensor.dims))
    }

    /// Returns the values of an output before the execution.
    pub(super) fn former(&self, uid: i64) -> Result<&Array, String> {
        self.former.get(&uid).ok_or_else(|| "a virtual tensor is accumulated".to_owned())
    }

    /// Counts multiplications.
    pub(super) fn spend(&self, products: Option<u64>) -> Result<(), String> {
        let left = products.and_then(|products| self.products_left.get().checked_sub(products));
        self.products_left.set(left.ok_or_else(|| format!("it needs more than {MAX_PRODUCTS} multiplications"))?);
        Ok(())
    }
}

/// Returns the floating-point number of an attribute.
pub(super) fn float(node: &Node, name: Name) -> Option<f64> {
    match node.value(name) {
        Some(Value::Floats(floats)) => floats.first().copied(),
        _ => None,
    }
}

fn label(name: Name) -> String {
    name.name().map_or_else(|| "an attribute".to_owned(), |name| name.to_string_lossy().into_owned())
}
