//! Finalizes plans: restores them from the cache, or lets cuDNN build them and caches them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::lock::thread_token;
use cudnn_store::plans::{PlanEntry, PlanInfo, PlanLookup};
use cudnn_sys::types::cudnnStatus_t;

use super::configuration::Configuration;
use super::device;
use super::key::{DeviceSource, Key, NO_CONFIGURATION, NotCached};
use super::plan_json::PlanJson;
use super::restored::{self, Restored, built};
use super::state::State;
use super::variables::Variables;
use crate::cudnn::{ABSENT, Cudnn, UNCLEAR};
use crate::last_error::{hide_errors, own_calls};
use crate::plan_configurations::{PlanConfiguration, PlanConfigurations};
use crate::report::Shown;
use crate::shadow::elements::{Kind, Name, Raw, Type};
use crate::shadow::{self, UNSEEN};
use crate::written::WrittenRecords;

type Status = cudnnStatus_t;

/// The problems with cached plans in the log.
pub(super) static PROBLEMS: WrittenRecords = WrittenRecords::at_most(1000);

pub(super) static CONFIGURATIONS: PlanConfigurations<Result<Configuration, NotCached>> = PlanConfigurations::new();

/// Reads the engine configuration that the program has set in a plan.
///
/// # Safety
/// Both descriptors are live.
pub(super) unsafe fn configured(state: &State, plan: Raw, configuration: Raw) {
    CONFIGURATIONS.set(plan, || {
        // SAFETY: guaranteed by the caller.
        let configuration = unsafe { state.cudnn.descriptor(configuration) };
        let read = own_calls(&state.cudnn, || Configuration::read(&configuration));
        read.map_err(|_| NO_CONFIGURATION).transpose()
    });
}

pub(super) fn forget(plan: Raw) {
    let _former = CONFIGURATIONS.take(plan);
}

/// Implements `cudnnBackendFinalize`.
///
/// # Safety
/// The same requirements as for cuDNN's function.
pub(super) unsafe fn finalize(state: &State, descriptor: Raw) -> Status {
    let cudnn = &state.cudnn;
    let Some(next) = cudnn.cudnnBackendFinalize() else { return ABSENT };
    if state.host.missed_calls() > 0 {
        destroy_restored(state, descriptor);
    }
    if let Some(restored) = restored::find(descriptor) {
        // Let cuDNN return the status for finalizing a plan again.
        let descriptor = completed(cudnn, restored, descriptor);
        // SAFETY: guaranteed by the caller.
        return unsafe { next(descriptor) };
    }
    let start = Instant::now();
    let key = CONFIGURATIONS.take(descriptor).map(|configured| key(state, descriptor, configured));
    if let Some(Ok(key)) = &key
        && let Some(plan) = look_up(state, key)
    {
        restored::insert(descriptor, plan, key.handles.clone());
        shadow::finalized(descriptor);
        return Status::CUDNN_STATUS_SUCCESS;
    }
    let looked_up = start.elapsed();
    // SAFETY: guaranteed by the caller.
    let status = unsafe { next(descriptor) };
    let duration = start.elapsed().saturating_sub(looked_up);
    if status == Status::CUDNN_STATUS_SUCCESS {
        shadow::finalized(descriptor);
        match key {
            Some(Ok(key)) => cache_plan(state, key, descriptor, duration),
            Some(Err(reason)) => report_not_cached(state, &reason),
            None => {}
        }
    }
    status
}

const MISSED_CALLS: NotCached = Cow::Borrowed("a call bypassed this layer");
/// cuDNN may have read either value.
const CHANGED_VARIABLES: NotCached = Cow::Borrowed("environment variables have changed since cuDNN was loaded");
/// The variables may have had different values.
const LOADED_BEFORE: NotCached =
    Cow::Borrowed("libcudnn_graph was loaded before the layer was added, possibly with a different environment");
const NO_STORE: NotCached = Cow::Borrowed("the plan store or cuDNN's files cannot be used");
const OTHER_PLAN: NotCached = Cow::Borrowed("the plan's JSON describes a different graph, engine or device");

fn report_not_cached(state: &State, reason: &str) {
    state.host.info(&format!("plan not cached: {reason}"));
}

fn key(
    state: &State,
    descriptor: Raw,
    configured: PlanConfiguration<Result<Configuration, NotCached>>,
) -> Result<Key, NotCached> {
    if state.host.missed_calls() > 0 {
        return Err(MISSED_CALLS);
    }
    let variables = state.variables.as_ref().ok_or(LOADED_BEFORE)?;
    let ready = state.ready().ok_or(NO_STORE)?;
    let plan = shadow::content(descriptor).ok_or(UNSEEN)?;
    let configuration = configured.current(&plan).ok_or(UNSEEN)??;
    let key = own_calls(&state.cudnn, || Key::new(&state.cudnn, &ready.environment, &plan, &configuration));
    // Check this last, because calls that bypassed this layer may have changed the inputs of the key.
    if state.host.missed_calls() > 0 {
        return Err(MISSED_CALLS);
    }
    if variables.have_changed() {
        return Err(CHANGED_VARIABLES);
    }
    key
}

fn look_up(state: &State, key: &Key) -> Option<Raw> {
    let start = Instant::now();
    let entry = match state.ready()?.store.get(&key.bytes) {
        PlanLookup::Found(entry, _) => entry,
        PlanLookup::Missing => return None,
        PlanLookup::Unusable(problem) => {
            // Every lookup reports a truncated pack.
            if PROBLEMS.add(&problem).is_some() {
                state.host.warning(&problem);
            }
            return None;
        }
    };
    let workspace_size = entry.about.workspace_size;
    let json = PlanJson::parse(&entry.plan)
        .filter(|plan| plan.engine() == Some(key.engine))
        // The program's descriptors differ from the key if creating them bypassed this layer.
        .filter(|plan| plan.graph == key.graph)
        .and_then(|plan| plan.for_device(&key.device))
        .ok_or(Status::CUDNN_STATUS_INTERNAL_ERROR);
    let plan = json.and_then(|json| hide_errors(&state.cudnn, || restore(&state.cudnn, key, &json, workspace_size)));
    match plan {
        Ok(plan) => {
            let (restoring, building) = (Shown(start.elapsed()), Shown(entry.about.build_time));
            state.host.info(&format!("plan restored in {restoring} instead of {building}: {}", entry.about.label));
            Some(plan)
        }
        Err(status) => {
            state.host.warning(&format!("cuDNN cannot restore a cached plan ({status:?}): {}", entry.about.label));
            None
        }
    }
}

fn restore(cudnn: &Cudnn, key: &Key, json: &[u8], size: i64) -> Result<Raw, Status> {
    cudnn.new_descriptor(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, |plan| {
        plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, json)?;
        // cuDNN crashes if neither attribute is set.
        match key.target {
            DeviceSource::Handle(handle) => {
                plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle.address])?;
                plan.finalize()?;
            }
            DeviceSource::Described => cudnn.with_descriptor(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, |device| {
                device.set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, &key.device)?;
                device.finalize()?;
                let device = [device.raw()];
                plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &device)?;
                plan.finalize()
            })?,
        }
        if plan.workspace_size()? == size { Ok(()) } else { Err(UNCLEAR) }
    })
}

fn cache_plan(state: &State, key: Key, descriptor: Raw, build_time: Duration) {
    let cudnn = &state.cudnn;
    // SAFETY: the program has just finalized this descriptor in this thread.
    let built = unsafe { cudnn.descriptor(descriptor) };
    let read = own_calls(cudnn, || {
        let size = built.workspace_size()?;
        Ok::<_, Status>((size, built.text(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)?))
    });
    let Ok((workspace_size, plan)) = read else { return };
    let Some(json) = PlanJson::parse(&plan) else { return report_not_cached(state, &OTHER_PLAN) };
    if !json.has_code() {
        return state.host.info("plan needs no cache: its engine compiles no code");
    }
    if json.graph != key.graph || json.engine() != Some(key.engine) || !json.is_for(&key.device) {
        return report_not_cached(state, &OTHER_PLAN);
    }
    let about = PlanInfo {
        label: shadow::label(descriptor).as_deref().unwrap_or_default().to_owned(),
        device: device::name(&key.device),
        cudnn_version: state.host.cudnn_version(),
        build_time,
        workspace_size,
    };
    // Another thread may have changed a variable while cuDNN compiled the plan.
    if state.variables.as_ref().is_none_or(Variables::have_changed) {
        return report_not_cached(state, &CHANGED_VARIABLES);
    }
    let Some(ready) = state.ready() else { return };
    let entry = PlanEntry { key: key.bytes, plan, about };
    match ready.store.put(&entry) {
        Ok(()) => state.host.info(&format!("plan built in {} and cached: {}", Shown(build_time), entry.about.label)),
        Err(problem) => {
            let text = format!("plan not cached: {problem}");
            // Log the first problem as an error, which is printed to stderr without a log.
            static IS_REPORTED: AtomicBool = AtomicBool::new(false);
            if IS_REPORTED.swap(true, Ordering::Relaxed) { state.host.info(&text) } else { state.host.error(&text) }
        }
    }
}

/// Returns the descriptor that calls must use for the program's descriptor.
#[inline]
pub(super) fn plan_for(state: &State, descriptor: Raw) -> Raw {
    match restored::find(descriptor) {
        None => descriptor,
        Some(restored) if state.host.missed_calls() == 0 => restored.plan(),
        // After a missed call, this address may belong to a different descriptor.
        Some(restored) => {
            complete(&state.cudnn, restored, descriptor);
            descriptor
        }
    }
}

pub(super) fn destroy_restored(state: &State, descriptor: Raw) {
    if let Some(plan) = restored::remove(descriptor) {
        state.cudnn.destroy(plan);
    }
}

/// Finalizes and returns the program's own descriptor, or returns the restored plan if that fails.
pub(super) fn completed(cudnn: &Cudnn, restored: &Restored, descriptor: Raw) -> Raw {
    if complete(cudnn, restored, descriptor) { descriptor } else { restored.plan() }
}

/// Finalizes the program's own descriptor by compiling the plan, so that it can answer queries that the restored plan
/// cannot. Returns `false` if that fails or a required handle was destroyed. Also returns `false` if this thread is
/// already finalizing it and was called from the program's callback, or if the finalizing thread exists only in the
/// parent of this forked child.
pub(super) fn complete(cudnn: &Cudnn, restored: &Restored, descriptor: Raw) -> bool {
    /// The maximum time that a thread waits for another one.
    const LIMIT: Duration = Duration::from_secs(30);
    struct BuildGuard<'a>(&'a Restored, u64);
    impl Drop for BuildGuard<'_> {
        fn drop(&mut self) {
            self.0.built.store(self.1, Ordering::Release);
        }
    }
    let (start, this_thread) = (Instant::now(), thread_token());
    let is_in_this_process = |thread: u64| thread >> 32 == this_thread >> 32;
    loop {
        match restored.built.compare_exchange(built::NO, this_thread, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                let mut begun = BuildGuard(restored, built::NO);
                if !restored.has_its_handles() {
                    return false;
                }
                let finalize = cudnn.cudnnBackendFinalize();
                // SAFETY: the program is using this descriptor in the current call, so it is live.
                let status = hide_errors(cudnn, || finalize.map_or(ABSENT, |finalize| unsafe { finalize(descriptor) }));
                if status == Status::CUDNN_STATUS_SUCCESS {
                    begun.1 = built::DONE;
                }
                return status == Status::CUDNN_STATUS_SUCCESS;
            }
            Err(built::DONE) => return true,
            Err(thread) if thread != this_thread && is_in_this_process(thread) && start.elapsed() < LIMIT => {
                let _guard = ThreadStateGuard::new();
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) => return false,
        }
    }
}
