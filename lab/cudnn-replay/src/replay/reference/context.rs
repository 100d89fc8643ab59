//! Provides the values of tensors to operations.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use cudnn_graph::{Graph, Node};
use cudnn_loader::cudnnBackendAttributeName_t as Name;

use super::super::tensor::{Array, Tensor};
use super::{MAX_PRODUCTS, rounding};

pub(super) struct Context<'a> {
    pub(super) graph: &'a Graph,
    values: BTreeMap<i64, Array>,
    /// The values of outputs before the execution.
    former: BTreeMap<i64, Array>,
    computed: BTreeSet<i64>,
    /// The precision of the least precise type.
    precision: f64,
    products_left: Cell<u64>,
}

pub(super) type Results = Result<Vec<(i64, Array)>, String>;

impl<'a> Context<'a> {
    /// Returns a context with the values before the first operation.
    pub(super) fn new(graph: &'a Graph, given: BTreeMap<i64, Array>) -> Self {
        let computed: BTreeSet<i64> = graph.nodes().iter().flat_map(|node| graph.outputs(node)).collect();
        let (former, values) = given.into_iter().partition(|(uid, _)| computed.contains(uid));
        let precision = rounding::precision(graph);
        Context { graph, values, former, computed, precision, products_left: Cell::new(MAX_PRODUCTS) }
    }

    pub(super) fn with_products(self, products: u64) -> Self {
        Context { products_left: Cell::new(products), ..self }
    }

    /// Returns a context for a nested graph that reads these tensors.
    pub(super) fn inside(&self, read: &[i64], input: (i64, Array)) -> Self {
        let known = read.iter().filter_map(|uid| Some((*uid, self.values.get(uid)?.clone())));
        let mut values: BTreeMap<i64, Array> = known.collect();
        let mut computed = self.computed.clone();
        computed.insert(input.0);
        values.insert(input.0, input.1);
        let Context { graph, precision, .. } = *self;
        Context {
            graph,
            values,
            former: BTreeMap::new(),
            computed,
            precision,
            products_left: self.products_left.clone(),
        }
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

    pub(super) fn optional(&self, operation: &Node, name: Name) -> Option<&Array> {
        let tensor = self.graph.children(operation, name).first().copied()?;
        self.values.get(&tensor.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID)?)
    }

    pub(super) fn input(&self, operation: &Node, name: Name) -> Result<&Array, String> {
        self.optional(operation, name).ok_or_else(|| format!("{} is not set", label(name)))
    }

    /// Selects the results for the outputs that an operation has.
    pub(super) fn results(&self, operation: &Node, outputs: impl IntoIterator<Item = (Name, Array)>) -> Results {
        let present = outputs.into_iter().filter(|(name, _)| operation.value(*name).is_some());
        present.map(|(name, array)| Ok((self.output(operation, name)?.0, array))).collect()
    }

    pub(super) fn is_computed(&self, operation: &Node, name: Name) -> bool {
        let tensor = self.graph.children(operation, name).first().copied();
        let uid = tensor.and_then(|tensor| tensor.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID));
        uid.is_some_and(|uid| self.computed.contains(&uid))
    }

    /// Returns how far rounding may move the values of an attribute's tensor. Inputs of the graph are exact.
    pub(super) fn uncertainty(&self, operation: &Node, name: Name) -> f64 {
        let tensor = self.tensor(operation, name).ok().filter(|tensor| self.computed.contains(&tensor.uid));
        let array = tensor.and_then(|tensor| Some((tensor.ty, self.values.get(&tensor.uid)?)));
        array.map_or(0.0, |(ty, array)| rounding::uncertainty(&array.values, ty, self.precision))
    }

    pub(super) fn value(&self, uid: i64) -> Option<&Array> {
        self.values.get(&uid)
    }

    pub(super) fn tensor(&self, operation: &Node, name: Name) -> Result<Tensor, String> {
        let tensor = self.graph.children(operation, name).first().copied();
        Tensor::new(tensor.ok_or_else(|| format!("{} is not set", label(name)))?)
    }

    pub(super) fn output(&self, operation: &Node, name: Name) -> Result<(i64, Vec<usize>), String> {
        let tensor = self.tensor(operation, name)?;
        Ok((tensor.uid, tensor.dims))
    }

    pub(super) fn former(&self, uid: i64) -> Result<&Array, String> {
        self.former.get(&uid).ok_or_else(|| "the former values of an output are unknown".to_owned())
    }

    /// Returns whether enough multiplications are left.
    pub(super) fn can_spend(&self, products: Option<u64>) -> bool {
        products.is_some_and(|products| products <= self.products_left.get())
    }

    /// Counts multiplications. After a failure, none are left.
    pub(super) fn spend(&self, products: Option<u64>) -> Result<(), String> {
        let left = products.and_then(|products| self.products_left.get().checked_sub(products));
        self.products_left.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or_else(|| "it needs too many multiplications".to_owned())
    }
}

/// Returns an element of a tensor that is only partially known.
pub(super) type Pull<'a> = dyn Fn(i64, usize) -> Result<f64, String> + 'a;

pub(super) enum Operand<'a> {
    Known(&'a Array),
    Unknown(Option<i64>),
}

impl<'a> Operand<'a> {
    pub(super) fn new(context: &'a Context<'_>, operation: &Node, name: Name) -> Self {
        match context.optional(operation, name) {
            Some(array) => Operand::Known(array),
            None => {
                let tensor = context.graph.children(operation, name).first().copied();
                Operand::Unknown(tensor.and_then(|tensor| tensor.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID)))
            }
        }
    }

    pub(super) fn get(&self, index: usize, pull: &Pull<'_>) -> Result<f64, String> {
        match self {
            Operand::Known(array) => Ok(array.get(index)),
            Operand::Unknown(Some(uid)) => pull(*uid, index),
            Operand::Unknown(None) => Err("an operand is missing".to_owned()),
        }
    }
}

pub(super) fn label(name: Name) -> String {
    name.name().map_or_else(|| format!("attribute {}", name.0), |name| name.to_string_lossy().into_owned())
}
