//! The options of commands that work on one graph of a capture, or execute graphs.

use std::path::{Path, PathBuf};

use cudnn_replay::emit::Case;

use crate::captures::{self, CaptureFile};
use crate::devices::DeviceOption;

/// The graph of a capture that a command works on.
#[derive(clap::Args)]
pub(crate) struct GraphArguments {
    /// The capture.
    pub(crate) file: PathBuf,
    /// The id of the graph, or the first digits of the id. `cudnn-lab capture show` lists them.
    #[arg(long, value_name = "ID")]
    graph: String,
    #[command(flatten)]
    device: DeviceOption,
}

impl GraphArguments {
    pub(crate) fn inputs(&self) -> Vec<&Path> {
        [&self.file].into_iter().chain(&self.device.device).map(PathBuf::as_path).collect()
    }

    /// Returns the selected graph of a capture for the selected device.
    pub(crate) fn select(&self, file: &CaptureFile) -> Result<Case, String> {
        let device = self.device.select()?;
        let case = Case::select(&file.capture, &self.graph);
        let mut case = case.map_err(|error| captures::no_graph(std::slice::from_ref(&self.file), error))?;
        if let Some(device) = device {
            case.plan_for(&device.description);
        }
        Ok(case)
    }
}

/// The limit for the memory of commands that execute graphs.
#[derive(clap::Args)]
pub(crate) struct MemoryOption {
    /// Execute only graphs whose tensors need at most this memory, in GiB. The host needs up to five times as much, and
    /// up to 10 GiB for the reference.
    #[arg(long, value_name = "GIB", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) memory: u16,
}

impl MemoryOption {
    pub(crate) fn bytes(&self) -> usize {
        captures::gibibytes(self.memory)
    }
}
