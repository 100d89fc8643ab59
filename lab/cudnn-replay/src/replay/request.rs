//! The request to replay a graph and the report about it, which processes exchange.

use std::path::PathBuf;

use cudnn_graph::Graph;
use cudnn_loader::{Error, cudnnStatus_t};
use cudnn_store::captures::{DataRecord, Engine, ExecutionRecord, Status};
use serde::{Deserialize, Serialize};

use super::status::ReportStatus;

/// The default of [`Request::max_bytes`]: 2 GiB.
pub const DEFAULT_MAX_BYTES: usize = 2 << 30;

/// A graph to replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The graph.
    pub graph: Graph,
    /// cuDNN's description of the device to plan for, if this machine has no GPU. The default is an H200.
    pub device: Option<String>,
    /// Whether to only plan for `device`, even if this machine has a GPU.
    #[serde(default)]
    pub plan_only: bool,
    /// The engines to try.
    pub engines: Engines,
    /// The program's execution with the layout of the memory to reproduce.
    pub execution: Option<ExecutionRecord>,
    /// The values of the inputs.
    pub data: Vec<DataSet>,
    /// The files for [`DataSet::Captured`].
    pub values: Option<CapturedValues>,
    /// Maximum size of all tensors in bytes. Larger graphs are only planned.
    pub max_bytes: usize,
    /// The number of executions with the same values.
    pub repeat: u32,
    /// Whether to measure the time of an execution.
    pub time: bool,
}

impl Request {
    /// Returns a request to plan a graph for any device and to execute the first engine that works once.
    pub fn new(graph: Graph) -> Self {
        Request {
            graph,
            device: None,
            plan_only: false,
            engines: Engines::First,
            execution: None,
            data: Vec::new(),
            values: None,
            max_bytes: DEFAULT_MAX_BYTES,
            repeat: 1,
            time: false,
        }
    }
}

/// The files with the values of tensors before and after an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapturedValues {
    /// The directory of the files.
    pub dir: PathBuf,
    /// The records of the files.
    pub records: Vec<DataRecord>,
}

/// The engines to try.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engines {
    /// The first working engine, in the order of the heuristics.
    #[default]
    First,
    /// All engines that support the graph, with default knobs.
    All,
    /// An engine with knobs.
    Forced(Engine),
}

/// The values of the inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataSet {
    /// Sparse small integers. Their sums and products are exact in every type.
    #[default]
    Integers,
    /// Normally distributed values.
    Normal,
    /// Large and small magnitudes with equal values, to test the rounding of sums and the order of comparisons.
    Adversarial,
    /// Captured values of the program.
    Captured,
}

/// The result of replaying a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayReport {
    /// cuDNN's version, such as 91900.
    pub cudnn: usize,
    /// The name of the device.
    pub device: String,
    /// Success if a plan could be built, or if cuDNN accepts the descriptors of a failed call.
    pub status: ReportStatus,
    /// The reason for a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the graph was not executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_executed: Option<String>,
    /// Whether the device is only described, so that graphs cannot be executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_described: bool,
    /// The parts of the request that were skipped, with the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// The number of proposals of the heuristics in the modes A and FALLBACK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposals: Option<[usize; 2]>,
    /// The number of engines that support the graph, if all engines can be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supporting: Option<usize>,
    /// The plans: one, or one for each engine.
    pub plans: Vec<PlanReport>,
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanReport {
    /// The engine.
    pub engine: Engine,
    /// Why the engine was skipped. The other fields are then meaningless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// The size of the workspace in bytes.
    pub workspace: u64,
    /// The time to build the plan in microseconds.
    pub build_us: u64,
    /// The median time of an execution with an empty L2 cache, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<f64>,
    /// The executions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
}

/// The executions with the values of a data set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The data set.
    pub data: DataSet,
    /// Success, or the status of the failure.
    pub status: Status,
    /// The reason for a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The largest error of an output, in units of the type's precision at the largest value of the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The errors of all outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputError>,
    /// The output with the largest error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_output: Option<i64>,
    /// A description of the element with the largest error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_element: Option<String>,
    /// Whether only a sample of the outputs was compared, because all would need too many multiplications.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_sampled: bool,
    /// Whether all captured outputs have the same bits as in the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as_captured: Option<bool>,
    /// Why there is no reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_reference: Option<String>,
    /// A digest of all bits of the outputs.
    pub bits: String,
    /// Whether all repetitions returned the same bits.
    pub is_repeatable: bool,
    /// Descriptions of changed memory that does not belong to an output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
}

impl Run {
    pub(crate) fn success(data: DataSet) -> Self {
        Run { data, status: Status::SUCCESS, is_repeatable: true, ..Run::default() }
    }
}

/// The error of an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputError {
    /// The unique id of the tensor.
    pub uid: i64,
    /// The largest error of an element, as in [`Run::error`].
    pub error: f64,
    /// The fraction of compared elements. The reference of the other elements is NaN.
    pub compared: f64,
}

impl ReplayReport {
    /// Returns whether cuDNN could not load one of its libraries.
    pub fn lacks_library(&self) -> bool {
        self.status == cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED.into()
    }

    pub(super) fn fail(&mut self, error: &Error, during: &str) {
        self.status = error.status.into();
        let text = cudnn_backend::first_reason(&error.text);
        self.reason = Some(if text.is_empty() { during.to_owned() } else { format!("{during}: {text}") });
    }
}
