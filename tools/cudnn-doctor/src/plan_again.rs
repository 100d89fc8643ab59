//! Plans that were kept, planned again for a described device and the cuDNN of this machine, which needs no GPU. In a child
//! process: cuDNN may crash or hang, and compiles for seconds.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device;
use cudnn_backend::gpu::Gpu;
use cudnn_backend::handle::Handle;
use cudnn_layers::plans::{Elements, Recorded, RecordedDescriptor, device_name, environment};
use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendKnobType_t as Knob,
};
use cudnn_plan_store::{About, Entry, Lookup, Settings, Store};
use cudnn_probe::read_bounded;
use serde_json::json;

use crate::child_report::{Work, begin, send};
use crate::escape::Printable;
use crate::platform::{CAN_LOAD, STATIC, STATIC_HELP};
use crate::subprocess::{self, Patience};

/// The hidden subcommand of the child.
pub(crate) const COMMAND: &str = "internal-plan";

/// The arguments of the child.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Describe this machine's GPU, and plan nothing.
    #[arg(long)]
    describe: bool,
    /// The description of the device.
    device: Option<PathBuf>,
    /// The directory of the plans to make again.
    from: Option<PathBuf>,
    /// The directory for the new ones.
    to: Option<PathBuf>,
    /// Plans that have ended the process before, by their places.
    skip: Vec<usize>,
}

/// What became of plans.
pub(crate) struct Planned {
    /// Why some were not planned, with their labels.
    pub(crate) failures: Vec<String>,
}

/// The key of a message about a plan that failed.
const FAILED: &str = "failed";
/// A message about the place of the plan that is made.
const PLACE: &str = "place";

/// Plans all of `from` again, into `to`. Goes on in another process if cuDNN ends one.
///
/// # Errors
/// When nothing can be planned, and why.
pub(crate) fn run(device: &Path, from: &Path, to: &Path, patience: &Patience) -> Result<Planned, String> {
    if !CAN_LOAD {
        return Err(format!("{STATIC}; {STATIC_HELP}"));
    }
    let (mut failures, mut skip) = (Vec::new(), Vec::<usize>::new());
    loop {
        let places: Vec<OsString> = skip.iter().map(|place| place.to_string().into()).collect();
        let mut arguments = vec![OsStr::new(COMMAND), device.as_os_str(), from.as_os_str(), to.as_os_str()];
        arguments.extend(places.iter().map(OsString::as_os_str));
        let ended =
            subprocess::run(&arguments, patience).map_err(|error| format!("cannot start a process: {error}"))?;
        let texts =
            |key: &str| ended.messages.iter().filter_map(|message| message.get(key)).cloned().collect::<Vec<_>>();
        failures.extend(texts(FAILED).iter().filter_map(|text| text.as_str()).map(str::to_owned));
        if let Some(reason) = texts("error").first().and_then(|text| text.as_str()) {
            return Err(reason.to_owned());
        }
        let Some(failure) = ended.end.failure() else { return Ok(Planned { failures }) };
        let place =
            texts(PLACE).last().and_then(serde_json::Value::as_u64).and_then(|place| usize::try_from(place).ok());
        let Some(place) = place.filter(|place| !skip.contains(place)) else {
            return Err(format!("the process {failure}{}: {}", ended.during(), ended.stderr.trim()));
        };
        failures.push(format!("the process {failure}{}", ended.during()));
        skip.push(place);
    }
}

/// cuDNN's description of this machine's first GPU.
///
/// # Errors
/// When there is none, or cuDNN does not describe it.
pub(crate) fn describe(patience: &Patience) -> Result<String, String> {
    if !CAN_LOAD {
        return Err(format!("{STATIC}; {STATIC_HELP}"));
    }
    let ended = subprocess::run(&[OsStr::new(COMMAND), OsStr::new("--describe")], patience)
        .map_err(|error| format!("cannot start a process: {error}"))?;
    let text = |key: &str| ended.messages.iter().find_map(|message| message.get(key)?.as_str()).map(str::to_owned);
    if let Some(description) = text("device") {
        return Ok(description);
    }
    let failure =
        ended.end.failure().map(|failure| format!("the process {failure}{}: {}", ended.during(), ended.stderr.trim()));
    Err(text("error").or(failure).unwrap_or_else(|| "there is no description".into()))
}

fn describe_first() -> Result<String, String> {
    begin(Work::StartDriver, "started the driver");
    let _gpu = Gpu::first().map_err(|error| error.to_string())?;
    begin(Work::Load, "loaded cuDNN");
    let handle = Handle::new().map_err(|error| error.to_string())?;
    device::to_json(&handle).map_err(|error| error.to_string())
}

/// The child process.
pub(crate) fn run_child(arguments: &Arguments) -> ExitCode {
    let done = match (&arguments.device, &arguments.from, &arguments.to) {
        _ if arguments.describe => describe_first().map(|description| send(&json!({ "device": description }))),
        (Some(device), Some(from), Some(to)) => plan_all(device, from, to, &arguments.skip),
        _ => Err("the child needs a device and two directories".into()),
    };
    if let Err(reason) = done {
        send(&json!({ "error": reason }));
    }
    ExitCode::SUCCESS
}

/// The description of a device in this file.
///
/// # Errors
/// Why there is none.
pub(crate) fn description(device: &Path) -> Result<String, String> {
    /// cuDNN's have some 5 KB.
    const MAX_SIZE: u64 = 1 << 20;
    let bytes = read_bounded(device, MAX_SIZE).map_err(|error| format!("{}: {error}", device.printable()))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{} is no text", device.printable()))?;
    Ok(text.trim_ascii().to_owned())
}

fn plan_all(device: &Path, from: &Path, to: &Path, skip: &[usize]) -> Result<(), String> {
    begin(Work::Load, "loaded cuDNN");
    let text = &description(device)?;
    let installation = cudnn_loader::load().map_err(|error| error.to_string())?;
    let version = installation.version.number();
    let environment = environment(version, &installation.dir)?;
    let device =
        device::from_json(text).map_err(|error| format!("cuDNN rejects the description of the device: {error}"))?;
    // A limit would remove plans that are to be packed.
    let open =
        |dir: &Path| Store::open(&Settings { dir: Some(dir.to_owned()), limit: u64::MAX, ..Settings::default() }).0;
    let (from, to) = (open(from), open(to));
    for (place, stored) in from.entries().flatten().enumerate() {
        if skip.contains(&place) {
            continue;
        }
        let Entry { key, about, .. } = stored.entry;
        send(&json!({ PLACE: place }));
        begin(Work::Compute, format!("planned {}", about.label));
        let Some(recorded) = Recorded::parse(&key) else {
            send(&json!({ FAILED: format!("{}: another release of this program has kept it", about.label) }));
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

/// Plans again. Returns the JSON and the workspace.
fn plan(recorded: &Recorded, device: &Descriptor) -> Result<(Vec<u8>, i64), cudnn_loader::Error> {
    let mut made: Vec<Descriptor> = Vec::new();
    // What lies above the graph is put together below.
    for recorded in recorded.descriptors.iter().take(recorded.graph + 1) {
        let descriptor = set(Descriptor::new(recorded.kind)?, recorded, &made, &[])?;
        made.push(if recorded.is_finalized { descriptor.finalize()? } else { descriptor });
    }
    let engine = Descriptor::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
    let Some(graph) = made.get(recorded.graph) else { return Ok((Vec::new(), 0)) };
    let engine = engine
        .set_descriptors(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph])?
        .set(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[recorded.engine])?
        .set_descriptors(Name::CUDNN_ATTR_ENGINE_DEVICEPROP, &[device])?;
    let engine = match recorded.multiprocessors {
        Some(limit) => engine.set(Name::CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, &[limit])?,
        None => engine,
    };
    // What else the program set in the engine.
    let levels = recorded.levels.iter().filter_map(|place| recorded.descriptors.get(*place));
    let set_in = |kind| levels.clone().find(move |level: &&RecordedDescriptor| level.kind == kind);
    let known = [Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Name::CUDNN_ATTR_ENGINE_SM_COUNT_TARGET];
    let engine = match set_in(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
        Some(level) => set(engine, level, &made, &known)?,
        None => engine,
    }
    .finalize()?;
    let configuration = Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_ENGINECFG_ENGINE, &[&engine])?;
    let knobs = recorded.knobs.iter().map(|(knob, value)| {
        Descriptor::new(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, &[Knob(*knob as _)])?
            .set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[*value])?
            .finalize()
    });
    let knobs = knobs.collect::<Result<Vec<_>, _>>()?;
    let configuration = if knobs.is_empty() {
        configuration
    } else {
        let knobs: Vec<&Descriptor> = knobs.iter().collect();
        configuration.set_descriptors(Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, &knobs)?
    }
    .finalize()?;
    let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[&configuration])?
        .set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, &[device])?
        .finalize()?;
    let mut json = plan.get(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 0_u8)?;
    while json.last() == Some(&0) {
        json.pop();
    }
    Ok((json, plan.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?))
}

/// Sets what was recorded, but for these attributes.
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
                // The elements may have to lie at multiples of their size.
                let mut aligned = vec![0_u64; bytes.len().div_ceil(8)];
                // SAFETY: there are as many bytes.
                unsafe { aligned.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                // SAFETY: a key that was read has as many elements of that type.
                unsafe { descriptor.set_raw(attribute.name, attribute.ty, attribute.count, aligned.as_ptr().cast())? }
            }
            _ => descriptor,
        };
    }
    Ok(descriptor)
}
