//! Tunes graphs: measures and checks engines on the GPU.
//!
//! The GPU executes one graph, while threads prepare the inputs and references of the next graphs and compare results.
//! A module imports only modules above it in this list:
//!
//! | module | purpose |
//! | --- | --- |
//! | `candidates` | the engines to try |
//! | `preparation` | inputs and references, prepared in threads |
//! | `trial` | executions on the GPU, whose results are compared there |
//! | `judge` | comparisons on the CPU |
//! | `judges` | the comparisons of all results of a graph, within limits |

mod candidates;
mod judge;
mod judges;
mod preparation;
mod trial;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::available_parallelism;
use std::time::Instant;

use cudnn_backend::Failure;
use cudnn_backend::device::Target;
use cudnn_backend::gpu::Interval;
use cudnn_backend::plan::Plan;
use cudnn_loader::Error;
use cudnn_store::captures::Status;
use cudnn_store::choices::{Choice, EngineProblem};

use super::comparison::rounding_notes;
use super::planning::with_reason;
use crate::rebuild::{Refused, is_graph, rebuild};
use crate::tune::race::Race;
use crate::tune::task::{CandidateReport, Task, TuneAnswer, TuneReport};
use crate::tune::verdict::{Findings, Ranked, problems, rank};
use judge::RelativeError;
use judges::{Judgement, Judges};
use preparation::Preparation;
use trial::{Bench, Execution, Trial};

/// Receives a description of each step that may take long, and the number of the candidate.
pub type TuningStep<'a> = dyn FnMut(&str, Option<usize>) + 'a;

/// The note of engines that may return different bits in each execution.
const NONDETERMINISTIC: &str = "nondeterministic";

/// Graphs to tune in this process.
#[derive(Default)]
pub struct Tuner {
    /// Set by the first graph that is tuned.
    bench: Option<Result<Bench, String>>,
    waiting: VecDeque<WaitingTask>,
    /// The host memory for prepared graphs, in bytes.
    used: Arc<AtomicUsize>,
    is_damaged: bool,
}

struct WaitingTask {
    task: Arc<Task>,
    preparation: Option<Preparation>,
}

struct Tried {
    engine: cudnn_store::captures::Engine,
    proposals: Vec<(i64, usize)>,
    plan: Option<Plan>,
    build_us: u64,
    execution: Option<Execution>,
    failure: Option<String>,
}

enum Stop {
    Refused(String),
    /// This candidate broke the device, or failed after it had worked. The graph can be tuned without it.
    Broke(usize, String),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Refused(failure.to_string())
    }
}

impl Tuner {
    /// Appends a graph.
    pub fn push(&mut self, task: Task) {
        self.waiting.push_back(WaitingTask { task: Arc::new(task), preparation: None });
    }

    /// Returns a report about the GPU and the release of cuDNN, without engines.
    pub fn place(&mut self, step: &mut TuningStep<'_>) -> TuneReport {
        if self.bench.is_none() {
            step("started the driver", None);
        }
        // SAFETY: the call passes no pointers.
        let report = TuneReport { cudnn: unsafe { cudnn_loader::cudnnGetVersion() }, ..TuneReport::default() };
        match self.bench.get_or_insert_with(Bench::new) {
            Ok(Bench { gpu, .. }) => {
                let (major, minor) = gpu.compute_capability;
                let compute_capability = u32::try_from(major * 10 + minor).unwrap_or_default();
                TuneReport { device: gpu.name.clone(), compute_capability, ..report }
            }
            Err(reason) => TuneReport { refusal: Some(reason.clone()), ..report },
        }
    }

    /// Tunes the first graph. Calls `step` before each step that may take long, with a description that follows "while
    /// it". Returns `None` if the queue is empty.
    pub fn tune_next(&mut self, step: &mut TuningStep<'_>) -> Option<TuneAnswer> {
        self.waiting.front()?;
        let mut report = self.place(step);
        self.prepare();
        let WaitingTask { task, preparation } = self.waiting.pop_front()?;
        let Some(Ok(bench)) = &mut self.bench else { return Some(TuneAnswer::Tuned(report)) };
        let preparation = preparation.or_else(|| Preparation::start(&task, &self.used, true));
        let tuned = match preparation {
            Some(preparation) => tune(bench, &task, preparation, &mut report, step),
            None => Err(Stop::Refused("no thread can be started".to_owned())),
        };
        let has_damage =
            |candidate: &CandidateReport| matches!(candidate.choice.problem, Some(EngineProblem::Damaging(_)));
        self.is_damaged |= report.candidates.iter().any(has_damage) || bench.gpu.synchronize().is_err();
        Some(match tuned {
            Ok(()) => TuneAnswer::Tuned(report),
            Err(Stop::Refused(reason)) => TuneAnswer::Tuned(TuneReport { refusal: Some(reason), ..report }),
            Err(Stop::Broke(candidate, reason)) => {
                self.is_damaged = true;
                TuneAnswer::Broke { candidate, reason }
            }
        })
    }

    /// Returns whether this process can tune other graphs, because no engine has damaged memory.
    pub fn is_intact(&self) -> bool {
        !self.is_damaged
    }

    /// Prepares graphs in threads, and leaves two processors to the GPU's work and to comparisons.
    fn prepare(&mut self) {
        if !matches!(self.bench, Some(Ok(_))) {
            return;
        }
        let count = available_parallelism().map_or(1, usize::from).saturating_sub(2).max(2);
        for (place, WaitingTask { task, preparation }) in self.waiting.iter_mut().take(count).enumerate() {
            if preparation.is_none() && task.graph.root().is_some_and(is_graph) {
                *preparation = Preparation::start(task, &self.used, place == 0);
                // Later graphs also wait for the memory.
                if preparation.is_none() {
                    return;
                }
            }
        }
    }
}

/// Tunes a graph, and adds the engines to the report.
fn tune(
    bench: &mut Bench,
    task: &Task,
    preparation: Preparation,
    report: &mut TuneReport,
    step: &mut TuningStep<'_>,
) -> Result<(), Stop> {
    let mut clock = Clock::default();
    let candidates = candidates(bench, task, step)?;
    report.phases.heuristics = clock.lap();
    step("prepared the inputs", None);
    let inputs = preparation.inputs().map_err(Stop::Refused)?;
    report.phases.inputs = clock.lap();
    let mut trial = Trial::new(bench, Arc::clone(&inputs))?;
    let (mut tried, mut judges) = (Vec::new(), Judges::new(inputs, move || preparation.reference()));
    for (number, candidate) in candidates.into_iter().enumerate() {
        let candidates::Candidate { engine, configuration, proposals } = candidate;
        let mut this = Tried { engine, proposals, plan: None, build_us: 0, execution: None, failure: None };
        if let Some(reason) = task.failed.get(&number) {
            this.failure = Some(reason.clone());
            tried.push(this);
            continue;
        }
        step(&format!("built a plan with engine {}", this.engine.index), Some(number));
        let planned = configuration.and_then(|configuration| Plan::new(&configuration, trial.target()));
        let elapsed = clock.lap();
        this.build_us = (elapsed * 1e3) as u64;
        report.phases.build += elapsed;
        match planned {
            Ok(plan) => {
                step(&format!("executed engine {}", this.engine.index), Some(number));
                match trial.execute(&plan) {
                    Ok(mut execution) => {
                        if let Some(after) = execution.after.take() {
                            step(&format!("compared the results of engine {}", this.engine.index), None);
                            judges.add(execution.result, after);
                        }
                        this.execution = Some(execution);
                    }
                    Err(failure) => {
                        this.failure = Some(trial.survive(failure).map_err(|text| Stop::Broke(number, text))?)
                    }
                }
                this.plan = Some(plan);
                report.phases.check += clock.lap();
            }
            Err(error) => this.failure = Some(with_reason(Status(error.status), &error.text)),
        }
        tried.push(this);
    }
    let default = tried.iter().position(|tried| tried.execution.is_some());
    step("computed the reference", None);
    let (judgements, no_reference) = judges.finish();
    report.no_reference = no_reference;
    let findings = findings(&tried, &judgements, default);
    let problems = problems_of(&tried, &findings, default);
    report.phases.reference = clock.lap();
    let race = run_race(&mut trial, &tried, &problems, default, step)?;
    report.phases.race = clock.lap();
    conclude(tried, &findings, problems, &race, default, report);
    Ok(())
}

fn candidates(bench: &Bench, task: &Task, step: &mut TuningStep<'_>) -> Result<Vec<candidates::Candidate>, Stop> {
    let target = Target::Handle(&bench.handle);
    step("created the descriptors of the graph", None);
    let graph = rebuild(&task.graph, target).map_err(|refused| Stop::Refused(reason_of(&refused)))?;
    if !task.graph.root().is_some_and(is_graph) {
        return Err(Stop::Refused("the capture contains no complete graph".to_owned()));
    }
    step("asked the heuristics", None);
    let failed = |error: Error| Stop::Refused(with_reason(Status(error.status), &error.text));
    let mut candidates = candidates::proposed(&graph, &task.modes, target).map_err(failed)?;
    if task.is_exhaustive {
        step("tried every engine", None);
        candidates = candidates::add_all(candidates, &graph, target, step);
    }
    if candidates.is_empty() {
        return Err(Stop::Refused("no engine is proposed".to_owned()));
    }
    Ok(candidates)
}

fn findings(tried: &[Tried], judgements: &BTreeMap<usize, Judgement>, default: Option<usize>) -> Vec<Findings> {
    let is_coarse = |tried: &Tried| !rounding_notes(&tried.engine).is_empty();
    let is_default_coarse = default.and_then(|default| tried.get(default)).is_some_and(is_coarse);
    let relative = |error: &RelativeError, is_coarse: bool| if is_coarse { error.coarse } else { error.strict };
    let findings = |tried: &Tried| {
        let Some(execution) = &tried.execution else { return Findings::default() };
        let is_coarse = is_coarse(tried);
        let mut findings = Findings {
            is_nondeterministic: !execution.is_repeatable
                || tried.engine.notes.iter().any(|note| note == NONDETERMINISTIC),
            damage: execution.workspace_damage.clone(),
            ..Findings::default()
        };
        if let Some(Judgement { comparison, error }) = judgements.get(&execution.result) {
            findings.damage = findings.damage.or_else(|| comparison.damage.clone());
            // Both engines may have rounded more.
            findings.difference = relative(&comparison.difference, is_coarse || is_default_coarse);
            findings.error = error.as_ref().map(|error| relative(error, is_coarse));
            let of_error = error.as_ref().and_then(|error| error.element.clone());
            findings.worst = of_error.or_else(|| comparison.difference.element.clone());
        }
        findings
    };
    tried.iter().map(findings).collect()
}

fn problems_of(tried: &[Tried], findings: &[Findings], default: Option<usize>) -> Vec<Option<EngineProblem>> {
    // Compare the others with the heuristics' first choice that works.
    let from_default = default.and_then(|default| findings.get(default..)).unwrap_or_default();
    let judged = problems(from_default);
    let problem = |(number, tried): (usize, &Tried)| match (&tried.failure, default) {
        (Some(failure), _) => Some(EngineProblem::Failed(failure.clone())),
        (None, Some(default)) => number.checked_sub(default).and_then(|place| judged.get(place)?.clone()),
        (None, None) => None,
    };
    tried.iter().enumerate().map(problem).collect()
}

/// Measures all executed engines, except those that are wrong or damage memory.
fn run_race(
    trial: &mut Trial<'_>,
    tried: &[Tried],
    problems: &[Option<EngineProblem>],
    default: Option<usize>,
    step: &mut TuningStep<'_>,
) -> Result<Race, Stop> {
    let numbered = tried.iter().enumerate();
    let first: Vec<(usize, f64)> =
        numbered.filter_map(|(number, tried)| Some((number, tried.execution.as_ref()?.time))).collect();
    let is_dangerous = |number: &usize| matches!(problems.get(*number), Some(Some(problem)) if problem.is_dangerous());
    let excluded: Vec<usize> = (0..tried.len()).filter(is_dangerous).collect();
    let mut race = Race::new(&first, &excluded, default);
    loop {
        let order = race.next_round();
        if order.is_empty() {
            return Ok(race);
        }
        let times = run_round(trial, tried, &order, step).map_err(|(number, failure)| {
            let (Ok(reason) | Err(reason)) = trial.survive(failure);
            Stop::Broke(number, reason)
        })?;
        race.finish_round(&times);
    }
}

/// Measures engines in this order. Returns the times, or the number of the engine that failed.
fn run_round(
    trial: &mut Trial<'_>,
    tried: &[Tried],
    order: &[usize],
    step: &mut TuningStep<'_>,
) -> Result<Vec<(usize, f64)>, (usize, Failure)> {
    let mut intervals = Vec::new();
    for number in order {
        let Some(Tried { plan: Some(plan), engine, .. }) = tried.get(*number) else { continue };
        let text = format!("measured engine {}", engine.index);
        step(&text, Some(*number));
        intervals.push((*number, text, trial.measure(plan).map_err(|failure| (*number, failure))?));
    }
    // Queue all executions before reading the first time, so that the GPU never waits for the host.
    let time = |(number, text, interval): (usize, String, Interval)| {
        step(&text, Some(number));
        interval.microseconds().map(|time| (number, time)).map_err(|error| (number, error.into()))
    };
    intervals.into_iter().map(time).collect()
}

fn conclude(
    tried: Vec<Tried>,
    findings: &[Findings],
    problems: Vec<Option<EngineProblem>>,
    race: &Race,
    default: Option<usize>,
    report: &mut TuneReport,
) {
    let ranked: Vec<Ranked> = problems
        .into_iter()
        .enumerate()
        .map(|(number, problem)| Ranked { timing: race.timing(number), problem })
        .collect();
    let order = rank(&ranked, default);
    report.default = default.and_then(|default| order.iter().position(|number| *number == default));
    let mut tried: Vec<Option<Tried>> = tried.into_iter().map(Some).collect();
    for number in order {
        let taken = tried.get_mut(number).and_then(Option::take);
        let (Some(tried), Some(ranked), Some(findings)) = (taken, ranked.get(number), findings.get(number)) else {
            continue;
        };
        let choice = Choice {
            engine: tried.engine.index,
            knobs: tried.engine.knobs,
            notes: tried.engine.notes,
            time_us: ranked.timing.map(|timing| timing.median),
            spread_us: ranked.timing.map(|timing| timing.spread),
            workspace: tried.plan.as_ref().map_or(0, |plan| plan.workspace_size as u64),
            error: tried.execution.as_ref().and(findings.error.or(Some(findings.difference))),
            proposed: false,
            problem: ranked.problem.clone(),
        };
        report.candidates.push(CandidateReport {
            choice,
            proposals: tried.proposals,
            build_us: tried.build_us,
            runs: ranked.timing.map_or(0, |timing| timing.count),
        });
    }
}

fn reason_of(refused: &Refused) -> String {
    match &refused.error {
        Some(error) => with_reason(format_args!("{}: {}", refused.place, Status(error.status)), &error.text),
        None => refused.place.clone(),
    }
}

struct Clock(Instant);

impl Default for Clock {
    fn default() -> Self {
        Clock(Instant::now())
    }
}

impl Clock {
    /// Returns the time since the last call in milliseconds.
    fn lap(&mut self) -> f64 {
        let elapsed = self.0.elapsed();
        self.0 = Instant::now();
        elapsed.as_secs_f64() * 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_store::captures::Engine;

    fn tried(note: &str, result: usize) -> Tried {
        let engine = Engine { index: 1, knobs: BTreeMap::new(), notes: vec![note.to_owned()] };
        let execution = Execution { result, after: None, is_repeatable: true, workspace_damage: None, time: 1.0 };
        Tried { engine, proposals: Vec::new(), plan: None, build_us: 0, execution: Some(execution), failure: None }
    }

    #[test]
    fn an_exact_engine_may_differ_from_a_default_that_rounds() {
        let error = |strict: f64, coarse: f64| RelativeError { strict, coarse, element: None };
        let judgement = |difference, error| Judgement {
            comparison: judge::Comparison { difference, damage: None },
            error: Some(error),
        };
        let judgements = BTreeMap::from([
            (0, judgement(error(0.0, 0.0), error(900.0, 0.5))),
            (1, judgement(error(900.0, 0.5), error(0.1, 0.0))),
        ]);
        let words = |notes: [&str; 2]| {
            let tried = [tried(notes[0], 0), tried(notes[1], 1)];
            let findings = findings(&tried, &judgements, Some(0));
            problems_of(&tried, &findings, Some(0)).iter().map(Option::is_none).collect::<Vec<_>>()
        };
        assert_eq!(words(["down_convert_inputs", ""]), [true, true]);
        assert_eq!(words(["", "down_convert_inputs"]), [false, true]);
        // The others must not be compared with a wrong default.
        assert_eq!(words(["", ""]), [false, true]);
    }
}
