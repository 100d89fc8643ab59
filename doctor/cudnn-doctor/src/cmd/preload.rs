//! `preload`: loads cuDNN in advance and prints a timeline.

use std::path::PathBuf;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use cudnn_cli::child_report::{Work, begin};
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, milliseconds, outln};
use cudnn_cli::platform::safe_working_dir;
use cudnn_cli::programs::doctor;
use cudnn_loader::preload::{Devices, Preload, PreloadOutcome, PreloadReport, PreloadStep, StepReport};
use cudnn_loader::{
    self as cudnn, Options, cudnnConvolutionFwdAlgo_t, cudnnConvolutionMode_t, cudnnDataType_t, cudnnStatus_t,
    cudnnTensorFormat_t,
};
use serde_json::{Value, json};

use super::keep_pages::{self, KeptPages};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory of an installation. Default: the installation that the loader would use.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Do not create a CUDA context, for a machine without a GPU.
    #[arg(long)]
    no_context: bool,
    /// Create the contexts of all devices.
    #[arg(long, conflicts_with = "no_context")]
    all_devices: bool,
    /// Do not register cuDNN's engines.
    #[arg(long)]
    no_engines: bool,
    /// Afterwards create a handle and query the workspace of a convolution, like a first use.
    #[arg(long)]
    query: bool,
    /// Afterwards save a list of the mapped pages in this file, so that preloads with `CUDNN_LOADER_PAGES` request them
    /// first. Implies `--query`. Linux only.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Save the list of this running process instead of preloading.
    #[arg(long, value_name = "PID", requires = "keep")]
    of: Option<u32>,
}

/// The width of the timeline in characters.
const TIMELINE_WIDTH: f64 = 40.0;

pub(crate) fn run(arguments: &Arguments, format: Format) -> CommandResult {
    // Resolve the path before the working directory changes.
    let keep = arguments.keep.as_ref().map(std::path::absolute).transpose()?;
    if let (Some(process), Some(file)) = (arguments.of, &keep) {
        let kept = keep_pages::keep(process, file)?;
        format.report(|| json!({ "kept": kept.value() }), || kept.text());
        return Ok(Outcome::Fine);
    }
    let devices = match (arguments.no_context, arguments.all_devices) {
        (true, _) => Devices::List(Vec::new()),
        (_, true) => Devices::All,
        _ => Devices::Current,
    };
    let dir = arguments.dir.as_ref().map(std::path::absolute).transpose()?;
    let options = dir.map_or(Options::new(), |dir| Options::new().path(dir));
    // An empty or relative element of a search path must not select libraries from the user's directory.
    std::env::set_current_dir(safe_working_dir())?;
    begin(Work::Load, "preloaded cuDNN");
    let progress = |step: &StepReport| {
        begin(Work::Load, format!("preloaded cuDNN, after the step \"{}\"", step.step));
    };
    let preload = Preload::new().options(options).devices(devices).engines(!arguments.no_engines);
    let (report, outcome) = match preload.progress(progress).run() {
        Ok(report) => (report, Outcome::Fine),
        Err(error) => (error.report.clone(), Outcome::Errors),
    };
    begin(Work::Compute, "used cuDNN for the first time");
    let first_use = (arguments.query || keep.is_some()).then(first_use);
    let kept = keep.map(|file| keep_pages::keep(std::process::id(), &file)).transpose()?;
    format.report(
        || value(&report, first_use.as_ref(), kept.as_ref()),
        || {
            text(&report);
            if let Some(FirstUse { handle_ms, query_ms, status }) = &first_use {
                outln!("\nfirst use: handle {handle_ms:.2} ms, workspace query {query_ms:.2} ms ({status:?})");
            }
            kept.iter().for_each(KeptPages::text);
        },
    );
    Ok(outcome)
}

struct FirstUse {
    handle_ms: f64,
    query_ms: f64,
    /// The status of the first failed call, or success.
    status: cudnnStatus_t,
}

/// Creates a handle and queries the workspace of a convolution. Resources are freed at exit.
fn first_use() -> FirstUse {
    let (mut handle, mut x, mut w, mut y) = (null_mut(), null_mut(), null_mut(), null_mut());
    let mut convolution = null_mut();
    let (float, format) = (cudnnDataType_t::CUDNN_DATA_FLOAT, cudnnTensorFormat_t::CUDNN_TENSOR_NCHW);
    let start = Instant::now();
    // SAFETY: `handle` has room for a handle.
    let mut status = unsafe { cudnn::cudnnCreate(&mut handle) };
    let handle_time = start.elapsed();
    let mut check = |next: cudnnStatus_t| {
        if status.is_success() {
            status = next;
        }
    };
    let mode = cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
    // SAFETY: all descriptors are created in variables of their types before they are set.
    unsafe {
        check(cudnn::cudnnCreateTensorDescriptor(&mut x));
        check(cudnn::cudnnSetTensor4dDescriptor(x, format, float, 16, 64, 56, 56));
        check(cudnn::cudnnCreateTensorDescriptor(&mut y));
        check(cudnn::cudnnSetTensor4dDescriptor(y, format, float, 16, 64, 56, 56));
        check(cudnn::cudnnCreateFilterDescriptor(&mut w));
        check(cudnn::cudnnSetFilter4dDescriptor(w, float, format, 64, 64, 3, 3));
        check(cudnn::cudnnCreateConvolutionDescriptor(&mut convolution));
        check(cudnn::cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, mode, float));
    }
    let algorithm = cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    let start = Instant::now();
    if status.is_success() {
        let mut size = 0;
        // SAFETY: handle and descriptors are live.
        status = unsafe {
            cudnn::cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, convolution, y, algorithm, &mut size)
        };
    }
    FirstUse { handle_ms: milliseconds(handle_time), query_ms: milliseconds(start.elapsed()), status }
}

fn text(report: &PreloadReport) {
    let mut steps: Vec<_> = report.steps.iter().collect();
    steps.sort_by_key(|step| step.start);
    let total = report.duration.as_secs_f64().max(1e-9);
    let column = |time: Duration| (time.as_secs_f64() / total * TIMELINE_WIDTH) as usize;
    for step in steps {
        let (start, end) = (column(step.start), column(step.start + step.duration));
        let bar = format!("{}{}", " ".repeat(start), "#".repeat((end - start).max(1)));
        let (start, duration) = (milliseconds(step.start), milliseconds(step.duration));
        let outcome = match &step.outcome {
            PreloadOutcome::Done => String::new(),
            other => format!(": {}", other.to_string().printable()),
        };
        outln!("{bar:<41} {start:8.2} +{duration:8.2} ms  {}{outcome}", step.step.to_string().printable());
    }
    outln!("\n{:.2} ms in total", milliseconds(report.duration));
    let is_load = |step: &StepReport| matches!(step.step, PreloadStep::Select | PreloadStep::Load(_));
    if report.steps.iter().any(|step| step.outcome.is_failure() && is_load(step)) {
        outln!("help: `{} check` shows what is wrong, and the commands that fix it", doctor());
    }
}

fn value(report: &PreloadReport, first_use: Option<&FirstUse>, kept: Option<&KeptPages>) -> Value {
    let steps = report.steps.iter().map(|step| {
        json!({
            "step": step.step.to_string(),
            "start_ms": milliseconds(step.start),
            "duration_ms": milliseconds(step.duration),
            "outcome": step.outcome.to_string(),
            "failed": step.outcome.is_failure(),
        })
    });
    json!({
        "duration_ms": milliseconds(report.duration),
        "steps": steps.collect::<Vec<_>>(),
        "first_use": first_use.map(|first_use| json!({
            "handle_ms": first_use.handle_ms,
            "query_ms": first_use.query_ms,
            "status": first_use.status.0,
        })),
        "kept": kept.map(KeptPages::value),
    })
}
