//! The options of `replay`.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cudnn_replay::replay::capture::Captured;
use cudnn_replay::replay::{DataSet, Engines, Request};
use serde_json::{Value, json};

use super::gate::Gate;
use crate::captures::CaptureFiles;
use crate::graph_arguments::MemoryOption;
use crate::output_file::Replace;

/// The key for the method of measuring times.
pub(super) const TIMING: &str = "timing";
/// The current method. Only times with the same method are compared.
const TIMING_METHOD: &str = "median with an empty L2 cache";

/// The options of `replay`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The captures, for example of all processes of a program. Each graph is replayed once.
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Compare two releases: names such as 9.10 or cu12-9.10.2, which are fetched if necessary, or directories.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], group = "comparison")]
    pub(super) compare: Option<Vec<String>>,
    /// Replay with this release instead of the cuDNN that programs would load: a name or directory, as for --compare.
    #[arg(long, value_name = "RELEASE", conflicts_with = "compare")]
    pub(super) cudnn: Option<String>,
    /// Only plan, for this GPU, which is not needed here: a name in `cudnn-lab devices`, or a file that `cudnn-lab devices
    /// --here` has written on a machine with the GPU. Can be repeated without --compare, to compare GPUs.
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) device: Vec<PathBuf>,
    /// Replay only the graphs whose ids begin with this. Can be repeated.
    #[arg(long, value_name = "ID")]
    pub(super) graph: Vec<String>,
    /// The engines to try: the first one that works, the captured one with its knobs, or all.
    #[arg(long, value_enum, default_value_t = EngineChoice::First)]
    engines: EngineChoice,
    /// The values of the inputs.
    #[arg(long, value_parser = data_sets(), value_delimiter = ',', default_value = "integers,normal,adversarial")]
    data: Vec<DataSet>,
    /// Execute each plan this number of times and compare the bits.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    #[command(flatten)]
    memory: MemoryOption,
    /// Measure the time of an execution.
    #[arg(long)]
    time: bool,
    /// Write the comparison as a web page to this file.
    #[arg(long, value_name = "FILE", requires = "comparison")]
    pub(super) html: Option<PathBuf>,
    #[command(flatten)]
    pub(super) gate: Gate,
    #[command(flatten)]
    pub(super) replace: Replace,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineChoice {
    First,
    Captured,
    All,
}

fn data_sets() -> impl TypedValueParser<Value = DataSet> {
    PossibleValuesParser::new(["integers", "normal", "adversarial", "captured"])
        .try_map(|name| serde_json::from_value::<DataSet>(name.into()))
}

impl Arguments {
    /// Returns the options that must match the options of a baseline, for `--json`.
    pub(super) fn value(&self) -> Value {
        let Arguments { engines, data, repeat, memory, time, .. } = self;
        let engines = engines.to_possible_value().map(|value| value.get_name().to_owned());
        let memory = memory.memory;
        json!({ "engines": engines, "data": data, "repeat": repeat, "memory": memory, "time": time, TIMING: TIMING_METHOD })
    }

    pub(super) fn needs_values(&self) -> bool {
        self.data == [DataSet::Captured]
    }

    /// Returns the engines to try, or `None` if the capture contains no engine for the graph.
    pub(super) fn engines(&self, captured: &Captured) -> Option<Engines> {
        match self.engines {
            EngineChoice::First => Some(Engines::First),
            EngineChoice::All => Some(Engines::All),
            EngineChoice::Captured => captured.plan.as_ref().and_then(|plan| plan.engine.clone()).map(Engines::Forced),
        }
    }

    /// Returns the request for a graph, or `None` if the capture contains no engine for it.
    pub(super) fn request(&self, captured: &Captured, file: &CaptureFiles) -> Option<Request> {
        Some(Request {
            engines: self.engines(captured)?,
            max_bytes: self.memory.bytes(),
            repeat: self.repeat,
            time: self.time,
            ..captured.request(file.path_of(captured), &self.data)
        })
    }
}
