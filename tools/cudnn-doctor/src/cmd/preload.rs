//! `preload`: loads cuDNN before its first use, and shows the steps as a timeline.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use cudnn_loader::preload::{Devices, Preload, Report, StepOutcome, StepReport};
use cudnn_loader::{
    self as cudnn, Options, cudnnConvolutionFwdAlgo_t, cudnnConvolutionMode_t, cudnnDataType_t, cudnnStatus_t,
    cudnnTensorFormat_t,
};
use serde_json::{Value, json};

use super::keep_pages::{self, Kept};
use crate::child_report::{Work, begin};
use crate::escape::Printable;
use crate::output::{Format, Outcome, SCHEMA, document, fail, outln};
use crate::platform::{open_without_waiting, safe_working_dir};

/// The options of `preload`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory of an installation. Without it: the installation that the loader would use.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Create no CUDA context: for a machine without a GPU.
    #[arg(long)]
    no_context: bool,
    /// Create the contexts of all devices.
    #[arg(long, conflicts_with = "no_context")]
    all_devices: bool,
    /// Do not register cuDNN's engines.
    #[arg(long)]
    no_engines: bool,
    /// Register the engines for the device that this file describes, instead of for a generic one. cuDNN must have
    /// written the description: it crashes on others.
    #[arg(long, value_name = "FILE", conflicts_with = "no_engines")]
    description: Option<PathBuf>,
    /// Then create a handle and query the workspace of a convolution, as a first use does.
    #[arg(long)]
    query: bool,
    /// Then keep a list of the pages that were mapped, which later preloads of this installation ask for first. With
    /// `--query`. Linux only.
    #[arg(long)]
    keep: bool,
    /// Preload nothing: keep the list of this running process, for programs in the directory of its program.
    #[arg(long, value_name = "PID", requires = "keep")]
    of: Option<u32>,
    /// Write the list to this file, and not beside the plans: for a container image.
    #[arg(long, value_name = "FILE", requires = "keep")]
    to: Option<PathBuf>,
}

/// The width of the timeline, in characters.
const TIMELINE_WIDTH: f64 = 40.0;

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    // The working directory is going to be another one.
    let to = match arguments.to.as_ref().map(std::path::absolute).transpose() {
        Ok(to) => to,
        Err(error) => return fail(format, error),
    };
    if arguments.of.is_some() {
        return match keep_pages::keep(arguments.of, to.as_deref()) {
            Ok(kept) => {
                match format {
                    Format::Json => document(&json!({ "schema": SCHEMA, "kept": kept.value() })),
                    Format::Text => kept.text(),
                }
                Outcome::Fine
            }
            Err(reason) => fail(format, reason.printable()),
        };
    }
    let devices = match (arguments.no_context, arguments.all_devices) {
        (true, _) => Devices::List(Vec::new()),
        (_, true) => Devices::All,
        _ => Devices::Current,
    };
    let dir = match arguments.dir.as_ref().map(std::path::absolute).transpose() {
        Ok(dir) => dir,
        Err(error) => return fail(format, error),
    };
    let options = dir.map_or(Options::new(), |dir| Options::new().path(dir));
    let preload = Preload::new().options(options).devices(devices).engines(!arguments.no_engines);
    let preload = match arguments.description.as_deref().map(read_description) {
        None => preload,
        // SAFETY: the user names the file of a description that cuDNN wrote, as the option's help asks for.
        Some(Ok(description)) => unsafe { preload.device_description(description) },
        Some(Err(error)) => return fail(format, format!("cannot read the device description: {error}")),
    };
    // An empty or relative element of a search path must not lead to libraries in the user's directory.
    if let Err(error) = std::env::set_current_dir(safe_working_dir()) {
        return fail(format, error);
    }
    begin(Work::Load, "preloaded cuDNN");
    let progress = |step: &StepReport| {
        begin(Work::Load, format!("preloaded cuDNN, after the step \"{}\"", step.step));
    };
    let (report, is_failure) = match preload.run_with_progress(progress) {
        Ok(report) => (report, false),
        Err(error) => (error.report.clone(), true),
    };
    begin(Work::Compute, "used cuDNN for the first time");
    let first_use = (arguments.query || arguments.keep).then(first_use);
    let kept = match arguments.keep.then(|| keep_pages::keep(None, to.as_deref())).transpose() {
        Ok(kept) => kept,
        Err(reason) => return fail(format, reason.printable()),
    };
    match format {
        Format::Json => document(&value(&report, first_use, kept.as_ref())),
        Format::Text => {
            text(&report);
            if let Some(FirstUse { handle_ms, query_ms, status }) = first_use {
                outln!("\nfirst use: handle {handle_ms:.2} ms, workspace query {query_ms:.2} ms ({status:?})");
            }
            kept.iter().for_each(Kept::text);
        }
    }
    if is_failure { Outcome::Errors } else { Outcome::Fine }
}

/// The largest description that is read, in bytes. Those that cuDNN writes have a few thousand.
const MAX_DESCRIPTION_LEN: u64 = 1 << 20;

/// Reads a device description, which must be a regular file.
fn read_description(file: &Path) -> std::io::Result<String> {
    let file = open_without_waiting(file)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > MAX_DESCRIPTION_LEN {
        return Err(std::io::Error::other("it is no regular file of at most 1 MB"));
    }
    let mut text = String::new();
    file.take(MAX_DESCRIPTION_LEN).read_to_string(&mut text)?;
    Ok(text)
}

/// The cost of the first use after the preload.
struct FirstUse {
    handle_ms: f64,
    query_ms: f64,
    /// The status of the first call that failed, or success.
    status: cudnnStatus_t,
}

/// Creates a handle and queries the workspace of a convolution. Nothing is freed: the program ends.
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
    // SAFETY: each descriptor is created, into a variable of its type, before it is set.
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

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn text(report: &Report) {
    let mut steps: Vec<_> = report.steps.iter().collect();
    steps.sort_by_key(|step| step.start);
    let total = report.duration.as_secs_f64().max(1e-9);
    let column = |time: Duration| (time.as_secs_f64() / total * TIMELINE_WIDTH) as usize;
    for step in steps {
        let (start, end) = (column(step.start), column(step.start + step.duration));
        let bar = format!("{}{}", " ".repeat(start), "#".repeat((end - start).max(1)));
        let (start, duration) = (milliseconds(step.start), milliseconds(step.duration));
        let outcome = match &step.outcome {
            StepOutcome::Done => String::new(),
            other => format!(": {}", other.to_string().printable()),
        };
        outln!("{bar:<41} {start:8.2} +{duration:8.2} ms  {}{outcome}", step.step.to_string().printable());
    }
    outln!("\n{:.2} ms in total", milliseconds(report.duration));
}

fn value(report: &Report, first_use: Option<FirstUse>, kept: Option<&Kept>) -> Value {
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
        "schema": SCHEMA,
        "duration_ms": milliseconds(report.duration),
        "steps": steps.collect::<Vec<_>>(),
        "first_use": first_use.map(|first_use| json!({
            "handle_ms": first_use.handle_ms,
            "query_ms": first_use.query_ms,
            "status": first_use.status.0,
        })),
        "kept": kept.map(Kept::value),
    })
}
