//! Selects a graph or a failed call of a capture, with the releases that were captured.

use std::path::Path;

use cudnn_graph::Graph;
use cudnn_loader::devices::H200;
use cudnn_store::captures::{Capture, FORMAT, FailureRecord, Record, StartRecord, Status, Tensor, values_dir};

use super::values::read_values;
use crate::device::completed;
use crate::replay::capture::{Captured, graphs};
use crate::replay::captured::TensorValues;

/// A graph or a failed call, and the circumstances under which it was captured.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The graph, with the plan, execution and device. For a failed call, the descriptors of [`FailureRecord::graph`].
    pub captured: Captured,
    /// The releases that the program used.
    pub start: StartRecord,
    /// The failed call. `None` for a graph.
    pub failure: Option<FailureRecord>,
    /// The values of tensors. Empty if the program generates them.
    pub(super) values: TensorValues,
}

impl Case {
    /// Selects a graph or a failed call by the first digits of the id.
    ///
    /// # Errors
    /// Returns an error unless exactly one graph matches.
    pub fn select(capture: &Capture, id: &str) -> Result<Self, String> {
        let mut matching = graphs([capture]).into_iter().filter(|graph| graph.id.starts_with(id));
        let Some(captured) = matching.next() else {
            let refused = failures(capture).find_map(|failure| failure.graph().err());
            let refused = refused.map_or(String::new(), |reason| format!(". A failed call is without id: {reason}"));
            return Err(format!("the capture has no graph {id:?}{refused}"));
        };
        if matching.any(|other| other.id != captured.id) {
            return Err(format!("the capture has more than one graph {id:?}; add digits"));
        }
        let is_graph = |record: &Record| matches!(record, Record::Graph(graph) if graph.graph == captured.id);
        let is_failure = |record: &Record| match record {
            Record::Failure(failure) => failure.graph().is_ok_and(|graph| graph.id() == captured.id),
            _ => false,
        };
        let records = || capture.records.iter();
        let place = records().position(is_graph).or_else(|| records().position(is_failure)).unwrap_or(0);
        let before = capture.records.get(..place).unwrap_or_default().iter();
        let mut starts = before.filter_map(|record| if let Record::Start(start) = record { Some(start) } else { None });
        let start = starts.next_back().cloned().unwrap_or(StartRecord { format: FORMAT, cudnn: 0, cudart: 0 });
        let failure = match capture.records.get(place) {
            Some(Record::Failure(failure)) => Some(failure.clone()),
            _ => None,
        };
        Ok(Case { captured, start, failure, values: TensorValues::default() })
    }

    /// Makes the captured values of tensors of this capture file a part of the program.
    ///
    /// # Errors
    /// Returns the reason if the capture contains values, but the program generates them instead.
    pub fn read_values(&mut self, file: &Path) -> Result<(), String> {
        if self.captured.values.is_empty() {
            return Ok(());
        }
        let values = read_values(&values_dir(file), &self.captured.values)?;
        let is_lacking = |tensor: &&Tensor| {
            let in_device_memory = tensor.memory.is_some() && tensor.value.is_none();
            in_device_memory && !values.before.contains_key(&tensor.uid)
        };
        let tensors = self.captured.execution.iter().flat_map(|execution| &execution.tensors);
        if let Some(tensor) = tensors.into_iter().find(is_lacking) {
            return Err(format!("the values of tensor {} are missing in the capture", tensor.uid));
        }
        self.values = values;
        Ok(())
    }

    /// Selects the device to plan for by its description. What the captured device did with the graph is forgotten, except
    /// for the layout of the memory: the plan, and a failed execution.
    pub fn plan_for(&mut self, description: &str) {
        self.captured.plan_for(description);
        self.captured.plan = None;
        self.captured.execution =
            self.captured.execution.take().filter(|execution| execution.status == Status::SUCCESS);
    }

    pub(super) fn graph(&self) -> &Graph {
        &self.captured.graph
    }

    /// Returns cuDNN's description of the device, with the members that newer releases need.
    pub(super) fn device(&self) -> String {
        completed(self.captured.device.as_deref().unwrap_or(H200).trim_end_matches('\0'))
    }
}

fn failures(capture: &Capture) -> impl Iterator<Item = &FailureRecord> {
    capture.records.iter().filter_map(|record| if let Record::Failure(failure) = record { Some(failure) } else { None })
}
