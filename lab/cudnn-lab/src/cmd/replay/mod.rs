//! `replay`: replays the graphs of a capture, and compares two releases of cuDNN.
//!
//! | module | purpose |
//! | --- | --- |
//! | `releases` | selects the releases of a comparison |
//! | `text` | prints the reports |

mod releases;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, count, outln, remark};
use cudnn_cli::subprocess::{Spinner, Timeouts};
use cudnn_cli::temporary;
use cudnn_os::interruption::{Interruption, Signal};
use cudnn_replay::replay::capture::{Captured, graphs};
use cudnn_replay::replay::comparison::{self, Row, status};
use cudnn_replay::replay::{DataSet, Engines, Report, Request, page};
use serde_json::{Value, json};

use crate::captures::{self, CaptureFile};
use crate::output_file::{Kind, Output, Replace};
use crate::replay_worker::{Replayer, Stop};
use text::Table;

/// The pages of `--html`.
const PAGE: Kind = Kind { name: "a page of `replay`", is_start: page::is_page, may_be_device: true };

/// The options of `replay`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The capture.
    file: PathBuf,
    /// Compare two releases: names such as 9.10 or cu12-9.10.2, which are fetched if necessary, or directories.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    compare: Option<Vec<String>>,
    /// Replay only the graphs whose ids begin with this. Can be repeated.
    #[arg(long, value_name = "ID")]
    graph: Vec<String>,
    /// The engines to try: the first one that works, the captured one with its knobs, or all.
    #[arg(long, value_enum, default_value_t = EngineChoice::First)]
    engines: EngineChoice,
    /// The values of the inputs.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "integers,normal,adversarial")]
    data: Vec<DataChoice>,
    /// Execute each plan this number of times and compare the bits.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Execute only graphs whose tensors need at most this memory, in GiB. The host needs up to five times as much, and
    /// up to 10 GiB for the reference.
    #[arg(long, value_name = "GIB", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    memory: u16,
    /// Measure the time of an execution.
    #[arg(long)]
    time: bool,
    /// Write the comparison as a web page to this file.
    #[arg(long, value_name = "FILE", requires = "compare")]
    html: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineChoice {
    First,
    Captured,
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DataChoice {
    Integers,
    Normal,
    Adversarial,
    Captured,
}

pub(crate) fn run(arguments: &Arguments, timeouts: &Timeouts, format: Format) -> CommandResult {
    let file = captures::read(&arguments.file)?;
    let inputs = [arguments.file.as_path()];
    let html = arguments.html.as_ref();
    let html = html.map(|file| Output { file, kind: &PAGE, inputs: &inputs, force: arguments.replace.force });
    html.as_ref().map_or(Ok(()), Output::check)?;
    let mut graphs = graphs(&file.capture);
    if graphs.is_empty() {
        return Err(format!("{}: the capture contains no graph", arguments.file.printable()).into());
    }
    let is_of = |graph: &Captured, id: &str| graph.id.starts_with(id);
    if let Some(id) = arguments.graph.iter().find(|id| !graphs.iter().any(|graph| is_of(graph, id))) {
        return Err(captures::no_graph(&arguments.file, format_args!("the capture has no graph {id:?}")).into());
    }
    if !arguments.graph.is_empty() {
        graphs.retain(|graph| arguments.graph.iter().any(|id| is_of(graph, id)));
    }
    if arguments.data == [DataChoice::Captured] && graphs.iter().all(|graph| graph.values.is_empty()) {
        let name = arguments.file.printable();
        return Err(format!("{name}: the capture contains no values of tensors; see CUDNN_CAPTURE_DATA").into());
    }
    for graph in &graphs {
        if let Some(left_out) = &graph.left_out {
            remark(format_args!("note: {}: {}", graph.id.printable(), left_out.printable()));
        }
    }
    let replay = Replay { arguments, graphs: &graphs, file: &file, timeouts, format };
    let outcome = match arguments.compare.as_deref() {
        Some([before, after]) => replay.compare([before, after], html.as_ref())?,
        _ => replay.run()?,
    };
    Ok(outcome.max(file.outcome()))
}

/// A run of the command.
struct Replay<'a> {
    arguments: &'a Arguments,
    graphs: &'a [Captured],
    file: &'a CaptureFile,
    timeouts: &'a Timeouts,
    format: Format,
}

impl<'a> Replay<'a> {
    /// Replays all graphs with one cuDNN.
    fn run(&self) -> CommandResult {
        let _interruption = Interruption::catch();
        let mut table = Table::of_reports(self.graphs);
        let mut reports = Vec::new();
        let interrupted = self.each([None], &mut |graph, [report]| {
            if self.format == Format::Text {
                table.add_report(graph, &report);
            }
            reports.push((graph, report));
        })?;
        self.format.report(
            || {
                let graph = |(graph, report): &(&Captured, Report)| json!({ "graph": graph.id, "label": graph.label, "report": report });
                let keys = json!({ "problems": self.file.problems, "graphs": reports.iter().map(graph).collect::<Vec<_>>() });
                self.with_rest(keys, reports.len())
            },
            || text::print_notes(&reports),
        );
        if let Some(signal) = interrupted {
            remark(self.interruption(reports.len()));
            temporary::end_by(signal);
        }
        let is_fine = |report: &Report| {
            let mut runs = report.plans.iter().flat_map(|plan| &plan.runs);
            let is_complete = status(report) == "SUCCESS" && report.problems.is_empty();
            is_complete && runs.all(|run| run.is_repeatable && run.damage.is_empty())
        };
        let all_fine = reports.iter().all(|(_, report)| is_fine(report));
        Ok(if all_fine { Outcome::Fine } else { Outcome::Warnings })
    }

    /// Replays all graphs with two releases.
    fn compare(&self, names: [&str; 2], html: Option<&Output<'_>>) -> CommandResult {
        let compared = releases::select(names, self.format)?;
        let _interruption = Interruption::catch();
        let titles = releases::titles(&compared);
        let mut table = Table::of_rows(self.graphs, &titles);
        let mut rows = Vec::new();
        let dirs = compared.each_ref().map(|release| Some(release.dir.as_path()));
        let interrupted = self.each(dirs, &mut |graph, [before, after]| {
            let engines = self.engines(graph).unwrap_or_default();
            let row = Row::new(graph.id.clone(), graph.label.clone(), &engines, before, after);
            if self.format == Format::Text {
                table.add_row(&row, &titles);
            }
            rows.push(row);
        })?;
        comparison::sort(&mut rows);
        let worse = rows.iter().filter(|row| row.is_worse()).count();
        let is_failing = |row: &&Row| [&row.before, &row.after].iter().all(|report| status(report) != "SUCCESS");
        let failing = rows.iter().filter(is_failing).count();
        let place = text::place_of(rows.iter().flat_map(|row| [&row.before, &row.after]));
        let cuda_note = releases::cuda_note(&compared);
        let interruption = interrupted.map(|_| self.interruption(rows.len()));
        let notes: Vec<String> = place.into_iter().chain(cuda_note.clone()).chain(interruption.clone()).collect();
        let [before, after] = compared.each_ref().map(releases::Compared::value);
        self.format.report(
            || {
                let problems = &self.file.problems;
                let keys = json!({ "problems": problems, "before": before, "after": after, "notes": notes, "worse": worse, "graphs": rows });
                self.with_rest(keys, rows.len())
            },
            || {
                cuda_note.iter().for_each(|note| outln!("{}", note.printable()));
                text::print_changes(&rows, &titles, [worse, failing]);
            },
        );
        interruption.iter().for_each(remark);
        if let Some(html) = html {
            let [before, after] = &titles;
            let page = page::html(&rows, &page::About { before, after, notes: &notes, problems: &self.file.problems });
            html.write(|file| file.write_all(page.as_bytes()))?;
        }
        if let Some(signal) = interrupted {
            temporary::end_by(signal);
        }
        if failing == rows.len() {
            remark("error: no graph works with either release, so nothing was compared");
            return Ok(Outcome::Failed);
        }
        Ok(if worse == 0 { Outcome::Fine } else { Outcome::Warnings })
    }

    /// Replays the graphs in turn, each one with every cuDNN: in these directories, or the one that the loader finds.
    /// Only one of them works at a time, because executions would affect each other's times. Returns the signal that
    /// interrupted this program.
    fn each<const COUNT: usize>(
        &self,
        dirs: [Option<&Path>; COUNT],
        finished: &mut dyn FnMut(&'a Captured, [Report; COUNT]),
    ) -> Result<Option<Signal>, String> {
        let requests: Vec<Request> = self.graphs.iter().filter_map(|graph| self.request(graph)).collect();
        let mut requests = requests.as_slice();
        let mut replayers = dirs.map(|dir| Replayer::new(dir, self.timeouts));
        let (start, total, mut spinner) = (Instant::now(), self.graphs.len(), Spinner::new(true));
        for (done, graph) in self.graphs.iter().enumerate() {
            let mut reports = std::array::from_fn(|_| without_engine());
            if self.engines(graph).is_some() {
                for (report, replayer) in reports.iter_mut().zip(&mut replayers) {
                    let mut wait = || spinner.turn(|| text::progress(done, total, start.elapsed()));
                    *report = match replayer.replay(requests, &mut wait) {
                        Ok(report) => report,
                        Err(Stop::Interrupted(signal)) => return Ok(Some(signal)),
                        Err(Stop::Failed(reason)) => return Err(reason),
                    };
                }
                requests = requests.get(1..).unwrap_or_default();
            }
            spinner.clear();
            finished(graph, reports);
        }
        Ok(None)
    }

    /// Returns the engines to try. `None` if the capture contains no engine for the graph.
    fn engines(&self, captured: &Captured) -> Option<Engines> {
        match self.arguments.engines {
            EngineChoice::First => Some(Engines::First),
            EngineChoice::All => Some(Engines::All),
            EngineChoice::Captured => captured.plan.as_ref().and_then(|plan| plan.engine.clone()).map(Engines::Forced),
        }
    }

    fn request(&self, captured: &Captured) -> Option<Request> {
        let arguments = self.arguments;
        let data = |choice: &DataChoice| match choice {
            DataChoice::Integers => DataSet::Integers,
            DataChoice::Normal => DataSet::Normal,
            DataChoice::Adversarial => DataSet::Adversarial,
            DataChoice::Captured => DataSet::Captured,
        };
        let data: Vec<DataSet> = arguments.data.iter().map(data).collect();
        Some(Request {
            engines: self.engines(captured)?,
            max_bytes: captures::gibibytes(arguments.memory),
            repeat: arguments.repeat,
            time: arguments.time,
            ..captured.request(self.file.path(), &data)
        })
    }

    /// Adds the number of graphs that were not replayed, because the program was interrupted.
    fn with_rest(&self, mut keys: Value, done: usize) -> Value {
        let rest = self.graphs.len() - done;
        if let Some(keys) = keys.as_object_mut().filter(|_| rest > 0) {
            keys.insert("not_replayed".to_owned(), rest.into());
        }
        keys
    }

    /// Describes an interruption after this number of graphs.
    fn interruption(&self, done: usize) -> String {
        format!("interrupted: {done} of {} were replayed", count(self.graphs.len(), "graph"))
    }
}

fn without_engine() -> Report {
    let reason = Some("the capture contains no engine for this graph".to_owned());
    Report { status: "SKIPPED".to_owned(), reason, ..Report::default() }
}
