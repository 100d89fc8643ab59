//! The request to replay a graph, and the report about it, as they are sent between processes.

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
    /// cuDNN's description of the device to plan for, if this machine has no GPU. Default: an H200.
    pub device: Option<String>,
    /// Whether to plan for `device`, without executing graphs, even if this machine has a GPU.
    #[serde(default)]
    pub plan_only: bool,
    /// The engines to try.
    pub engines: Engines,
    /// The program's execution, whose layout of the memory is reproduced.
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
    /// Returns a request to plan a graph for any device, and to execute the first engine that works once without values.
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
    /// The first engine that works, in the order of the heuristics.
    #[default]
    First,
    /// All engines that support the graph, with default knobs.
    All,
    /// This engine with these knobs.
    Forced(Engine),
}

/// The values of the inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataSet {
    /// Sparse small integers, whose sums and products are exact in every type.
    #[default]
    Integers,
    /// Values with a normal distribution.
    Normal,
    /// Large and small magnitudes with equal values, which sums must round and comparisons must order.
    Adversarial,
    /// The program's values, which the capture contains on request.
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
    /// The reason, if it is not success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the graph was not executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_executed: Option<String>,
    /// Whether the device is only described, so that no graph can be executed.
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
    /// Why the engine was skipped: the other fields are meaningless then.
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
    /// The reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The largest error of an output, in units of the type's precision: see the crate's documentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The errors of all outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputError>,
    /// The output with the largest error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_output: Option<i64>,
    /// The element with the largest error, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_element: Option<String>,
    /// Whether the error was measured on a sample of the outputs, because all of them would need too many multiplications.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_sampled: bool,
    /// Whether all captured outputs have the same bits as in the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as_captured: Option<bool>,
    /// Why there is no reference to compare with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_reference: Option<String>,
    /// A digest of all bits of the outputs.
    pub bits: String,
    /// Whether all repetitions returned the same bits.
    pub is_repeatable: bool,
    /// The memory that was changed although it belongs to no output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
}

impl Run {
    /// Returns a successful execution without further results.
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
    /// The fraction of the elements that were compared. The reference of the others is no number.
    pub compared: f64,
}

impl ReplayReport {
    /// Returns whether cuDNN could not load one of its libraries.
    pub fn lacks_library(&self) -> bool {
        self.status == cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED.into()
    }

    /// Sets the status and the reason of a failure.
    pub(super) fn fail(&mut self, error: &Error, during: &str) {
        self.status = error.status.into();
        let text = cudnn_backend::first_reason(&error.text);
        self.reason = Some(if text.is_empty() { during.to_owned() } else { format!("{during}: {text}") });
    }
}
