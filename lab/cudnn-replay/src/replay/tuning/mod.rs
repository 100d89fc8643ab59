//! Tunes graphs: measures and checks engines on the GPU.
//!
//! The GPU executes one graph, while threads prepare the inputs and references of the next graphs and compare results. A
//! module imports only modules above it in this list:
//!
//! | module | purpose |
//! | --- | --- |
//! | `candidates` | the engines to try |
//! | `preparation` | inputs and references, prepared in threads |
//! | `trial` | executions on the GPU, whose results are compared there |
//! | `judge` | comparisons on the CPU |

mod candidates;
mod judge;
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
use cudnn_capture_file::status_name;
use cudnn_loader::Error;
use cudnn_plan_store::choices::{Choice, Problem};

use super::comparison::rounding_notes;
use super::execution::Prepared;
use super::planning::with_reason;
use crate::rebuild::{Refused, is_graph, rebuild};
use crate::tune::race::Race;
use crate::tune::task::{Answer, Candidate, Report, Task};
use crate::tune::verdict::{Findings, Ranked, problems, rank};
use judge::{After, Judge, RelativeError};
use preparation::{Preparation, Reference};
use trial::{Bench, Trial};

/// Receives a description of each step that may take long, and the number of the candidate.
pub type TuningStep<'a> = dyn FnMut(&str, Option<usize>) + 'a;

/// The note of engines that may return different bits in each execution.
const NONDETERMINISTIC: &str = "nondeterministic";

/// Graphs to tune in this process.
#[derive(Default)]
pub struct Tuner {
    /// `None` until a graph is tuned.
    bench: Option<Result<Bench, String>>,
    waiting: VecDeque<Waiting>,
    /// The memory of the host for graphs that are prepared, in bytes.
    used: Arc<AtomicUsize>,
    is_damaged: bool,
}

struct Waiting {
    task: Arc<Task>,
    preparation: Option<Preparation>,
}

/// A candidate, and what was found out about it.
struct Tried {
    engine: cudnn_capture_file::Engine,
    proposals: Vec<(i64, usize)>,
    plan: Option<Plan>,
    build_us: u64,
    execution: Option<Executed>,
    failure: Option<String>,
}

struct Executed {
    result: usize,
    is_repeatable: bool,
    workspace_damage: Option<String>,
    time: f64,
}

/// A distinct result, and the thread that compares it.
struct Outcome {
    after: After,
    judge: Judge,
}

/// The distinct results by number.
type Outcomes = BTreeMap<usize, Outcome>;

/// Why a graph was not tuned.
enum Stop {
    /// The reason why it cannot be tuned.
    Refused(String),
    /// This candidate broke the device.
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
        self.waiting.push_back(Waiting { task: Arc::new(task), preparation: None });
    }

    /// Returns a report about the GPU and the release of cuDNN, without engines.
    pub fn place(&mut self, step: &mut TuningStep<'_>) -> Report {
        if self.bench.is_none() {
            step("started the driver", None);
        }
        // SAFETY: the call passes no pointers.
        let report = Report { cudnn: unsafe { cudnn_loader::cudnnGetVersion() }, ..Report::default() };
        match self.bench.get_or_insert_with(Bench::new) {
            Ok(Bench { gpu, .. }) => {
                let (major, minor) = gpu.compute_capability;
                let compute_capability = u32::try_from(major * 10 + minor).unwrap_or_default();
                Report { device: gpu.name.clone(), compute_capability, ..report }
            }
            Err(reason) => Report { refusal: Some(reason.clone()), ..report },
        }
    }

    /// Tunes the first graph. `step` is called before each step that may take long, with a description that follows
    /// "while it". Returns `None` if there is no graph.
    pub fn tune_next(&mut self, step: &mut TuningStep<'_>) -> Option<Answer> {
        self.waiting.front()?;
        let mut report = self.place(step);
        self.prepare();
        let Waiting { task, preparation } = self.waiting.pop_front()?;
        let Some(Ok(bench)) = &mut self.bench else { return Some(Answer::Tuned(report)) };
        let preparation = preparation.or_else(|| Preparation::start(&task, &self.used, true));
        let tuned = match preparation {
            Some(preparation) => tune(bench, &task, preparation, &mut report, step),
            None => Err(Stop::Refused("no thread can be started".to_owned())),
        };
        let has_damage = |candidate: &Candidate| matches!(candidate.choice.problem, Some(Problem::Damaging(_)));
        self.is_damaged |= report.candidates.iter().any(has_damage) || bench.gpu.synchronize().is_err();
        Some(match tuned {
            Ok(()) => Answer::Tuned(report),
            Err(Stop::Refused(reason)) => Answer::Tuned(Report { refusal: Some(reason), ..report }),
            Err(Stop::Broke(candidate, reason)) => {
                self.is_damaged = true;
                Answer::Broke { candidate, reason }
            }
        })
    }

    /// Returns whether this process can tune other graphs. An engine that has damaged memory could affect them.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        !self.is_damaged
    }

    /// Starts to prepare graphs, and leaves two processors to the GPU's work and to comparisons.
    fn prepare(&mut self) {
        if !matches!(self.bench, Some(Ok(_))) {
            return;
        }
        let count = available_parallelism().map_or(1, usize::from).saturating_sub(2).max(2);
        for (place, Waiting { task, preparation }) in self.waiting.iter_mut().take(count).enumerate() {
            if preparation.is_none() && task.graph.root().is_some_and(is_graph) {
                *preparation = Preparation::start(task, &self.used, place == 0);
                // The later graphs wait for the memory, too.
                if preparation.is_none() {
                    return;
                }
            }
        }
    }
}

/// Tunes a graph. The report gets the engines.
fn tune(
    bench: &mut Bench,
    task: &Task,
    preparation: Preparation,
    report: &mut Report,
    step: &mut TuningStep<'_>,
) -> Result<(), Stop> {
    let mut clock = Clock::default();
    let candidates = candidates(bench, task, step)?;
    report.phases.heuristics = clock.lap();
    step("prepared the inputs", None);
    let inputs = preparation.inputs().map_err(Stop::Refused)?;
    report.phases.inputs = clock.lap();
    let mut trial = Trial::new(bench, Arc::clone(&inputs))?;
    let (mut tried, mut outcomes) = (Vec::new(), Outcomes::new());
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
                    Ok(execution) => this.execution = Some(executed(execution, &inputs, &mut outcomes)),
                    Err(failure) => {
                        this.failure = Some(trial.survive(failure).map_err(|text| Stop::Broke(number, text))?)
                    }
                }
                this.plan = Some(plan);
                report.phases.check += clock.lap();
            }
            Err(error) => this.failure = Some(with_reason(&status_name(error.status), &error.text)),
        }
        tried.push(this);
    }
    let default = tried.iter().position(|tried| tried.execution.is_some());
    let race = run_race(&mut trial, &tried, default, step)?;
    drop(trial);
    report.phases.race = clock.lap();
    step("computed the reference", None);
    let reference = preparation.reference();
    report.no_reference = reference.as_ref().err().cloned();
    let findings = findings(&tried, outcomes, &inputs, &reference);
    report.phases.reference = clock.lap();
    conclude(tried, &findings, &race, default, report);
    Ok(())
}

/// Returns the engines to try.
fn candidates(bench: &Bench, task: &Task, step: &mut TuningStep<'_>) -> Result<Vec<candidates::Candidate>, Stop> {
    let target = Target::Handle(&bench.handle);
    step("created the descriptors of the graph", None);
    let graph = rebuild(&task.graph, target).map_err(|refused| Stop::Refused(reason_of(&refused)))?;
    if !task.graph.root().is_some_and(is_graph) {
        return Err(Stop::Refused("the capture contains no complete graph".to_owned()));
    }
    step("asked the heuristics", None);
    let failed = |error: Error| Stop::Refused(with_reason(&status_name(error.status), &error.text));
    let mut candidates = candidates::proposed(&graph, &task.modes, target).map_err(failed)?;
    if task.is_exhaustive {
        step("tried every engine", None);
        candidates = candidates::add_all(candidates, &graph, target);
    }
    if candidates.is_empty() {
        return Err(Stop::Refused("no engine is proposed".to_owned()));
    }
    Ok(candidates)
}

/// Keeps the result of an execution, and starts to compare it if it is new.
fn executed(execution: trial::Execution, inputs: &Arc<Prepared>, outcomes: &mut Outcomes) -> Executed {
    let trial::Execution { result, after, is_repeatable, workspace_damage, time } = execution;
    if let Some(after) = after {
        let after = Arc::new(after);
        let first = outcomes.first_key_value().map_or(&after, |(_, outcome)| &outcome.after);
        let judge = Judge::start(inputs, first, &after);
        outcomes.insert(result, Outcome { after, judge });
    }
    Executed { result, is_repeatable, workspace_damage, time }
}

/// Measures all engines that were executed.
fn run_race(
    trial: &mut Trial<'_>,
    tried: &[Tried],
    default: Option<usize>,
    step: &mut TuningStep<'_>,
) -> Result<Race, Stop> {
    let is_safe = |executed: &Executed| executed.workspace_damage.is_none();
    let first: Vec<(usize, f64)> = tried
        .iter()
        .enumerate()
        .filter_map(|(number, tried)| Some((number, tried.execution.as_ref().filter(|run| is_safe(run))?.time)))
        .collect();
    let mut race = Race::new(&first, default);
    step("measured the engines", None);
    loop {
        let order = race.next_round();
        if order.is_empty() {
            return Ok(race);
        }
        let times = run_round(trial, tried, &order).map_err(|(number, failure)| match trial.survive(failure) {
            Ok(reason) => Stop::Refused(reason),
            Err(reason) => Stop::Broke(number, reason),
        })?;
        race.finish_round(&times);
    }
}

/// Measures engines in this order. Returns the times, or the number of the engine that failed.
fn run_round(trial: &mut Trial<'_>, tried: &[Tried], order: &[usize]) -> Result<Vec<(usize, f64)>, (usize, Failure)> {
    let mut intervals = Vec::new();
    for number in order {
        let plan = tried.get(*number).and_then(|tried| tried.plan.as_ref());
        let Some(plan) = plan else { continue };
        intervals.push((*number, trial.measure(plan).map_err(|failure| (*number, failure))?));
    }
    let time = |(number, interval): (usize, Interval)| match interval.microseconds() {
        Ok(time) => Ok((number, time)),
        Err(error) => Err((number, error.into())),
    };
    intervals.into_iter().map(time).collect()
}

/// Waits for the comparisons, and returns what is known about each candidate.
fn findings(tried: &[Tried], outcomes: Outcomes, inputs: &Prepared, reference: &Reference) -> Vec<Findings> {
    let judge =
        |(number, Outcome { after, judge })| (number, (judge.finish(), judge::error(inputs, reference, &after)));
    let judged: BTreeMap<usize, (judge::Comparison, Option<RelativeError>)> = outcomes.into_iter().map(judge).collect();
    let findings = |tried: &Tried| {
        let Some(executed) = &tried.execution else { return Findings::default() };
        let is_coarse = !rounding_notes(&tried.engine).is_empty();
        let relative = |error: &RelativeError| if is_coarse { error.coarse } else { error.strict };
        let mut findings = Findings {
            is_nondeterministic: !executed.is_repeatable
                || tried.engine.notes.iter().any(|note| note == NONDETERMINISTIC),
            damage: executed.workspace_damage.clone(),
            ..Findings::default()
        };
        if let Some((comparison, error)) = judged.get(&executed.result) {
            findings.damage = findings.damage.or_else(|| comparison.damage.clone());
            findings.difference = relative(&comparison.difference);
            findings.error = error.as_ref().map(relative);
            let of_error = error.as_ref().and_then(|error| error.element.clone());
            findings.worst = of_error.or_else(|| comparison.difference.element.clone());
        }
        findings
    };
    tried.iter().map(findings).collect()
}

/// Ranks the candidates, and adds them to the report.
fn conclude(tried: Vec<Tried>, findings: &[Findings], race: &Race, default: Option<usize>, report: &mut Report) {
    // The heuristics' first choice that works is the measure for the others.
    let from_default = default.and_then(|default| findings.get(default..)).unwrap_or_default();
    let judged = problems(from_default);
    let problem = |number: usize, tried: &Tried| match (&tried.failure, default) {
        (Some(failure), _) => Some(Problem::Failed(failure.clone())),
        (None, Some(default)) => number.checked_sub(default).and_then(|place| judged.get(place)?.clone()),
        (None, None) => None,
    };
    let ranked: Vec<Ranked> = tried
        .iter()
        .enumerate()
        .map(|(number, tried)| Ranked { timing: race.timing(number), problem: problem(number, tried) })
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
        report.candidates.push(Candidate {
            choice,
            proposals: tried.proposals,
            build_us: tried.build_us,
            runs: ranked.timing.map_or(0, |timing| timing.count),
        });
    }
}

fn reason_of(refused: &Refused) -> String {
    match &refused.error {
        Some(error) => with_reason(&format!("{}: {}", refused.place, status_name(error.status)), &error.text),
        None => refused.place.clone(),
    }
}

/// Measures the times of phases.
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
