//! Selects a graph of a capture, with the releases that were captured.

use cudnn_capture_file::{Capture, FORMAT, Graph, Record, Start};
use cudnn_loader::devices::H200;

use crate::device::completed;
use crate::replay::capture::{Captured, graphs};

/// A graph and the circumstances under which it was captured.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The graph, its plan, execution and device.
    pub captured: Captured,
    /// The releases that the program used.
    pub start: Start,
}

impl Case {
    /// Selects a graph by its id, or by the first digits of its id.
    ///
    /// # Errors
    /// Returns an error if no graph or more than one graph has the id.
    pub fn select(capture: &Capture, id: &str) -> Result<Self, String> {
        let mut matching = graphs(capture);
        matching.retain(|graph| graph.id.starts_with(id));
        let captured = match (matching.pop(), matching.first()) {
            (Some(captured), None) => captured,
            (None, _) => {
                return Err(format!("the capture has no graph {id:?}; `cudnn-doctor capture show` lists them"));
            }
            (Some(_), Some(_)) => return Err(format!("the capture has more than one graph {id:?}; add digits")),
        };
        let is_graph = |record: &Record| matches!(record, Record::Graph(graph) if graph.graph == captured.id);
        let before = capture.records.iter().take_while(|record| !is_graph(record));
        let starts = before.filter_map(|record| if let Record::Start(start) = record { Some(start) } else { None });
        let start = starts.last().cloned().unwrap_or(Start { format: FORMAT, cudnn: 0, cudart: 0 });
        Ok(Case { captured, start })
    }

    pub(super) fn graph(&self) -> &Graph {
        &self.captured.graph
    }

    /// Returns cuDNN's description of the device, with the members that newer releases need.
    pub(super) fn device(&self) -> String {
        completed(self.captured.device.as_deref().unwrap_or(H200).trim_end_matches('\0'))
    }
}
