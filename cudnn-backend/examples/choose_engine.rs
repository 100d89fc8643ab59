//! Finds the fastest engine for a convolution by trying the heuristics' proposals, then every engine that supports the
//! graph, with default knobs and with one knob changed. Finally prints how good the heuristics' first proposal is.
//!
//! `cargo run --release -p cudnn-backend --example choose_engine [SECONDS [all]]`
//!
//! The second part stops after SECONDS (60); `all` prints every configuration that ran.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cudnn_backend::cudnn::cudnnBackendHeurMode_t as Mode;
use cudnn_backend::cudnn::cudnnDataType_t;
use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::Target;
use cudnn_backend::engine::{ConfigurationInfo, configuration, knobs, proposals, supporting_engines};
use cudnn_backend::execute::VariantPack;
use cudnn_backend::gpu::{Gpu, Memory};
use cudnn_backend::graph::{Convolution, graph};
use cudnn_backend::handle::Handle;
use cudnn_backend::plan::Plan;
use cudnn_backend::tensor::Tensor;
use cudnn_backend::{Failure, first_reason, program, reference};
use indicatif::{ProgressBar, ProgressStyle};

const HALF: cudnnDataType_t = cudnnDataType_t::CUDNN_DATA_HALF;
/// Engines add in different orders, and some transform their input first.
const TOLERANCE: f64 = 5e-3;
/// Configurations that need more workspace are skipped. In bytes.
const MAX_WORKSPACE: usize = 1 << 30;
/// The maximum number of values to try per knob; some knobs have a thousand.
const MAX_KNOB_VALUES: usize = 16;
/// Lines printed without `all`.
const MAX_SHOWN: usize = 15;
const TIMED_RUNS: u32 = 20;
const FIRST_PROPOSAL: &str = "mode A 1";

fn main() -> ExitCode {
    program::run_on_gpu(run)
}

/// A configuration and where it comes from.
struct Candidate {
    source: String,
    configuration: Descriptor,
    engine: String,
    notes: String,
}

/// The result of a configuration that ran.
struct Measurement {
    source: String,
    engine: String,
    notes: String,
    workspace_size: usize,
    milliseconds: f64,
    error: f64,
}

fn run(gpu: &Gpu) -> Result<(), Failure> {
    let limit = match std::env::args().nth(1) {
        Some(seconds) => seconds.parse().map_err(|_| format!("{seconds:?} is not a number of seconds"))?,
        None => 60,
    };
    let problem = Problem::new(gpu)?;
    let candidates = candidates(&problem)?;
    let proposed = candidates.iter().filter(|candidate| candidate.source.starts_with("mode")).count();
    println!("{proposed} configurations from heuristics, {} more from all engines", candidates.len() - proposed);

    let bar = ProgressBar::new(candidates.len() as u64);
    bar.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len}, {eta} left: {msg}")?);
    let (mut measured, mut failed) = (Vec::new(), BTreeMap::<String, usize>::new());
    let end = Instant::now() + Duration::from_secs(limit);
    for (index, candidate) in candidates.into_iter().enumerate() {
        // The heuristics' proposals are exempt from the limit.
        if index >= proposed && Instant::now() > end {
            *failed.entry("not tried, out of time".into()).or_default() += 1;
            continue;
        }
        bar.set_message(candidate.engine.clone());
        match problem.measure(gpu, &candidate) {
            Ok(measurement) => measured.push(measurement),
            Err(failure) => *failed.entry(short(&failure.to_string())).or_default() += 1,
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    measured.sort_by(|a, b| a.milliseconds.total_cmp(&b.milliseconds));
    let shown = if std::env::args().nth(2).is_some() { measured.len() } else { MAX_SHOWN };
    report(&measured, &failed, shown)
}

fn report(measured: &[Measurement], failed: &BTreeMap<String, usize>, shown: usize) -> Result<(), Failure> {
    let best = measured.first().ok_or("no configuration ran")?;
    println!("\n{:>4} {:>9} {:>11} {:>8}  source, engine, notes", "rank", "ms", "workspace", "error");
    for (index, measurement) in measured.iter().enumerate() {
        let Measurement { source, engine, notes, workspace_size, milliseconds, error } = measurement;
        if index < shown || source == FIRST_PROPOSAL {
            let rank = index + 1;
            println!("{rank:>4} {milliseconds:>9.4} {workspace_size:>11} {error:>8.1e}  {source}: {engine} {notes}");
        }
    }
    println!("{} ran, {} did not", measured.len(), failed.values().sum::<usize>());
    for (reason, count) in failed {
        println!("{count:>6} {reason}");
    }
    match measured.iter().enumerate().find(|(_, measurement)| measurement.source == FIRST_PROPOSAL) {
        Some((index, first)) => println!(
            "The heuristics' first proposal ranks {} of {} and takes {:.2} times as long as the best.",
            index + 1,
            measured.len(),
            first.milliseconds / best.milliseconds
        ),
        None => println!("The heuristics' first proposal did not run."),
    }
    Ok(())
}

/// The convolution, with tensors on the GPU and the correct result.
struct Problem {
    graph: Descriptor,
    tensors: [Tensor; 3],
    x_memory: Memory,
    w_memory: Memory,
    expected: Vec<f32>,
    /// Declared last and therefore dropped last, because the graph refers to it.
    handle: Handle,
}

impl Problem {
    fn new(gpu: &Gpu) -> Result<Self, Failure> {
        let x = Tensor::channels_last(1, HALF, &[16, 256, 28, 28]);
        let w = Tensor::channels_last(2, HALF, &[256, 256, 3, 3]);
        let y = Tensor::channels_last(3, HALF, &[16, 256, 28, 28]);
        let convolution = Convolution::padded(1, 2);
        let handle = Handle::new()?;
        let graph = graph(Some(&handle), &[&convolution.forward([&x, &w, &y], 1.0, 0.0)?])?;
        println!("x {:?}, w {:?}, half, channels last, accumulated in float", x.dims, w.dims);
        let (x_values, w_values) = (reference::noise(&x), reference::noise(&w));
        let zeros = vec![0.0; y.element_count()];
        let x_memory = gpu.upload(&reference::encode(&x, &x_values))?;
        let w_memory = gpu.upload(&reference::encode(&w, &w_values))?;
        let expected = reference::convolve(&convolution, [&x, &w, &y], [&x_values, &w_values, &zeros], (1.0, 0.0));
        Ok(Problem { graph, tensors: [x, w, y], x_memory, w_memory, expected, handle })
    }

    /// Builds the plan, compares the result with the CPU's, and measures the time.
    fn measure(&self, gpu: &Gpu, candidate: &Candidate) -> Result<Measurement, Failure> {
        let plan = Plan::new(&candidate.configuration, Target::Handle(&self.handle))?;
        if plan.workspace_size > MAX_WORKSPACE {
            return Err("needs more workspace than this example allows".into());
        }
        let workspace = gpu.zeroed(plan.workspace_size)?;
        let [x, w, y] = &self.tensors;
        // Filled with NaN to detect elements that are never written, and to erase an earlier candidate's result.
        let y_memory = gpu.upload(&reference::encode(y, &vec![f32::NAN; y.element_count()]))?;
        let memory = [(x.uid, &self.x_memory), (w.uid, &self.w_memory), (y.uid, &y_memory)];
        let pack = VariantPack::new(&memory, &workspace)?;
        // SAFETY: every buffer is as large as the tensor; the workspace and the handle belong to the plan.
        let execute = || unsafe { plan.execute(&self.handle, &pack) };
        execute()?;
        let result = reference::decode(y, &gpu.download(&y_memory)?);
        let error = reference::compare(&result, &self.expected, TOLERANCE)?;
        let milliseconds = gpu.time(TIMED_RUNS, || Ok(execute()?))?;
        let Candidate { source, engine, notes, .. } = candidate;
        let (source, engine, notes) = (source.clone(), engine.clone(), notes.clone());
        Ok(Measurement { source, engine, notes, workspace_size: plan.workspace_size, milliseconds, error })
    }
}

/// Returns the heuristics' proposals, then every engine that supports the graph: first with default knobs, then with a
/// single knob changed, for all values of all knobs. Identical configurations appear once. However, cuDNN reports a
/// knob that is explicitly set to the default value, so that configuration counts as different.
fn candidates(problem: &Problem) -> Result<Vec<Candidate>, Failure> {
    let target = Target::Handle(&problem.handle);
    let mut all = Vec::<Candidate>::new();
    let mut add = |source: String, configuration: Descriptor| -> Result<(), Failure> {
        let info = ConfigurationInfo::new(&configuration)?;
        let (engine, notes) = (info.engine_text(), info.notes_text());
        if all.iter().all(|other| other.engine != engine) {
            all.push(Candidate { source, configuration, engine, notes });
        }
        Ok(())
    };
    let modes =
        [("A", Mode::CUDNN_HEUR_MODE_A), ("B", Mode::CUDNN_HEUR_MODE_B), ("fallback", Mode::CUDNN_HEUR_MODE_FALLBACK)];
    for (name, mode) in modes {
        for (index, configuration) in proposals(&problem.graph, mode, target)?.into_iter().enumerate() {
            add(format!("mode {name} {}", index + 1), configuration)?;
        }
    }
    let mut skipped = 0;
    for engine in supporting_engines(&problem.graph, target)? {
        if let Ok(default) = configuration(&engine, &[]) {
            add("default knobs".into(), default)?;
        }
        for knob in knobs(&engine)? {
            skipped += knob.values().skip(MAX_KNOB_VALUES).count();
            for value in knob.values().take(MAX_KNOB_VALUES) {
                if let Ok(changed) = configuration(&engine, &[(knob.ty, value)]) {
                    add("one knob".into(), changed)?;
                }
            }
        }
    }
    if skipped > 0 {
        println!("skipped {skipped} knob values: at most {MAX_KNOB_VALUES} per knob are tried");
    }
    Ok(all)
}

/// Returns the status and the first reason, for counting failures.
fn short(failure: &str) -> String {
    let status = failure.split(": ").next().unwrap_or_default();
    [status, first_reason(failure)].join(" ").chars().take(150).collect()
}
