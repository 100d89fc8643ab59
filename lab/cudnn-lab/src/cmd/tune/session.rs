//! Tunes the graphs one after the other, with progress, until all are done or the session is stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use cudnn_cli::output::{Format, remark};
use cudnn_cli::subprocess::{Spinner, Timeouts};
use cudnn_graph::names::heuristics_mode;
use cudnn_loader::cudnnBackendHeurMode_t as Mode;
use cudnn_replay::replay::capture::Captured;
use cudnn_replay::tune::task::{CandidateReport, Phases, Task, TuneReport};
use cudnn_replay::tune::usage::{Usage, Usages};
use cudnn_store::choices::{Choice, Choices, Ranking};

use super::arguments::Arguments;
use super::place::Place;
use super::summary::RefusedGraph;
use super::{file, text};
use crate::captures::{self, CaptureFiles};
use crate::output_file::Output;
use crate::progress::progress;
use crate::tune_worker::TuneClient;
use crate::worker::Stop;

/// The usual modes of programs, if the capture contains no modes.
const MODES: [Mode; 2] = [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_FALLBACK];
/// The maximum number of engines per graph to write that the heuristics do not propose.
const MAX_UNPROPOSED: usize = 16;

pub(super) struct TuneSession<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) captures: &'a CaptureFiles,
    pub(super) usages: &'a Usages,
    pub(super) output: &'a Output<'a>,
    pub(super) timeouts: &'a Timeouts,
    pub(super) format: Format,
}

pub(super) struct Tuned {
    pub(super) place: Place,
    pub(super) choices: Choices,
    pub(super) refused: Vec<RefusedGraph>,
    /// The number of graphs that were not tuned because of the time limit or an interruption.
    pub(super) left: usize,
    /// The time that the worker has spent.
    pub(super) phases: Phases,
}

impl TuneSession<'_> {
    /// Tunes the graphs that are missing in `older`, and writes the file after each graph.
    pub(super) fn tune(&self, older: Choices) -> Result<Tuned, String> {
        let start = Instant::now();
        let timeouts = self.timeouts.for_many_steps();
        let (mut spinner, mut client) = (Spinner::new(true), TuneClient::new(&timeouts));
        let found = client.place(&mut || spinner.turn(|| "starting the GPU"));
        spinner.clear();
        let found = match found {
            Ok(report) => report,
            Err(Stop::Interrupted(signal)) => cudnn_cli::temporary::end_by(signal),
            Err(Stop::Failed(reason)) => return Err(reason),
        };
        let place = Place::new(&found)?;
        self.note_releases(&place);
        let graphs = self.graphs(&place, &older)?;
        let mut tuned =
            Tuned { choices: older, refused: Vec::new(), left: graphs.len(), phases: Phases::default(), place };
        let mut tasks: Vec<Task> = graphs.iter().map(|graph| self.task(graph)).collect();
        let mut tasks = tasks.as_mut_slice();
        let mut table = text::table(&graphs);
        let total = graphs.len();
        for (done, graph) in graphs.iter().enumerate() {
            if self.arguments.time_limit.is_some_and(|seconds| start.elapsed().as_secs() >= seconds) {
                break;
            }
            let mut wait = || spinner.turn(|| progress(done, total, start.elapsed()));
            let report = match client.tune(tasks, &mut wait) {
                Ok(report) => report,
                Err(Stop::Interrupted(_)) => break,
                Err(Stop::Failed(reason)) => return Err(reason),
            };
            tasks = tasks.get_mut(1..).unwrap_or_default();
            spinner.clear();
            tuned.left -= 1;
            tuned.phases = tuned.phases.plus(report.phases);
            let ranking = self.ranking(graph, &tuned.place, report);
            match ranking.and_then(|ranking| tuned.choices.insert(ranking.clone()).map(|()| ranking)) {
                Ok(ranking) => {
                    // Write the file first, because printing to a pipe can block forever.
                    file::write(self.output, &tuned.choices)?;
                    if self.format == Format::Text {
                        text::add(&mut table, &tuned.place, &ranking);
                    }
                }
                Err(reason) => {
                    let refused = RefusedGraph { graph: graph.id.clone(), label: graph.label.clone(), reason };
                    if self.format == Format::Text {
                        text::add_refused(&mut table, &tuned.place, &refused);
                    }
                    tuned.refused.push(refused);
                }
            }
        }
        Ok(tuned)
    }

    /// Returns the graphs to tune, with the most executed ones first.
    fn graphs(&self, place: &Place, older: &Choices) -> Result<Vec<Captured>, String> {
        // Failed calls are not graphs.
        let is_graph = |graph: &Captured| self.usages.graphs.contains_key(&graph.id);
        let mut graphs = self.captures.graphs(&self.arguments.graph, is_graph)?;
        let is_known = |graph: &Captured| older.find(place.cudnn, &place.device, &graph.id).is_some();
        graphs.retain(|graph| self.arguments.again || !is_known(graph));
        graphs.sort_by_key(|graph| std::cmp::Reverse(self.usages.of(&graph.id).executions));
        Ok(graphs)
    }

    fn task(&self, graph: &Captured) -> Task {
        Task {
            graph: graph.graph.clone(),
            execution: graph.execution.clone(),
            modes: modes(&self.usages.of(&graph.id)),
            is_exhaustive: self.arguments.exhaustive,
            max_bytes: captures::gibibytes(self.arguments.memory),
            failed: Default::default(),
        }
    }

    fn ranking(&self, graph: &Captured, place: &Place, report: TuneReport) -> Result<Ranking, String> {
        if let Some(refusal) = report.refusal {
            return Err(refusal);
        }
        let usage = self.usages.of(&graph.id);
        let modes = modes(&usage);
        let mut candidates = report.candidates;
        for CandidateReport { choice, proposals, .. } in &mut candidates {
            choice.proposed = proposals.iter().any(|(mode, _)| modes.contains(mode));
        }
        let default = report.default.and_then(|default| candidates.get(default)).map(|it| it.choice.clone());
        let mut unproposed = 0;
        candidates.retain(|CandidateReport { choice, .. }| {
            unproposed += usize::from(!choice.proposed);
            choice.proposed || unproposed <= MAX_UNPROPOSED || default.as_ref() == Some(choice)
        });
        let proposals = modes.iter().filter_map(|mode| Some((heuristics_mode(*mode), proposals(*mode, &candidates)?)));
        let proposals = proposals.collect();
        let engines: Vec<Choice> = candidates.into_iter().map(|candidate| candidate.choice).collect();
        let Some(default) = default else {
            let reasons = engines.iter().filter_map(|choice| Some(choice.problem.as_ref()?.text()));
            return Err(format!("no engine works: {}", reasons.take(1).collect::<String>()));
        };
        Ok(Ranking {
            cudnn: place.cudnn,
            device: place.device.clone(),
            graph: graph.id.clone(),
            label: graph.label.clone(),
            executions: usage.executions,
            default: engines.iter().position(|choice| *choice == default),
            engines,
            proposals,
        })
    }

    /// Warns about captures of releases for which the choices have no effect.
    fn note_releases(&self, place: &Place) {
        let mut captured = self.captures.releases();
        captured.retain(|release| *release != place.cudnn);
        if let Some(release) = captured.first() {
            let names = self.captures.names();
            remark(format_args!(
                "note: {names}: the program used cuDNN {release}, and this is {}; it will ignore the choices until it uses {}",
                place.cudnn, place.cudnn
            ));
        }
    }
}

/// Returns the engines that a mode of the heuristics proposes, in cuDNN's order, if none is missing in between or
/// occurs twice.
fn proposals(mode: i64, candidates: &[CandidateReport]) -> Option<Vec<usize>> {
    let mut places = BTreeMap::new();
    for (engine, candidate) in candidates.iter().enumerate() {
        let of_mode = candidate.proposals.iter().filter(|(proposing, _)| *proposing == mode);
        places.extend(of_mode.map(|(_, place)| (*place, engine)));
    }
    let distinct = places.values().collect::<BTreeSet<_>>().len();
    let is_complete = !places.is_empty() && places.keys().copied().eq(0..distinct);
    is_complete.then(|| places.into_values().collect())
}

/// Returns the modes of the heuristics that a program uses for a graph.
fn modes(usage: &Usage) -> Vec<i64> {
    if usage.modes.is_empty() { MODES.map(|mode| i64::from(mode.0)).to_vec() } else { usage.modes.clone() }
}
