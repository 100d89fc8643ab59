//! The task to tune a graph and the answers, which processes exchange.

use std::collections::BTreeMap;

use cudnn_graph::Graph;
use cudnn_store::captures::ExecutionRecord;
use cudnn_store::choices::Choice;
use serde::{Deserialize, Serialize};

/// A graph to tune.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The graph.
    pub graph: Graph,
    /// The program's execution with the layout of the memory to reproduce.
    pub execution: Option<ExecutionRecord>,
    /// The heuristics modes of the program, in its order (`cudnnBackendHeurMode_t`).
    pub modes: Vec<i64>,
    /// Whether to try every engine with every knob, in addition to the heuristics' proposals.
    pub is_exhaustive: bool,
    /// The maximum size of all tensors in bytes.
    pub max_bytes: usize,
    /// Candidates to skip because they terminated a process or broke the device, with the reasons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<usize, String>,
}

/// The answer of a process to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuneAnswer {
    /// The graph was tuned, or cannot be tuned.
    Tuned(TuneReport),
    /// A candidate broke the device, or failed while it was measured, so the process must not be used again.
    Broke {
        /// The number of the candidate.
        candidate: usize,
        /// The reason.
        reason: String,
    },
}

/// The result for a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TuneReport {
    /// cuDNN's version, such as 91900.
    pub cudnn: usize,
    /// The name of the device.
    pub device: String,
    /// The compute capability of the device in tenths.
    pub compute_capability: u32,
    /// Why the graph was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Why the outputs were compared only with the outputs of the first candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_reference: Option<String>,
    /// The engines, best first.
    pub candidates: Vec<CandidateReport>,
    /// The index of the heuristics' first working choice among the candidates.
    pub default: Option<usize>,
    /// The time of each phase in milliseconds.
    pub phases: Phases,
}

/// An engine that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CandidateReport {
    /// The engine with its measurements.
    pub choice: Choice,
    /// The heuristics modes that propose the engine, with its index among their proposals.
    pub proposals: Vec<(i64, usize)>,
    /// The time to build the plan in microseconds.
    pub build_us: u64,
    /// The number of measured executions.
    pub runs: usize,
}

/// The time of each phase in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Waiting for the inputs.
    pub inputs: f64,
    /// Asking the heuristics.
    pub heuristics: f64,
    /// Building plans.
    pub build: f64,
    /// Executing each plan twice, and comparing its outputs.
    pub check: f64,
    /// Measuring.
    pub race: f64,
    /// Waiting for the reference, and for comparisons on the CPU.
    pub reference: f64,
}

impl Phases {
    /// Returns the sum, phase by phase.
    pub fn plus(self, other: Phases) -> Phases {
        Phases {
            inputs: self.inputs + other.inputs,
            heuristics: self.heuristics + other.heuristics,
            build: self.build + other.build,
            check: self.check + other.check,
            race: self.race + other.race,
            reference: self.reference + other.reference,
        }
    }
}
