//! The finalization of a plan: the plan is restored if it was kept, and kept if cuDNN has to build it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::threads;
use cudnn_plan_store::{About, Entry, Lookup};
use cudnn_sys::types::cudnnStatus_t;

use super::configuration::Configuration;
use super::cudnn::{ABSENT, Cudnn, Descriptor, text};
use super::key::{Key, NotKept, Target};
use super::last_error::unnoticed;
use super::plan_json::PlanJson;
use super::restored::{self, Restored, built};
use super::state::State;
use super::variables::Variables;
use super::{device, stated_graph, statistics};
use crate::lock::Lock;
use crate::shadow;
use crate::shadow::canonical::Obstacle;
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name, Raw, Type};

type Status = cudnnStatus_t;

/// A plan that is not finalized yet, and whose engine compiles code.
pub(super) struct Configured {
    /// What the shadow had of the descriptor when it was set: tells whether another one was set since.
    content: Arc<Content>,
    configuration: Result<Configuration, NotKept>,
}

/// By the addresses of the program's descriptors.
pub(super) static CONFIGURATIONS: Lock<Option<HashMap<usize, Configured>>> = Lock::new(None);

/// The program has set the engine configuration of a plan. Its own descriptor may be destroyed before the plan is
/// finalized, so the configuration is read now.
///
/// # Safety
/// Both are descriptors that are alive.
pub(super) unsafe fn configured(state: &State, plan: Raw, configuration: Raw) {
    // SAFETY: the caller's obligation.
    let read = unnoticed(&state.cudnn, || unsafe { Configuration::read(&state.cudnn, configuration) });
    let configuration = match read {
        Ok(Some(configuration)) => Ok(configuration),
        Ok(None) => return forget(plan),
        Err(_) => Err(NotKept::Configuration),
    };
    let Some(content) = shadow::content(plan).and_then(|plan| plan.child(CONFIGURATION).cloned()) else {
        return forget(plan);
    };
    let configured = Configured { content, configuration };
    if let Some(mut all) = CONFIGURATIONS.lock() {
        all.get_or_insert_default().insert(plan.addr(), configured);
    }
}

const CONFIGURATION: Name = Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;

/// Forgets what is known about a plan that is not finalized.
pub(super) fn forget(plan: Raw) {
    let _former = take(plan);
}

fn take(plan: Raw) -> Option<Configured> {
    CONFIGURATIONS.lock()?.as_mut()?.remove(&plan.addr())
}

/// In place of `cudnnBackendFinalize`.
///
/// # Safety
/// As for cuDNN's function.
pub(super) unsafe fn finalize(state: &State, descriptor: Raw) -> Status {
    let cudnn = &state.cudnn;
    let Some(next) = cudnn.cudnnBackendFinalize else { return ABSENT };
    if state.host.missed_calls() > 0 {
        destroy_restored(state, descriptor);
    }
    if let Some(restored) = restored::find(descriptor) {
        // The second time. cuDNN knows what that is worth.
        let descriptor = completed(cudnn, restored, descriptor);
        // SAFETY: the caller's obligation.
        return unsafe { next(descriptor) };
    }
    let start = Instant::now();
    let key = take(descriptor).map(|configured| key(state, descriptor, configured));
    if let Some(Ok(key)) = &key
        && let Some(plan) = look_up(state, key)
    {
        restored::insert(descriptor, plan, key.handles.clone());
        shadow::finalized(descriptor);
        return Status::CUDNN_STATUS_SUCCESS;
    }
    let looked_up = start.elapsed();
    // SAFETY: the caller's obligation.
    let status = unsafe { next(descriptor) };
    let duration = start.elapsed().saturating_sub(looked_up);
    if status == Status::CUDNN_STATUS_SUCCESS {
        shadow::finalized(descriptor);
        match key {
            Some(Ok(key)) => {
                let start = Instant::now();
                keep(state, key, descriptor, duration);
                statistics::KEPT.add(looked_up + start.elapsed());
            }
            Some(Err(reason)) => report_not_kept(state, reason),
            None => {}
        }
    }
    status
}

fn report_not_kept(state: &State, reason: NotKept) {
    if statistics::not_kept(reason) {
        state.host.info(&format!("does not keep a plan: {reason}"));
    }
}

fn key(state: &State, descriptor: Raw, configured: Configured) -> Result<Key, NotKept> {
    if state.host.missed_calls() > 0 {
        return Err(NotKept::MissedCalls);
    }
    let variables = state.variables.as_ref().ok_or(NotKept::LoadedBefore)?;
    let ready = state.ready().ok_or(NotKept::NoStore)?;
    let configuration = configured.configuration?;
    let unseen = NotKept::Unclear(Obstacle::Unseen);
    let plan = shadow::content(descriptor).ok_or(unseen)?;
    if !plan.child(CONFIGURATION).is_some_and(|content| Arc::ptr_eq(content, &configured.content)) {
        return Err(unseen);
    }
    let key = unnoticed(&state.cudnn, || Key::new(&state.cudnn, &ready.environment, &plan, &configuration));
    // Last: a call that went past this layer before may have changed what the key is made of.
    if state.host.missed_calls() > 0 {
        return Err(NotKept::MissedCalls);
    }
    if variables.have_changed() {
        return Err(NotKept::Variables);
    }
    key
}

/// The kept plan for this key, restored.
fn look_up(state: &State, key: &Key) -> Option<Raw> {
    let start = Instant::now();
    let entry = match state.ready()?.store.get(&key.bytes) {
        Lookup::Found(entry, _) => entry,
        Lookup::Missing => return None,
        Lookup::Unusable(problem) => {
            // A pack that was cut is a problem of each plan that it does not have.
            if statistics::UNUSABLE.add(Duration::ZERO) == 0 {
                state.host.warning(&problem.to_string());
            }
            return None;
        }
    };
    let workspace_size = entry.about.workspace_size;
    let json = PlanJson::parse(&entry.plan)
        .filter(|plan| plan.engine() == Some(key.engine))
        .filter(|plan| stated_graph::compare(&key.graph, &plan.graph).is_ok())
        .and_then(|plan| plan.for_device(&key.device))
        .ok_or(Status::CUDNN_STATUS_INTERNAL_ERROR);
    let plan = json.and_then(|json| unnoticed(&state.cudnn, || restore(&state.cudnn, key, &json, workspace_size)));
    match plan {
        Ok(plan) => {
            statistics::RESTORED.add(start.elapsed());
            statistics::SAVED.add(entry.about.build_time);
            Some(plan)
        }
        Err(status) => {
            statistics::UNUSABLE.add(Duration::ZERO);
            state.host.warning(&format!("cuDNN does not restore a kept plan ({status:?}): {}", entry.about.label));
            None
        }
    }
}

fn restore(cudnn: &Cudnn, key: &Key, json: &[u8], size: i64) -> Result<Raw, Status> {
    cudnn.new_descriptor(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, |plan| {
        plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, json)?;
        // Without either of them cuDNN crashes.
        match key.target {
            Target::Handle(handle) => {
                plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle.address])?;
                plan.finalize()?;
            }
            Target::Described => cudnn.with_descriptor(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, |device| {
                device.set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, &key.device)?;
                device.finalize()?;
                let device = [device.raw()];
                plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &device)?;
                plan.finalize()
            })?,
        }
        if workspace_size(plan)? == size { Ok(()) } else { Err(Status::CUDNN_STATUS_INTERNAL_ERROR) }
    })
}

fn workspace_size(plan: &Descriptor<'_>) -> Result<i64, Status> {
    let mut size = [-1_i64];
    plan.read(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT64, &mut size)?;
    let [size] = size;
    Ok(size)
}

/// Keeps a plan that cuDNN has built.
fn keep(state: &State, key: Key, descriptor: Raw, build_time: Duration) {
    let cudnn = &state.cudnn;
    let mut size = [-1_i64];
    // SAFETY: a descriptor of the program that it has just finalized, in this thread.
    let read = unnoticed(cudnn, || unsafe {
        let (name, ty) = (Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT64);
        super::cudnn::read(cudnn, descriptor, name, ty, &mut size)
            .and_then(|_| text(cudnn, descriptor, Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION))
    });
    let [workspace_size] = size;
    let Ok(plan) = read else { return };
    let Some(json) = PlanJson::parse(&plan) else { return report_not_kept(state, NotKept::StatesOther) };
    if !json.has_code() {
        statistics::PRECOMPILED.add(build_time);
        return;
    }
    let graph = stated_graph::compare(&key.graph, &json.graph);
    if let Err(difference) = &graph {
        state.host.info(&format!("a plan is not for the graph that was seen: {difference}"));
    }
    if graph.is_err() || json.engine() != Some(key.engine) || !json.is_for(&key.device) {
        return report_not_kept(state, NotKept::StatesOther);
    }
    let about = About {
        label: shadow::label(descriptor).as_deref().unwrap_or_default().to_owned(),
        device: device::name(&key.device),
        cudnn_version: state.host.cudnn_version(),
        build_time,
        workspace_size,
    };
    // While cuDNN compiled it, another thread may have set one.
    if state.variables.as_ref().is_none_or(Variables::have_changed) {
        return report_not_kept(state, NotKept::Variables);
    }
    let Some(ready) = state.ready() else { return };
    match ready.store.put(&Entry { key: key.bytes, plan, about }) {
        Ok(()) => _ = statistics::BUILT.add(build_time),
        Err(problem) => {
            let text = format!("does not keep a plan: {problem}");
            // Once as an error, which goes to the standard error if there is no log.
            if statistics::NOT_WRITTEN.add(build_time) == 0 { state.host.error(&text) } else { state.host.info(&text) }
        }
    }
}

/// The descriptor to use in place of the program's.
#[inline]
pub(super) fn plan_for(state: &State, descriptor: Raw) -> Raw {
    match restored::find(descriptor) {
        None => descriptor,
        Some(restored) if state.host.missed_calls() == 0 => restored.plan(),
        // It may be another descriptor by now.
        Some(restored) => {
            complete(&state.cudnn, restored, descriptor);
            descriptor
        }
    }
}

/// Destroys what was restored for a descriptor that is no more.
pub(super) fn destroy_restored(state: &State, descriptor: Raw) {
    if let Some(plan) = restored::remove(descriptor) {
        state.cudnn.destroy(plan);
    }
}

/// The program's own descriptor, finalized, or the restored plan if that is not possible.
pub(super) fn completed(cudnn: &Cudnn, restored: &Restored, descriptor: Raw) -> Raw {
    if complete(cudnn, restored, descriptor) { descriptor } else { restored.plan() }
}

/// Finalizes the program's own descriptor of a restored plan, which then answers what the restored one does not. cuDNN
/// compiles the plan for it. `false` if that fails, if the program has destroyed a handle that cuDNN would use, or if
/// this thread is doing it: a callback of the program asks meanwhile.
pub(super) fn complete(cudnn: &Cudnn, restored: &Restored, descriptor: Raw) -> bool {
    /// How long a thread waits for another one.
    const LIMIT: Duration = Duration::from_secs(30);
    /// A callback of the program may unwind through cuDNN.
    struct Begun<'a>(&'a Restored, u8);
    impl Drop for Begun<'_> {
        fn drop(&mut self) {
            self.0.builder.store(0, Ordering::Relaxed);
            self.0.built.store(self.1, Ordering::Release);
        }
    }
    let start = Instant::now();
    loop {
        match restored.built.compare_exchange(built::NO, built::BEGUN, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                let mut begun = Begun(restored, built::NO);
                if !restored.has_its_handles() {
                    return false;
                }
                restored.builder.store(threads::id(), Ordering::Relaxed);
                // SAFETY: the program's descriptor, with which it makes the present call.
                let status = cudnn.cudnnBackendFinalize.map_or(ABSENT, |finalize| unsafe { finalize(descriptor) });
                if status == Status::CUDNN_STATUS_SUCCESS {
                    begun.1 = built::DONE;
                }
                return status == Status::CUDNN_STATUS_SUCCESS;
            }
            Err(built::DONE) => return true,
            Err(_) if restored.builder.load(Ordering::Relaxed) == threads::id() => return false,
            Err(_) if start.elapsed() < LIMIT => {
                // No cancellation of the thread may unwind from here.
                let _guard = ThreadStateGuard::new();
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) => return false,
        }
    }
}
