//! The records of a capture.

use std::collections::BTreeMap;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use cudnn_graph::names::KNOBS;
use cudnn_graph::{Graph, Node};

use super::status::Status;
use crate::object::{read_objects, read_optional_object};

/// The version of the format. It is raised for records that readers must understand.
pub const FORMAT: u32 = 1;

/// The first bytes of a capture.
pub const START: &str = "{\"record\":\"start\"";

/// A line of a capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Record {
    /// A process has started to capture. Ordinals in later records count from here.
    Start(StartRecord),
    /// A device that graphs are planned for.
    Device(DeviceRecord),
    /// A graph that was planned for the first time.
    Graph(GraphRecord),
    /// A graph that cannot be stored.
    Incomplete(IncompleteRecord),
    /// The heuristics were queried.
    Proposals(ProposalsRecord),
    /// A plan was finalized, or failed.
    Plan(PlanRecord),
    /// A plan was executed for the first time.
    Execution(ExecutionRecord),
    /// A plan was executed repeatedly.
    Count(CountRecord),
    /// A call of the backend API has failed.
    Failure(FailureRecord),
    /// A function outside the backend API was called.
    Call(CallRecord),
    /// The values of a tensor.
    Data(DataRecord),
}

/// See [`Record::Start`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartRecord {
    /// The version of the format: see [`FORMAT`].
    pub format: u32,
    /// cuDNN's version as `cudnnGetVersion` returns it, such as 91900.
    pub cudnn: usize,
    /// The CUDA runtime that cuDNN was built for (`cudnnGetCudartVersion`), such as 13000.
    pub cudart: usize,
}

/// See [`Record::Device`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceRecord {
    /// The ordinal of the device in the capture of this process.
    pub device: usize,
    /// cuDNN's description in JSON. Before 9.8, captures do not contain this record because cuDNN has no description.
    pub description: String,
}

/// See [`Record::Graph`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphRecord {
    /// The id of the graph: see [`Graph::id`].
    pub graph: String,
    /// The graph in one line, for display.
    pub label: String,
    /// The descriptors.
    pub nodes: Graph,
}

/// See [`Record::Incomplete`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncompleteRecord {
    /// The graph in one line, for display.
    pub label: String,
    /// Why it cannot be stored.
    pub reason: String,
}

/// See [`Record::Proposals`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProposalsRecord {
    /// The id of the graph.
    pub graph: String,
    /// The ordinal of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<usize>,
    /// The number of the heuristics mode (`cudnnBackendHeurMode_t`).
    pub mode: i64,
    /// The number of proposals.
    pub count: usize,
}

/// See [`Record::Plan`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// The ordinal of the plan in the capture of this process.
    pub plan: usize,
    /// The id of the graph.
    pub graph: String,
    /// The ordinal of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<usize>,
    /// The status of finalizing, such as `SUCCESS`.
    pub status: Status,
    /// cuDNN's last error, if finalizing failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The engine, if cuDNN reports it.
    #[serde(default, deserialize_with = "read_optional_object", skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// The place among the proposals of the heuristics, and their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<(usize, usize)>,
    /// The size of the workspace in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<i64>,
    /// The time to finalize in microseconds.
    pub build_us: u64,
}

impl PlanRecord {
    /// Returns what identifies a plan: the graph, the device, the status and the engine with its knobs.
    pub fn key(&self) -> impl Hash + PartialEq {
        let engine = self.engine.as_ref().map(|engine| (engine.index, &engine.knobs));
        (&self.graph, self.device, self.status, engine)
    }
}

/// An engine with its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// The index of the engine.
    pub index: i64,
    /// The values of the knobs by name, such as `TILE_SIZE`. See also [`Engine::knob_number`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<String, i64>,
    /// The names of the notes, such as `tensor_core`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Engine {
    /// Returns the number of a knob's name.
    pub fn knob_number(name: &str) -> Option<u32> {
        KNOBS.number(name)
    }

    /// Returns the name of a knob.
    pub fn knob_name(number: u32) -> String {
        KNOBS.name(number)
    }
}

/// See [`Record::Execution`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecutionRecord {
    /// The ordinal of the plan.
    pub plan: usize,
    /// The status of the execution.
    pub status: Status,
    /// Whether the call only added to a CUDA graph, which runs later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_cuda_graph: bool,
    /// The tensors of the variant pack, in the program's order.
    #[serde(deserialize_with = "read_objects")]
    pub tensors: Vec<Tensor>,
    /// The memory for the workspace.
    #[serde(default, deserialize_with = "read_optional_object", skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Memory>,
}

/// A tensor of a variant pack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tensor {
    /// The unique id.
    pub uid: i64,
    /// Where the values are; `None` for a null pointer.
    #[serde(default, deserialize_with = "read_optional_object", skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// The values in host memory, as hexadecimal text, if they are small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Returns bytes as hexadecimal text.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of hexadecimal text, or `None` if it is damaged.
pub(crate) fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

impl Tensor {
    /// Returns the bytes of the stored value, or `None` if it is missing or damaged.
    pub fn value_bytes(&self) -> Option<Vec<u8>> {
        from_hexadecimal(self.value.as_ref()?)
    }
}

/// A range of memory, without its address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The ordinal of the buffer in this execution. Overlapping tensors are in the same buffer.
    pub buffer: usize,
    /// The distance from the start of the buffer in bytes.
    pub offset: u64,
    /// The number of bytes between the first and the last element, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<u64>,
    /// The largest power of two that divides the address, up to 4096.
    pub alignment: u64,
    /// Whether it is host memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_host: bool,
}

/// See [`Record::Count`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountRecord {
    /// The ordinal of the plan.
    pub plan: usize,
    /// The number of executions so far.
    pub executions: u64,
}

/// See [`Record::Failure`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// The function.
    pub call: String,
    /// The status, such as `BAD_PARAM`.
    pub status: Status,
    /// cuDNN's last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The refused attribute, if the call sets one: name, type, count and elements as hexadecimal text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<(String, u32, i64, Option<String>)>,
    /// The descriptor before the call, with everything that it refers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub descriptors: Vec<Node>,
}

/// See [`Record::Call`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The function.
    pub function: String,
    /// The number of calls since the function's last record. Older captures have a record for each set of arguments.
    #[serde(default = "one")]
    pub calls: u64,
}

fn one() -> u64 {
    1
}

/// Returns whether a function of the older API searches for or selects a convolution algorithm.
pub fn is_search(function: &str) -> bool {
    function.starts_with("cudnnFindConvolution")
        || function.starts_with("cudnnGetConvolution") && function.ends_with("Algorithm_v7")
}

/// See [`Record::Data`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataRecord {
    /// The ordinal of the plan.
    pub plan: usize,
    /// The number of the execution, from 1.
    pub execution: u64,
    /// The tensor.
    pub uid: i64,
    /// Whether the values were read after the execution.
    pub is_after: bool,
    /// The name of the file with the values, in the directory of the capture with the suffix `.data`.
    pub file: String,
    /// The number of bytes.
    pub bytes: u64,
}

impl Record {
    /// Returns the record as a line.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}
