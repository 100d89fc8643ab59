//! Rebuilds cached plans for a described device with this machine's cuDNN, without a GPU. It runs in a child process,
//! because cuDNN may crash, hang, or compile for seconds.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::{self, Target};
use cudnn_backend::gpu::Gpu;
use cudnn_backend::handle::Handle;
use cudnn_cli::child_report::{Work, begin, send};
use cudnn_cli::platform::{CAN_LOAD, STATIC, STATIC_HELP};
use cudnn_cli::subprocess::{self, Ended, Timeouts};
use cudnn_cli::temporary::Temporary;
use cudnn_layers::plans::{Recorded, device_name, environment};
use cudnn_loader::cudnnBackendAttributeName_t as Name;
use cudnn_replay::rebuild::{Refused, rebuild};
use cudnn_store::plans::{About, Entry, Lookup, Problem, Settings, Store};
use serde_json::json;

use crate::devices;

/// The hidden subcommand of the child.
pub(crate) const COMMAND: &str = "internal-plan";

/// The arguments of the child. Without arguments it describes this machine's GPU.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The file that describes the device.
    device: Option<PathBuf>,
    /// The directory of the plans to rebuild.
    from: Option<PathBuf>,
    /// The directory for the new plans.
    to: Option<PathBuf>,
    /// The number of plans to skip, because an earlier process handled them.
    #[arg(default_value_t)]
    start: usize,
}

/// The message keys for a failed plan and for the index of the current plan.
const FAILED: &str = "failed";
const PLACE: &str = "place";

/// Rebuilds all plans in `from` for a described device, and writes them to `to`. If cuDNN ends the process, the rest are rebuilt in a new
/// one. Returns the reasons for failed plans.
///
/// # Errors
/// The reason why planning is impossible.
pub(crate) fn run(description: &str, from: &Path, to: &Path, timeouts: &Timeouts) -> Result<Vec<String>, String> {
    let failed = |error| format!("cannot write the description of the device: {error}");
    let (device, mut file) = Temporary::file().map_err(failed)?;
    file.write_all(description.as_bytes()).map_err(failed)?;
    let (mut failures, mut start) = (Vec::new(), 0_u64);
    loop {
        let ended =
            run_as_child(&[device.path().as_ref(), from.as_ref(), to.as_ref(), start.to_string().as_ref()], timeouts)?;
        failures.extend(texts(&ended, FAILED));
        if let Some(reason) = texts(&ended, "error").next() {
            return Err(reason);
        }
        let Some(failure) = failure(&ended) else { return Ok(failures) };
        let Some(place) = ended.messages.iter().rev().find_map(|message| message.get(PLACE)?.as_u64()) else {
            return Err(format!("{failure}: {}", ended.stderr.trim()));
        };
        failures.push(failure);
        start = place + 1;
    }
}

/// Returns cuDNN's description of this machine's first GPU.
///
/// # Errors
/// This machine has no GPU, or cuDNN cannot describe it.
pub(crate) fn describe(timeouts: &Timeouts) -> Result<String, String> {
    let ended = run_as_child(&[], timeouts)?;
    if let Some(description) = texts(&ended, "device").next() {
        return Ok(description);
    }
    let failure = || failure(&ended).map(|failure| format!("{failure}: {}", ended.stderr.trim()));
    Err(texts(&ended, "error").next().or_else(failure).unwrap_or_else(|| "cuDNN returned no description".into()))
}

fn run_as_child(arguments: &[&OsStr], timeouts: &Timeouts) -> Result<Ended, String> {
    if !CAN_LOAD {
        return Err(format!("{STATIC}; {STATIC_HELP}"));
    }
    let arguments = [&[OsStr::new(COMMAND)], arguments].concat();
    subprocess::run(&arguments, timeouts).map_err(|error| format!("cannot start a process: {error}"))
}

fn texts(ended: &Ended, key: &'static str) -> impl Iterator<Item = String> {
    ended.messages.iter().filter_map(move |message| Some(message.get(key)?.as_str()?.to_owned()))
}

fn failure(ended: &Ended) -> Option<String> {
    ended.end.failure().map(|failure| format!("the process {failure}{}", ended.during()))
}

/// Opens the store in a directory without a size limit, because the limit would remove plans before they are packed.
pub(crate) fn open(dir: &Path) -> (Store, Vec<Problem>) {
    Store::open(&Settings { dir: Some(dir.to_owned()), limit: u64::MAX, packs: Vec::new() })
}

/// Runs the child process.
pub(crate) fn run_child(arguments: &Arguments) -> ExitCode {
    let done = match (&arguments.device, &arguments.from, &arguments.to) {
        (Some(device), Some(from), Some(to)) => plan_all(device, from, to, arguments.start),
        _ => describe_first().map(|description| send(&json!({ "device": description }))),
    };
    if let Err(reason) = done {
        send(&json!({ "error": reason }));
    }
    ExitCode::SUCCESS
}

fn describe_first() -> Result<String, String> {
    begin(Work::StartDriver, "started the driver");
    let _gpu = Gpu::first().map_err(|error| error.to_string())?;
    begin(Work::Load, "loaded cuDNN");
    let handle = Handle::new().map_err(|error| error.to_string())?;
    device::to_json(&handle).map_err(|error| error.to_string())
}

fn plan_all(device: &Path, from: &Path, to: &Path, start: usize) -> Result<(), String> {
    begin(Work::Load, "loaded cuDNN");
    let text = &devices::read(device)?;
    let installation = cudnn_loader::load().map_err(|error| error.to_string())?;
    let version = installation.version.number();
    let environment = environment(version, &installation.dir)?;
    let device =
        device::from_json(text).map_err(|error| format!("cuDNN rejects the description of the device: {error}"))?;
    let ((from, _), (to, _)) = (open(from), open(to));
    for (place, stored) in from.entries().flatten().enumerate().skip(start) {
        let Entry { key, about, .. } = stored.entry;
        send(&json!({ PLACE: place }));
        begin(Work::Compute, format!("planned {}", about.label));
        let Some(recorded) = Recorded::parse(&key) else {
            send(&json!({ FAILED: format!("{}: it was written by another release of this program", about.label) }));
            continue;
        };
        let key = recorded.key_for(&environment, text.as_bytes());
        if matches!(to.get(&key), Lookup::Found(..)) {
            continue;
        }
        let start = Instant::now();
        match plan(&recorded, &device) {
            Ok((plan, workspace_size)) => {
                let about = About {
                    device: device_name(text.as_bytes()),
                    cudnn_version: version,
                    build_time: start.elapsed(),
                    workspace_size,
                    ..about
                };
                to.put(&Entry { key, plan, about }).map_err(|problem| problem.to_string())?;
            }
            Err(error) => send(&json!({ FAILED: format!("{}: {error}", about.label) })),
        }
    }
    Ok(())
}

/// Builds a plan again. Returns its JSON and the workspace size.
fn plan(recorded: &Recorded, device: &Descriptor) -> Result<(Vec<u8>, i64), String> {
    let plan = rebuild(&recorded.plan()?, Target::Device(device)).map_err(|Refused { error, place }| match error {
        Some(error) => error.to_string(),
        None => place,
    })?;
    let read = || {
        let json = plan.get(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 0_u8)?;
        Ok((json, plan.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?))
    };
    let (mut json, workspace) = read().map_err(|error: cudnn_loader::Error| error.to_string())?;
    while json.last() == Some(&0) {
        json.pop();
    }
    Ok((json, workspace))
}
