//! The engines of one graph, best first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use cudnn_graph::names::is_heuristics_mode;
use cudnn_probe::{Capability, Release};

use crate::object::{read_object, read_objects};
use crate::unique::read_unique;

/// The maximum length of a label in bytes, because layers write it to the log.
const MAX_LABEL: usize = 4096;
/// The maximum number of proposals in a mode of the heuristics. cuDNN 9.28 returns up to 200.
pub const MAX_PROPOSALS: usize = 512;
/// The maximum number of modes of the heuristics.
const MAX_MODES: usize = 16;
/// The maximum number of engines of a graph.
const MAX_ENGINES: usize = 10_000;

/// The engines of a graph on a device with a release of cuDNN, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranking {
    /// The release of cuDNN.
    pub cudnn: Release,
    /// The model of the GPU.
    #[serde(deserialize_with = "read_object")]
    pub device: Device,
    /// The id of the graph: 16 hexadecimal digits, as in captures.
    pub graph: String,
    /// The graph in one line, for display.
    #[serde(default)]
    pub label: String,
    /// The number of executions in the program.
    #[serde(default)]
    pub executions: u64,
    /// The index of the heuristics' first choice in `engines`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<usize>,
    /// The engines, best first. Engines with a problem come last.
    #[serde(deserialize_with = "read_objects")]
    pub engines: Vec<Choice>,
    /// For each mode of the heuristics, such as `mode_a`, the places of its proposals in `engines`, in cuDNN's order.
    #[serde(default, deserialize_with = "read_unique", skip_serializing_if = "BTreeMap::is_empty")]
    pub proposals: BTreeMap<String, Vec<usize>>,
}

/// A model of GPUs, as cuDNN describes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The name, such as `NVIDIA H200`.
    pub name: String,
    /// The compute capability.
    pub compute_capability: Capability,
}

/// An engine with its knobs and measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The index of the engine.
    pub engine: i64,
    /// The values of the knobs by name, such as `TILE_SIZE`.
    #[serde(default, deserialize_with = "read_unique", skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<String, i64>,
    /// The names of the notes, such as `tensor_core`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The median time of an execution in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_us: Option<f64>,
    /// The spread of the times in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_us: Option<f64>,
    /// The size of the workspace in bytes.
    #[serde(default)]
    pub workspace: u64,
    /// The largest difference from the reference, relative to the tolerance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Whether the heuristics propose it in a mode that programs use. The layer cannot select other engines.
    #[serde(default)]
    pub proposed: bool,
    /// Why programs should not use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<EngineProblem>,
}

/// A problem of an engine, with an explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineProblem {
    /// The results are wrong.
    Wrong(String),
    /// It writes outside of its tensors and workspace.
    Damaging(String),
    /// Two executions return different results.
    Nondeterministic(String),
    /// It cannot be built or executed.
    Failed(String),
}

impl Ranking {
    /// Returns the key. A newer ranking replaces an older one with the same key.
    pub fn key(&self) -> (Release, &Device, &str) {
        (self.cudnn, &self.device, &self.graph)
    }

    /// Returns whether the heuristics' own choice is the best engine and no engine is dangerous, so that programs can
    /// keep the heuristics' order.
    pub fn confirms_heuristics(&self) -> bool {
        let is_right = |choice: &Choice| choice.problem.is_none();
        self.default == Some(0) && self.engines.first().is_some_and(is_right) && !self.has_dangerous()
    }

    /// Returns whether an engine returns wrong results or damages memory.
    pub fn has_dangerous(&self) -> bool {
        self.engines.iter().any(Choice::is_dangerous)
    }

    /// Checks values that the types do not restrict.
    ///
    /// # Errors
    /// Returns the graph and the reason.
    pub fn check(&self) -> Result<(), String> {
        let error = |reason: String| Err(format!("graph {:?}: {reason}", self.graph));
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if self.graph.len() != 16 || !self.graph.bytes().all(is_digit) {
            return error("the id of a graph has 16 hexadecimal digits".into());
        }
        if self.device.name.is_empty() {
            return error("the device has no name".into());
        }
        if self.label.len() > MAX_LABEL || self.engines.len() > MAX_ENGINES {
            return error(format!("it has more than {MAX_LABEL} bytes of label or {MAX_ENGINES} engines"));
        }
        if self.engines.is_empty() {
            return error("it has no engines".into());
        }
        if self.default.is_some_and(|default| default >= self.engines.len()) {
            return error("the default is not the place of an engine".into());
        }
        if self.proposals.len() > MAX_MODES || self.proposals.values().any(|places| places.len() > MAX_PROPOSALS) {
            return error(format!("it has more than {MAX_MODES} modes or {MAX_PROPOSALS} proposals"));
        }
        for (mode, places) in &self.proposals {
            if !is_heuristics_mode(mode) {
                return error(format!("{mode:?} is not a mode of the heuristics"));
            }
            if places.iter().any(|place| *place >= self.engines.len()) {
                return error("a proposal is not the place of an engine".into());
            }
            if places.iter().collect::<BTreeSet<_>>().len() < places.len() {
                return error(format!("{mode} proposes an engine twice"));
            }
        }
        let mut known = BTreeSet::new();
        for choice in &self.engines {
            if choice.engine < 0 {
                return error(format!("engine {} is negative", choice.engine));
            }
            let is_invalid = |number: &f64| !(number.is_finite() && *number >= 0.0);
            if [choice.time_us, choice.spread_us, choice.error].iter().flatten().any(is_invalid) {
                return error(format!("{choice}: times and errors must not be negative"));
            }
            if !known.insert((choice.engine, &choice.knobs)) {
                return error(format!("{choice} occurs twice"));
            }
        }
        Ok(())
    }
}

impl Choice {
    /// Returns whether the engine returns wrong results or damages memory.
    pub fn is_dangerous(&self) -> bool {
        self.problem.as_ref().is_some_and(EngineProblem::is_dangerous)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "engine {}", self.engine)?;
        self.knobs.iter().try_for_each(|(knob, value)| write!(f, " {knob}={value}"))
    }
}

impl EngineProblem {
    /// Returns whether the engine returns wrong results or damages memory.
    pub fn is_dangerous(&self) -> bool {
        matches!(self, EngineProblem::Wrong(_) | EngineProblem::Damaging(_))
    }

    /// Returns the explanation.
    pub fn text(&self) -> &str {
        match self {
            EngineProblem::Wrong(text)
            | EngineProblem::Damaging(text)
            | EngineProblem::Nondeterministic(text)
            | EngineProblem::Failed(text) => text,
        }
    }
}
