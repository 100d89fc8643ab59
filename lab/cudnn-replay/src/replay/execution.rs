//! Executes plans on the GPU.

use std::ffi::c_void;
use std::sync::Arc;

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::gpu::{Gpu, Memory as GpuMemory};
use cudnn_backend::handle::Handle;
use cudnn_backend::plan::Plan;
use cudnn_backend::{Failure, first_reason};
use cudnn_loader::{
    Error, check, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnStatus_t,
};
use cudnn_store::captures::Status;

use super::ahead::{PreparedAhead, at_once};
use super::memory::{Buffer, Memory, PATTERN, RED_ZONE, TensorPlace};
use super::planning::Step;
use super::prepared::Prepared;
use super::request::{DataSet, PlanReport, Request, Run};
use super::stopwatch::Stopwatch;
use super::threads::Threads;

pub(super) struct Executor<'a> {
    gpu: &'a Gpu,
    handle: &'a Handle,
    threads: &'a Threads,
    request: &'a Arc<Request>,
    ahead: Option<PreparedAhead>,
    /// The data sets in memory, and the requested ones.
    prepared: Vec<Prepared>,
    prepared_for: &'a [DataSet],
    /// Measures plans. Created by the first measurement.
    stopwatch: Option<Stopwatch>,
    /// The reason why no graph can be executed.
    pub(super) refusal: Option<String>,
    /// The skipped data sets and measurements, with the reasons.
    pub(super) problems: Vec<String>,
}

impl<'a> Executor<'a> {
    pub(super) fn new(
        gpu: &'a Gpu,
        handle: &'a Handle,
        threads: &'a Threads,
        request: &'a Arc<Request>,
        ahead: Option<PreparedAhead>,
    ) -> Self {
        Executor {
            gpu,
            handle,
            threads,
            request,
            ahead,
            prepared: Vec::new(),
            prepared_for: &[],
            stopwatch: None,
            refusal: None,
            problems: Vec::new(),
        }
    }

    pub(super) fn execute(&mut self, plan: &Plan, report: &mut PlanReport, step: &mut Step<'_>) {
        let request = self.request;
        for data in request.data.chunks(at_once(request)) {
            // Reuse the values for other plans if all data sets fit.
            if self.prepared_for != data {
                self.prepared.clear();
                step("computed the references");
                self.prepare(data);
            }
            if self.refusal.is_some() || !self.execute_prepared(plan, report, step) {
                return;
            }
            if request.time && report.time_ms.is_none() {
                self.measure(plan, report, step);
            }
        }
    }

    /// Returns whether all executions succeeded.
    fn execute_prepared(&self, plan: &Plan, report: &mut PlanReport, step: &mut Step<'_>) -> bool {
        for prepared in &self.prepared {
            step(&format!("executed engine {}", report.engine.index));
            let mut run =
                Run { no_reference: prepared.expected.as_ref().err().cloned(), ..Run::success(prepared.data) };
            if let Err(failure) = self.run(plan, prepared, &mut run) {
                (run.status, run.reason) = match failure.downcast_ref::<Error>() {
                    Some(error) => (error.status.into(), Some(first_reason(&error.text).to_owned())),
                    None => (cudnnStatus_t::CUDNN_STATUS_EXECUTION_FAILED.into(), Some(failure.to_string())),
                };
            }
            let is_fine = run.status == Status::SUCCESS;
            report.runs.push(run);
            if !is_fine {
                // Errors of the device are permanent.
                return false;
            }
        }
        true
    }

    /// Measures the time of a plan with the first prepared data set.
    fn measure(&mut self, plan: &Plan, report: &mut PlanReport, step: &mut Step<'_>) {
        let index = report.engine.index;
        step(&format!("measured engine {index}"));
        match self.median_ms(plan) {
            Ok(time) => report.time_ms = time,
            Err(failure) => {
                let problem = format!("the time of engine {index} is not measured: {failure}");
                // Other data sets may have the same problem.
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
            }
        }
    }

    fn prepare(&mut self, data: &'a [DataSet]) {
        self.prepared_for = data;
        let mut problems = Vec::new();
        let ahead = self.ahead.take().unwrap_or_else(|| PreparedAhead::start(self.threads, self.request, data, None));
        for (data, prepared) in ahead.finish() {
            match prepared {
                Ok(prepared) => self.prepared.push(prepared),
                Err(reason) if data == DataSet::Captured => {
                    problems.push(format!("the captured values are skipped: {reason}"));
                }
                Err(reason) => self.refusal = Some(reason),
            }
        }
        // Other plans may need the same values again.
        problems.retain(|problem| !self.problems.contains(problem));
        self.problems.extend(problems);
    }

    fn run(&self, plan: &Plan, prepared: &Prepared, run: &mut Run) -> Result<(), Failure> {
        let launch = self.launch(plan, prepared)?;
        let after = launch.read(self.gpu, |_| true)?;
        run.damage = workspace_damage(self.gpu, &launch.workspace, plan.workspace_size)?;
        drop(launch);
        let repeated = self.repeat(plan, prepared, &after);
        run.is_repeatable = *repeated.as_ref().unwrap_or(&true);
        self.threads.now.install(|| prepared.compare(&after, run));
        repeated.map(drop)
    }

    /// Executes a plan repeatedly. Returns whether the outputs are always the same.
    fn repeat(&self, plan: &Plan, prepared: &Prepared, after: &[Vec<u8>]) -> Result<bool, Failure> {
        let mut is_repeatable = true;
        for _ in 1..self.request.repeat {
            let again = self.launch(plan, prepared)?.read(self.gpu, |buffer| prepared.writes(buffer))?;
            is_repeatable &= prepared.has_equal_outputs(after, &again);
        }
        Ok(is_repeatable)
    }

    fn launch(&self, plan: &Plan, prepared: &Prepared) -> Result<Launch, Failure> {
        let launch = Launch::new(self.gpu, &prepared.memory, plan)?;
        execute(self.handle, plan, &launch.pack)?;
        self.gpu.synchronize()?;
        Ok(launch)
    }

    fn median_ms(&mut self, plan: &Plan) -> Result<Option<f64>, Failure> {
        let Some(prepared) = self.prepared.first() else { return Ok(None) };
        let launch = Launch::new(self.gpu, &prepared.memory, plan)?;
        let stopwatch = match &mut self.stopwatch {
            Some(stopwatch) => stopwatch,
            none => none.insert(Stopwatch::new(self.gpu)?),
        };
        let timing = stopwatch.timing(self.gpu, || Ok(execute(self.handle, plan, &launch.pack)?))?;
        Ok(timing.map(|timing| timing.median / 1e3))
    }
}

pub(super) fn variant_pack(
    memory: &Memory,
    device: &[Option<GpuMemory>],
    host: &[Vec<u64>],
    workspace: &GpuMemory,
) -> Result<Descriptor, Error> {
    let pointer = |place: &TensorPlace| {
        let on_device = device.get(place.buffer).and_then(Option::as_ref).map(GpuMemory::address);
        let on_host = || host.get(place.buffer).map(|words: &Vec<u64>| words.as_ptr().cast::<c_void>());
        on_device.or_else(on_host).map(|start| start.wrapping_byte_add(place.offset))
    };
    let pointers: Vec<*const c_void> = memory.places.iter().filter_map(pointer).collect();
    let uids: Vec<i64> = memory.places.iter().map(|place| place.tensor.uid).collect();
    Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &uids)?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &pointers)?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[workspace.address().wrapping_byte_add(RED_ZONE)])?
        .finalize()
}

/// Returns the bytes in host memory that is aligned to 8 bytes.
pub(super) fn aligned(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [PATTERN; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

pub(super) fn execute(handle: &Handle, plan: &Plan, pack: &Descriptor) -> Result<(), Error> {
    // SAFETY: plan and pack are finalized, and their memory lives until the work on the default stream is done.
    unsafe { check!(cudnn_loader::cudnnBackendExecute(handle.raw(), plan.descriptor.raw(), pack.raw())) }
}

/// Describes the first changed byte of each red zone around a workspace of this size.
pub(super) fn workspace_damage(gpu: &Gpu, workspace: &GpuMemory, size: usize) -> Result<Vec<String>, Failure> {
    let mut damage = Vec::new();
    for start in [0, RED_ZONE + size] {
        let zone = gpu.download_part(workspace, start..start + RED_ZONE)?;
        if let Some(at) = zone.iter().position(|byte| *byte != PATTERN) {
            let offset = (start + at) as i64 - RED_ZONE as i64;
            damage.push(format!("the byte at offset {offset} of the workspace was changed"));
        }
    }
    Ok(damage)
}

struct Launch {
    device: Vec<Option<GpuMemory>>,
    host: Vec<Vec<u64>>,
    workspace: GpuMemory,
    pack: Descriptor,
}

impl Launch {
    fn new(gpu: &Gpu, memory: &Memory, plan: &Plan) -> Result<Self, Failure> {
        let (mut device, mut host) = (Vec::new(), Vec::new());
        for buffer in &memory.buffers {
            device.push(match buffer {
                Buffer { is_host: true, .. } => None,
                Buffer { is_empty: true, bytes, .. } => Some(gpu.filled(PATTERN, bytes.len())?),
                Buffer { bytes, .. } => Some(gpu.upload(bytes)?),
            });
            host.push(if buffer.is_host { aligned(&buffer.bytes) } else { Vec::new() });
        }
        let workspace = gpu.filled(PATTERN, plan.workspace_size + 2 * RED_ZONE)?;
        let pack = variant_pack(memory, &device, &host, &workspace)?;
        Ok(Launch { device, host, workspace, pack })
    }

    /// Returns the bytes of the wanted buffers after the execution. Others are empty.
    fn read(&self, gpu: &Gpu, is_wanted: impl Fn(usize) -> bool) -> Result<Vec<Vec<u8>>, Failure> {
        let buffers = self.device.iter().zip(&self.host).enumerate().map(|(buffer, (device, host))| match device {
            _ if !is_wanted(buffer) => Ok(Vec::new()),
            Some(memory) => Ok(gpu.download(memory)?),
            None => Ok(host.iter().flat_map(|word| word.to_ne_bytes()).collect()),
        });
        buffers.collect()
    }
}
