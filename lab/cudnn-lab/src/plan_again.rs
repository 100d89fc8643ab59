//! Rebuilds cached plans for a described device with this machine's cuDNN, without a GPU. It runs in a child process,
//! because cuDNN may crash, hang, or compile for seconds.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device;
use cudnn_backend::gpu::Gpu;
use cudnn_backend::handle::Handle;
use cudnn_cli::child_report::{Work, begin, send};
use cudnn_cli::platform::{CAN_LOAD, STATIC, STATIC_HELP};
use cudnn_cli::subprocess::{self, Ended, Timeouts};
use cudnn_cli::temporary::Temporary;
use cudnn_layers::plans::{Elements, Recorded, RecordedDescriptor, device_name, environment};
use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendKnobType_t as Knob,
};
use cudnn_plan_store::{About, Entry, Lookup, Problem, Settings, Store};
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
fn plan(recorded: &Recorded, device: &Descriptor) -> Result<(Vec<u8>, i64), cudnn_loader::Error> {
    let mut made: Vec<Descriptor> = Vec::new();
    // The engine levels above the graph are built below.
    for recorded in recorded.descriptors.iter().take(recorded.graph + 1) {
        let descriptor = set(Descriptor::new(recorded.kind)?, recorded, &made, &[])?;
        made.push(if recorded.is_finalized { descriptor.finalize()? } else { descriptor });
    }
    let Some(graph) = made.get(recorded.graph) else { return Ok((Vec::new(), 0)) };
    let mut engine = Descriptor::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph])?
        .set(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[recorded.engine])?
        .set_descriptors(Name::CUDNN_ATTR_ENGINE_DEVICEPROP, &[device])?;
    if let Some(limit) = recorded.multiprocessors {
        engine = engine.set(Name::CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, &[limit])?;
    }
    // Other engine attributes that the program set.
    let mut levels = recorded.levels.iter().filter_map(|place| recorded.descriptors.get(*place));
    if let Some(level) = levels.find(|level| level.kind == Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
        let known = [Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Name::CUDNN_ATTR_ENGINE_SM_COUNT_TARGET];
        engine = set(engine, level, &made, &known)?;
    }
    let engine = engine.finalize()?;
    let knobs = recorded.knobs.iter().map(|(knob, value)| {
        Descriptor::new(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, &[Knob(*knob as _)])?
            .set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[*value])?
            .finalize()
    });
    let knobs = knobs.collect::<Result<Vec<_>, _>>()?;
    let mut configuration = Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_ENGINECFG_ENGINE, &[&engine])?;
    if !knobs.is_empty() {
        let knobs: Vec<&Descriptor> = knobs.iter().collect();
        configuration = configuration.set_descriptors(Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, &knobs)?;
    }
    let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[&configuration.finalize()?])?
        .set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, &[device])?
        .finalize()?;
    let mut json = plan.get(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 0_u8)?;
    while json.last() == Some(&0) {
        json.pop();
    }
    Ok((json, plan.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?))
}

/// Sets all recorded attributes except the given ones.
fn set(
    mut descriptor: Descriptor,
    recorded: &RecordedDescriptor,
    made: &[Descriptor],
    without: &[Name],
) -> Result<Descriptor, cudnn_loader::Error> {
    for attribute in recorded.attributes.iter().filter(|attribute| !without.contains(&attribute.name)) {
        descriptor = match &attribute.elements {
            Elements::Descriptors(places) => {
                let children: Vec<&Descriptor> = places.iter().filter_map(|place| made.get(*place)).collect();
                descriptor.set_descriptors(attribute.name, &children)?
            }
            Elements::Bytes(bytes) => {
                // Elements may need to be aligned to their size.
                let mut aligned = vec![0_u64; bytes.len().div_ceil(8)];
                // SAFETY: `aligned` is at least as long as `bytes`, and the two do not overlap.
                unsafe { aligned.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                // SAFETY: a validated key contains that many elements of this type.
                unsafe { descriptor.set_raw(attribute.name, attribute.ty, attribute.count, aligned.as_ptr().cast())? }
            }
            _ => descriptor,
        };
    }
    Ok(descriptor)
}
