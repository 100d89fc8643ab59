//! The fastest engine for a convolution, found by trying: what the heuristics propose, and what one comes upon by walking all
//! engines, each as it is and with one knob turned; and how good the heuristics' first choice was.
//!
//! `cargo run --release -p cudnn-loader --example choose_engine [SECONDS [all]]`, where the walk ends after so many (60); `all` shows
//! every one that ran, and not the first few.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cudnn_loader as cudnn;
use indicatif::{ProgressBar, ProgressStyle};

#[path = "../backend/mod.rs"]
mod backend;

use backend::descriptor::{Descriptor, Handle};
use backend::gpu::{Gpu, Memory};
use backend::graph::{Convolution, graph};
use backend::plan::{For, Pack, Plan, about, configuration, engine, engine_count, knobs, proposed};
use backend::tensor::Tensor;
use backend::{Failure, reference};
use cudnn::cudnnBackendHeurMode_t as Mode;
use cudnn::cudnnDataType_t;

const HALF: cudnnDataType_t = cudnnDataType_t::CUDNN_DATA_HALF;
/// Some engines add up in another order, or transform first.
const TOLERANCE: f64 = 5e-3;
/// What wants more workspace, in bytes, is left out.
const MAX_WORKSPACE: usize = 1 << 30;
const RUNS: u32 = 20;
const SHOWN: usize = 15;

fn main() -> ExitCode {
    backend::on_a_gpu(run)
}

/// A configuration, with where it comes from.
struct Candidate {
    source: String,
    configuration: Descriptor,
    engine: String,
    notes: String,
}

/// One that ran.
struct Ran {
    source: String,
    engine: String,
    notes: String,
    workspace: usize,
    milliseconds: f64,
    error: f64,
}

fn run(gpu: &Gpu) -> Result<(), Failure> {
    let limit = match std::env::args().nth(1) {
        Some(seconds) => seconds.parse().map_err(|_| format!("{seconds:?} is no number of seconds"))?,
        None => 60,
    };
    let problem = Problem::new(gpu)?;
    let candidates = candidates(&problem)?;
    let heuristics = candidates.iter().filter(|candidate| candidate.source.starts_with("mode")).count();
    println!("{heuristics} configurations by heuristics, {} more by walking", candidates.len() - heuristics);

    let bar = ProgressBar::new(candidates.len() as u64);
    bar.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len}, {eta} left: {msg}")?);
    let (mut ran, mut refused) = (Vec::new(), BTreeMap::<String, usize>::new());
    let end = Instant::now() + Duration::from_secs(limit);
    for (index, candidate) in candidates.into_iter().enumerate() {
        // The heuristics' proposals all have their turn.
        if index >= heuristics && Instant::now() > end {
            *refused.entry("out of time".into()).or_default() += 1;
            continue;
        }
        bar.set_message(candidate.engine.clone());
        match problem.time(gpu, &candidate) {
            Ok(one) => ran.push(one),
            Err(failure) => *refused.entry(in_short(&failure.to_string())).or_default() += 1,
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    ran.sort_by(|a, b| a.milliseconds.total_cmp(&b.milliseconds));
    let shown = if std::env::args().nth(2).is_some() { ran.len() } else { SHOWN };
    report(&ran, &refused, shown)
}

fn report(ran: &[Ran], refused: &BTreeMap<String, usize>, shown: usize) -> Result<(), Failure> {
    let best = ran.first().ok_or("no configuration can run")?;
    println!("\n{:>4} {:>9} {:>11} {:>8}  from, engine, notes", "rank", "ms", "workspace", "error");
    for (rank, one) in ran.iter().enumerate() {
        let is_first_choice = one.source == FIRST_CHOICE;
        if rank < shown || is_first_choice {
            let Ran { source, engine, notes, workspace, milliseconds, error } = one;
            println!("{:>4} {milliseconds:>9.4} {workspace:>11} {error:>8.1e}  {source}: {engine} {notes}", rank + 1);
        }
    }
    println!("{} ran, {} did not", ran.len(), refused.values().sum::<usize>());
    for (why, count) in refused {
        println!("{count:>6} {why}");
    }
    match ran.iter().enumerate().find(|(_, one)| one.source == FIRST_CHOICE) {
        Some((rank, first)) => println!(
            "The heuristics' first choice is number {} of {}, and takes {:.2} times as long as the best.",
            rank + 1,
            ran.len(),
            first.milliseconds / best.milliseconds
        ),
        None => println!("The heuristics had no first choice that runs."),
    }
    Ok(())
}

const FIRST_CHOICE: &str = "mode A 1";

/// The convolution, with its tensors on the GPU and the right result.
struct Problem {
    graph: Descriptor,
    tensors: [Tensor; 3],
    there: [Memory; 3],
    expected: Vec<f32>,
    /// The last, since it goes last: the graph has it.
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
        println!("x {:?}, w {:?}, half, channels last, sums in float", x.dims, w.dims);
        let (x_values, w_values) = (reference::noise(&x), reference::noise(&w));
        let nothing = vec![0.0; y.len()];
        let there = [
            gpu.upload(&reference::bytes(&x, &x_values))?,
            gpu.upload(&reference::bytes(&w, &w_values))?,
            gpu.room(y.len() * 2)?,
        ];
        let expected = reference::convolve(&convolution, [&x, &w, &y], [&x_values, &w_values, &nothing], (1.0, 0.0));
        Ok(Problem { graph, tensors: [x, w, y], there, expected, handle })
    }

    /// Makes the plan, holds its result against the CPU's, and takes its time.
    fn time(&self, gpu: &Gpu, candidate: &Candidate) -> Result<Ran, Failure> {
        let plan = Plan::new(&candidate.configuration, For::Handle(&self.handle))?;
        if plan.workspace > MAX_WORKSPACE {
            return Err("more workspace than is allowed".into());
        }
        let workspace = gpu.room(plan.workspace)?;
        let [x, w, y] = &self.tensors;
        let [x_there, w_there, _] = &self.there;
        // Not zeros but NaN, so that an element that nobody writes shows; and not the last one's result.
        let y_there = gpu.upload(&reference::bytes(y, &vec![f32::NAN; y.len()]))?;
        let memory = [(x.uid, x_there), (w.uid, w_there), (y.uid, &y_there)];
        let pack = Pack::new(&memory, &workspace)?;
        // SAFETY: each memory was made for its tensor, the workspace and the handle are the plan's.
        let execute = || unsafe { plan.execute(&self.handle, &pack) };
        execute()?;
        let result = reference::values(y, &gpu.download(&y_there)?);
        let error = reference::compare(&result, &self.expected, TOLERANCE)?;
        let milliseconds = gpu.time(RUNS, || Ok(execute()?))?;
        let Candidate { source, engine, notes, .. } = candidate;
        let (source, engine, notes) = (source.clone(), engine.clone(), notes.clone());
        Ok(Ran { source, engine, notes, workspace: plan.workspace, milliseconds, error })
    }
}

/// What the heuristics propose, and then every engine that takes the graph: as it is, and with each of its knobs at each of
/// its values, one at a time. Each description once: a knob that is turned to where it stands counts again.
fn candidates(problem: &Problem) -> Result<Vec<Candidate>, Failure> {
    let what_for = For::Handle(&problem.handle);
    let mut all = Vec::<Candidate>::new();
    let mut add = |source: String, configuration: Descriptor| -> Result<(), Failure> {
        let (engine, notes) = about(&configuration)?.words();
        if all.iter().all(|other| other.engine != engine) {
            all.push(Candidate { source, configuration, engine, notes });
        }
        Ok(())
    };
    let modes =
        [("A", Mode::CUDNN_HEUR_MODE_A), ("B", Mode::CUDNN_HEUR_MODE_B), ("fallback", Mode::CUDNN_HEUR_MODE_FALLBACK)];
    for (name, mode) in modes {
        for (index, configuration) in proposed(&problem.graph, mode, what_for)?.into_iter().enumerate() {
            add(format!("mode {name} {}", index + 1), configuration)?;
        }
    }
    let mut cut = 0;
    for index in 0..engine_count(&problem.graph)? {
        // An engine that does not take the graph is no failure: there are many, each for some graphs.
        let Ok(engine) = engine(&problem.graph, index, what_for) else { continue };
        if let Ok(plain) = configuration(&engine, &[]) {
            add("walk".into(), plain)?;
        }
        for knob in knobs(&engine)? {
            cut += knob.values().skip(MAX_VALUES).count();
            for value in knob.values().take(MAX_VALUES) {
                if let Ok(turned) = configuration(&engine, &[(knob.kind, value)]) {
                    add("walk".into(), turned)?;
                }
            }
        }
    }
    if cut > 0 {
        println!("{cut} values of knobs that have many are left out");
    }
    Ok(all)
}

/// Of one knob; some have a thousand.
const MAX_VALUES: usize = 16;

/// The status and the first reason: enough to count by.
fn in_short(failure: &str) -> String {
    let status = failure.split(": ").next().unwrap_or_default();
    [status, backend::first_reason(failure)].join(" ").chars().take(150).collect()
}
