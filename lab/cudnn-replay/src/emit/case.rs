//! Selects a graph or a failed call of a capture, with the releases that were captured.

use std::path::Path;

use cudnn_graph::Graph;
use cudnn_loader::cudnnBackendAttributeName_t as Name;
use cudnn_loader::devices::H200;
use cudnn_store::captures::{
    Capture, DataRecord, Engine, FailureRecord, Process, Record, StartRecord, Status, Tensor, values_dir,
};

use crate::device::completed;
use crate::replay::capture::{Captured, graphs};
use crate::replay::captured::TensorValues;

/// A graph or a failed call, with the context in which it was captured.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The graph, with the plan, execution and device. For a failed call, the descriptors of [`FailureRecord::graph`].
    pub captured: Captured,
    /// The releases that the program used.
    pub start: StartRecord,
    /// The failed call, or `None` for a graph.
    pub failure: Option<FailureRecord>,
    /// The values of tensors, or none if the program generates them.
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
        let find = |is_wanted: &dyn Fn(&Record) -> bool| {
            let found = |process: Process<'_>| {
                let record = process.records.iter().find(|record| is_wanted(record))?;
                Some((process.start.clone(), record.clone()))
            };
            capture.processes().find_map(found)
        };
        let (start, failure) = match find(&is_graph).or_else(|| find(&is_failure)) {
            Some((start, Record::Failure(failure))) => (start, Some(failure)),
            Some((start, _)) => (start, None),
            None => return Err(format!("the capture has no graph {id:?}")),
        };
        Ok(Case { captured, start, failure, values: TensorValues::default() })
    }

    /// Adds the captured values of tensors to the program.
    ///
    /// # Errors
    /// Returns the reason if the program must generate values although the capture contains some.
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

    /// Selects the device to plan for by its description. Removes results of the captured device: the plan and a failed
    /// execution. The layout of the memory remains.
    pub fn plan_for(&mut self, description: &str) {
        self.captured.plan_for(description);
        self.captured.plan = None;
        self.captured.execution =
            self.captured.execution.take().filter(|execution| execution.status == Status::SUCCESS);
    }

    pub(super) fn graph(&self) -> &Graph {
        &self.captured.graph
    }

    pub(super) fn engine(&self) -> Option<&Engine> {
        self.captured.plan.as_ref()?.engine.as_ref()
    }

    pub(super) fn has_handle(&self) -> bool {
        self.graph().root().is_some_and(|root| root.value(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE).is_some())
    }

    /// Returns cuDNN's description of the device, completed for newer releases.
    pub(super) fn device(&self) -> String {
        completed(self.captured.device.as_deref().unwrap_or(H200).trim_end_matches('\0'))
    }
}

fn failures(capture: &Capture) -> impl Iterator<Item = &FailureRecord> {
    capture.records.iter().filter_map(|record| if let Record::Failure(failure) = record { Some(failure) } else { None })
}

const MAX_VALUES: u64 = 64 << 10;

fn read_values(dir: &Path, records: &[DataRecord]) -> Result<TensorValues, String> {
    let total = records.iter().fold(0_u64, |sum, record| sum.saturating_add(record.bytes));
    if total > MAX_VALUES {
        return Err(format!("the captured values have {total} bytes, and a program contains at most {MAX_VALUES}"));
    }
    TensorValues::read(dir, records.iter().map(|record| (record, record.bytes as usize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_files_of_the_directory_are_read() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let size = |name: &str| std::fs::metadata(dir.join(name)).unwrap().len();
        let record = |file: &str, bytes| {
            let file = file.to_owned();
            DataRecord { plan: 0, execution: 1, uid: 7, is_after: file == "README.md", file, bytes }
        };
        let (manifest, readme) = (size("Cargo.toml"), size("README.md"));
        let values = read_values(dir, &[record("Cargo.toml", manifest), record("README.md", readme)]).unwrap();
        assert_eq!(values.before[&7], std::fs::read(dir.join("Cargo.toml")).unwrap());
        assert_eq!(values.after[&7].len() as u64, readme);
        for (file, bytes, reason) in [
            ("src/lib.rs", size("src/lib.rs"), "contains a directory"),
            ("Cargo.toml", manifest + 1, "it has"),
            ("Cargo.toml", MAX_VALUES + 1, "a program contains at most"),
        ] {
            let refused = read_values(dir, &[record(file, bytes)]).unwrap_err();
            assert!(refused.contains(reason), "{file}: {refused}");
        }
        let large = [record("Cargo.toml", u64::MAX), record("README.md", readme)];
        assert!(read_values(dir, &large).unwrap_err().contains("a program contains at most"));
    }
}
