//! The options of `tune`.

use std::path::PathBuf;

use crate::output_file::Replace;

/// The options of `tune`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The captures, for example of all processes of a program. With --merge: files that `tune` has written.
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Write the choices to this file. If it exists, graphs that it contains are not tuned again, and others are added.
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// Merge files with tuned choices instead of tuning. If several contain a graph, the last one counts.
    #[arg(long, conflicts_with_all = ["exhaustive", "graph", "time_limit", "steps", "memory", "html", "again"])]
    pub(super) merge: bool,
    /// Try all engines with all knobs, and not only the heuristics' proposals. This takes minutes for each graph.
    #[arg(long)]
    pub(super) exhaustive: bool,
    /// Tune graphs again that the output file contains.
    #[arg(long)]
    pub(super) again: bool,
    /// Tune only the graphs whose ids begin with this. Can be repeated.
    #[arg(long, value_name = "ID")]
    pub(super) graph: Vec<String>,
    /// Start no graph after this time. The next call continues.
    #[arg(long, value_name = "SECONDS")]
    pub(super) time_limit: Option<u64>,
    /// The number of steps in the capture, such as training steps, for the expected gain. Default: the greatest common
    /// divisor of the numbers of executions.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) steps: Option<u64>,
    /// Tune only graphs whose tensors need at most this memory, in GiB. The GPU needs up to ten times as much.
    #[arg(long, value_name = "GIB", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) memory: u16,
    /// Write the report as a web page to this file.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    #[command(flatten)]
    pub(super) replace: Replace,
}
