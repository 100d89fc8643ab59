//! `preload`: loads the cuDNN that would be used ahead of its use, and shows the steps as a timeline.

use std::path::PathBuf;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use cudnn_loader::preload::{Devices, Preload, Report};
use cudnn_loader::{
    self as cudnn, Options, cudnnConvolutionFwdAlgo_t, cudnnConvolutionMode_t, cudnnDataType_t, cudnnStatus_t,
    cudnnTensorFormat_t,
};
use serde_json::{Value, json};

use crate::output::{Format, Outcome, document, fail, outln};

/// The options of `preload`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of cuDNN's libraries; without it, that which would be used.
    folder: Option<PathBuf>,
    /// No context, for a machine without a GPU.
    #[arg(long)]
    no_context: bool,
    /// The contexts of all devices.
    #[arg(long, conflicts_with = "no_context")]
    all_devices: bool,
    /// Do not register cuDNN's engines.
    #[arg(long)]
    no_engines: bool,
    /// Register the engines for the device that this file describes, in place of a general one.
    #[arg(long, value_name = "FILE", conflicts_with = "no_engines")]
    description: Option<PathBuf>,
    /// Then make a handle and ask for a convolution's workspace, as a first use does.
    #[arg(long)]
    query: bool,
}

/// How wide the timeline is, in characters.
const TIMELINE_WIDTH: f64 = 40.0;

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let devices = match (arguments.no_context, arguments.all_devices) {
        (true, _) => Devices::List(Vec::new()),
        (_, true) => Devices::All,
        _ => Devices::Current,
    };
    let folder = match arguments.folder.as_ref().map(std::path::absolute).transpose() {
        Ok(folder) => folder,
        Err(error) => return fail(format, error),
    };
    let options = folder.map_or(Options::new(), |folder| Options::new().path(folder));
    let what = Preload::new().options(options).devices(devices).engines(!arguments.no_engines);
    let what = match arguments.description.as_ref().map(std::fs::read_to_string) {
        None => what,
        // SAFETY: the user names the file of a description that cuDNN made, as the option's help asks for.
        Some(Ok(description)) => unsafe { what.device_description(description) },
        Some(Err(error)) => return fail(format, format!("the description cannot be read: {error}")),
    };
    let (report, failed) = match what.run() {
        Ok(report) => (report, None),
        Err(error) => (error.report.clone(), Some(error)),
    };
    let used = arguments.query.then(first_use);
    match format {
        Format::Json => document(&value(&report, used)),
        Format::Text => {
            text(&report);
            if let Some(FirstUse { handle, query, status }) = used {
                outln!("\nThen: the handle in {handle:.2} ms, the first workspace query in {query:.2} ms ({status:?})");
            }
        }
    }
    if failed.is_some() { Outcome::Problems } else { Outcome::Fine }
}

/// What the first use costs after it, in milliseconds.
struct FirstUse {
    handle: f64,
    query: f64,
    status: cudnnStatus_t,
}

/// Makes a handle, and asks for the workspace of a convolution. Nothing is freed: the program ends.
fn first_use() -> FirstUse {
    let mut made = (null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
    let (handle, x, w, y, convolution) = (&mut made.0, &mut made.1, &mut made.2, &mut made.3, &mut made.4);
    let (float, format) = (cudnnDataType_t::CUDNN_DATA_FLOAT, cudnnTensorFormat_t::CUDNN_TENSOR_NCHW);
    let start = Instant::now();
    // SAFETY: there is a place for the handle.
    let mut status = unsafe { cudnn::cudnnCreate(handle) };
    let for_handle = start.elapsed();
    let mut and = |next: cudnnStatus_t| {
        if status.is_success() {
            status = next;
        }
    };
    let mode = cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
    // SAFETY: each descriptor is made, into a place for it, before it is set.
    unsafe {
        and(cudnn::cudnnCreateTensorDescriptor(x));
        and(cudnn::cudnnSetTensor4dDescriptor(*x, format, float, 16, 64, 56, 56));
        and(cudnn::cudnnCreateTensorDescriptor(y));
        and(cudnn::cudnnSetTensor4dDescriptor(*y, format, float, 16, 64, 56, 56));
        and(cudnn::cudnnCreateFilterDescriptor(w));
        and(cudnn::cudnnSetFilter4dDescriptor(*w, float, format, 64, 64, 3, 3));
        and(cudnn::cudnnCreateConvolutionDescriptor(convolution));
        and(cudnn::cudnnSetConvolution2dDescriptor(*convolution, 1, 1, 1, 1, 1, 1, mode, float));
    }
    let algorithm = cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    let start = Instant::now();
    if status.is_success() {
        let mut size = 0;
        // SAFETY: handle and descriptors are live.
        status = unsafe {
            cudnn::cudnnGetConvolutionForwardWorkspaceSize(*handle, *x, *w, *convolution, *y, algorithm, &mut size)
        };
    }
    FirstUse { handle: milliseconds(for_handle), query: milliseconds(start.elapsed()), status }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn text(report: &Report) {
    let mut steps: Vec<_> = report.steps.iter().collect();
    steps.sort_by_key(|step| step.start);
    let whole = report.duration.as_secs_f64().max(1e-9);
    let column = |time: Duration| (time.as_secs_f64() / whole * TIMELINE_WIDTH) as usize;
    for step in steps {
        let (start, end) = (column(step.start), column(step.start + step.duration));
        let bar = format!("{}{}", " ".repeat(start), "#".repeat((end - start).max(1)));
        let (began, took) = (milliseconds(step.start), milliseconds(step.duration));
        let what = step.step.to_string();
        outln!(
            "{bar:<41} {began:8.2} +{took:8.2} ms  {what}{}",
            match step.outcome {
                cudnn_loader::preload::StepOutcome::Done => String::new(),
                ref other => format!(": {other}"),
            }
        );
    }
    outln!("\n{:.2} ms in all", milliseconds(report.duration));
}

fn value(report: &Report, used: Option<FirstUse>) -> Value {
    let steps = report.steps.iter().map(|step| {
        json!({
            "step": step.step.to_string(),
            "began_ms": milliseconds(step.start),
            "took_ms": milliseconds(step.duration),
            "outcome": step.outcome.to_string(),
            "failed": step.outcome.is_failure(),
        })
    });
    json!({
        "schema": 1,
        "took_ms": milliseconds(report.duration),
        "steps": steps.collect::<Vec<_>>(),
        "first_use": used.map(|used| json!({
            "handle_ms": used.handle,
            "query_ms": used.query,
            "status": used.status.0,
        })),
    })
}
