//! Rebuilds cached plans for a described device, and describes this machine's GPUs. This happens in a child process,
//! because cuDNN and the driver may crash, hang, or compile for seconds.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::{self, Target};
use cudnn_backend::gpu::Gpu;
use cudnn_backend::handle::Handle;
use cudnn_cli::child_report::{Work, begin};
use cudnn_cli::subprocess::{Spinner, Timeouts};
use cudnn_cli::temporary;
use cudnn_layers::plans::{Recorded, device_name, environment};
use cudnn_loader::cudnnBackendAttributeName_t as Name;
use cudnn_replay::rebuild::{Refused, rebuild};
use cudnn_store::plans::{PlanEntry, PlanInfo};
use serde::{Deserialize, Serialize};

use crate::worker::{Client, Stop, serve};

pub(crate) const COMMAND: &str = "internal-plan";

#[derive(Serialize, Deserialize)]
enum Request {
    /// cuDNN's description of this machine's first GPU.
    Gpu,
    /// The compute capabilities of this machine's GPUs.
    ComputeCapabilities,
    /// A plan for a described device.
    Plan { device: String, recorded: Recorded, label: String },
}

#[derive(Deserialize, Serialize)]
struct Rebuilt {
    key: Vec<u8>,
    json: String,
    cudnn_version: u32,
    workspace_size: i64,
    build_time: Duration,
}

/// Rebuilds plans for a described device. Adds the reasons for missing plans to `failures`.
pub(crate) fn rebuild_all(
    device: &str,
    entries: impl Iterator<Item = PlanEntry>,
    failures: &mut Vec<String>,
    timeouts: &Timeouts,
) -> Result<Vec<PlanEntry>, String> {
    let (mut client, mut spinner) = (Client::new(COMMAND, None, timeouts), Spinner::new(true));
    let (mut rebuilt, mut known) = (Vec::new(), Vec::new());
    for PlanEntry { key, about, .. } in entries {
        let Some(recorded) = Recorded::parse(&key) else {
            failures.push(format!("{}: it was written by another release of this program", about.label));
            continue;
        };
        // Plans that were cached for several devices are the same plan here.
        if known.contains(&recorded) {
            continue;
        }
        let request =
            Request::Plan { device: device.to_owned(), recorded: recorded.clone(), label: about.label.clone() };
        match ask::<Result<Rebuilt, String>>(&mut client, request, &mut spinner)? {
            Ok(Ok(Rebuilt { key, json, cudnn_version, workspace_size, build_time })) => {
                let device = device_name(device.as_bytes());
                let about = PlanInfo { device, cudnn_version, build_time, workspace_size, ..about };
                rebuilt.push(PlanEntry { key, plan: json.into_bytes(), about });
                known.push(recorded);
            }
            Ok(Err(reason)) => failures.push(format!("{}: {reason}", about.label)),
            Err(end) => failures.push(end),
        }
    }
    Ok(rebuilt)
}

/// Returns cuDNN's description of the first GPU, or an error if there is no GPU or no description.
pub(crate) fn describe_gpu(timeouts: &Timeouts) -> Result<String, String> {
    ask(&mut Client::new(COMMAND, None, timeouts), Request::Gpu, &mut Spinner::new(true))?
}

/// Returns the compute capabilities of the GPUs in tenths, or none without a working driver.
pub(crate) fn compute_capabilities(timeouts: &Timeouts) -> Vec<u32> {
    let (mut client, mut spinner) = (Client::new(COMMAND, None, timeouts), Spinner::new(true));
    ask(&mut client, Request::ComputeCapabilities, &mut spinner).ok().and_then(Result::ok).unwrap_or_default()
}

/// Returns the worker's answer, or the reason for its end.
fn ask<T: for<'de> Deserialize<'de>>(
    client: &mut Client<'_>,
    request: Request,
    spinner: &mut Spinner,
) -> Result<Result<T, String>, String> {
    match client.ask(&[request], 1, &mut || spinner.turn(|| "computing")) {
        Ok(answer) => Ok(answer.map(|(answer, _)| answer).map_err(|lost| lost.reason)),
        Err(Stop::Failed(reason)) => Err(reason),
        Err(Stop::Interrupted(signal)) => temporary::end_by(signal),
    }
}

pub(crate) fn run_child() -> ExitCode {
    serve(|message| {
        let requests: [Request; 1] = serde_json::from_slice(message).map_err(|error| error.to_string())?;
        let [request] = requests;
        Ok((answer(request)?, true))
    });
    ExitCode::SUCCESS
}

fn answer(request: Request) -> Result<serde_json::Value, String> {
    let answer = match request {
        Request::Gpu => serde_json::to_value(gpu()?),
        Request::ComputeCapabilities => {
            begin(Work::StartDriver, "started the driver");
            serde_json::to_value(Gpu::compute_capabilities().unwrap_or_default())
        }
        Request::Plan { device, recorded, label } => {
            begin(Work::Load, "loaded cuDNN");
            let installation = cudnn_loader::load().map_err(|error| error.to_string())?;
            let version = installation.version.number();
            let environment = environment(version, &installation.dir)?;
            let descriptor = device::from_json(&device)
                .map_err(|error| format!("cuDNN rejects the description of the device: {error}"))?;
            begin(Work::Compute, format!("planned {label}"));
            let start = Instant::now();
            serde_json::to_value(plan(&recorded, &descriptor).map(|(json, workspace_size)| Rebuilt {
                key: recorded.key_for(&environment, device.as_bytes()),
                json,
                cudnn_version: version,
                workspace_size,
                build_time: start.elapsed(),
            }))
        }
    };
    answer.map_err(|error| error.to_string())
}

fn gpu() -> Result<String, String> {
    begin(Work::StartDriver, "started the driver");
    let _gpu = Gpu::first().map_err(|error| error.to_string())?;
    begin(Work::Load, "loaded cuDNN");
    let handle = Handle::new().map_err(|error| error.to_string())?;
    device::to_json(&handle).map_err(|error| error.to_string())
}

/// Rebuilds a plan. Returns its JSON and the workspace size.
fn plan(recorded: &Recorded, device: &Descriptor) -> Result<(String, i64), String> {
    let plan = rebuild(&recorded.plan()?, Target::Device(device)).map_err(|Refused { error, place }| match error {
        Some(error) => error.to_string(),
        None => place,
    })?;
    let read = || {
        let json = plan.get(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 0_u8)?;
        Ok((json, plan.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?))
    };
    let (json, workspace_size) = read().map_err(|error: cudnn_loader::Error| error.to_string())?;
    let json = String::from_utf8(json).map_err(|error| error.to_string())?;
    Ok((json.trim_end_matches('\0').to_owned(), workspace_size))
}
