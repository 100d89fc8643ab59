//! Executes plans of a graph on the GPU, and compares their results there.

use std::sync::Arc;

use cudnn_backend::Failure;
use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::Target;
use cudnn_backend::gpu::{Comparer, Gpu, Interval, Memory as GpuMemory};
use cudnn_backend::handle::Handle;
use cudnn_backend::plan::Plan;
use cudnn_loader::Error;
use cudnn_store::captures::Status;

use super::super::execution::{aligned, execute, variant_pack, workspace_damage};
use super::super::memory::{PATTERN, RED_ZONE};
use super::super::planning::with_reason;
use super::super::prepared::Prepared;
use super::super::stopwatch::Stopwatch;

const MAX_RESULTS: usize = 6;
/// The sizes of buffers on the device are multiples of this number.
const BLOCK: usize = 16;

/// The buffers of the device. Host buffers are `None`.
type Buffers = Vec<Option<GpuMemory>>;

/// The GPU, cuDNN's handle, which is dropped first, and data for all graphs.
pub(super) struct Bench {
    pub(super) handle: Handle,
    comparer: Comparer,
    stopwatch: Stopwatch,
    pub(super) gpu: Gpu,
}

impl Bench {
    pub(super) fn new() -> Result<Self, String> {
        let gpu = Gpu::first().map_err(|error| format!("no GPU can be used: {error}"))?;
        let handle = Handle::new().map_err(|error| with_reason("cudnnCreate failed", &error.text))?;
        let with_memory = || -> Result<_, Failure> { Ok((Comparer::new(&gpu)?, Stopwatch::new(&gpu)?)) };
        let (comparer, stopwatch) = with_memory().map_err(|error| error.to_string())?;
        Ok(Bench { handle, comparer, stopwatch, gpu })
    }
}

pub(super) struct Trial<'a> {
    bench: &'a mut Bench,
    inputs: Arc<Prepared>,
    before: Buffers,
    buffers: Buffers,
    host: Vec<Vec<u64>>,
    results: Vec<(usize, Buffers)>,
    distinct: usize,
    workspace: Option<Workspace>,
}

/// The memory for the workspaces of all plans, and the variant pack with it.
struct Workspace {
    size: usize,
    memory: GpuMemory,
    pack: Descriptor,
}

/// The result of two executions of a plan.
pub(super) struct Execution {
    /// The number of the result. Plans with equal bytes have the same number.
    pub(super) result: usize,
    /// The bytes of the buffers that may or must not have changed, if the result is new. Other buffers are empty.
    pub(super) after: Option<Vec<Vec<u8>>>,
    pub(super) is_repeatable: bool,
    /// A description of the changed byte around the workspace.
    pub(super) workspace_damage: Option<String>,
    /// The time of the second execution in microseconds.
    pub(super) time: f64,
}

impl<'a> Trial<'a> {
    pub(super) fn new(bench: &'a mut Bench, inputs: Arc<Prepared>) -> Result<Self, Failure> {
        let (mut before, mut buffers, mut host) = (Vec::new(), Vec::new(), Vec::new());
        for buffer in &inputs.memory.buffers {
            if buffer.is_host {
                before.push(None);
                buffers.push(None);
                host.push(aligned(&buffer.bytes));
                continue;
            }
            let padded = buffer.bytes.len().next_multiple_of(BLOCK);
            before.push(Some(bench.gpu.upload_padded(&buffer.bytes, padded)?));
            buffers.push(Some(bench.gpu.zeroed(padded)?));
            host.push(Vec::new());
        }
        let (results, distinct, workspace) = (Vec::new(), 0, None);
        Ok(Trial { bench, inputs, before, buffers, host, results, distinct, workspace })
    }

    pub(super) fn target(&self) -> Target<'_> {
        Target::Handle(&self.bench.handle)
    }

    /// Returns the reason for a failure, or an error if the device is unusable, as after an illegal address.
    pub(super) fn survive(&self, failure: Failure) -> Result<String, String> {
        let reason = match failure.downcast_ref::<Error>() {
            Some(error) => with_reason(Status(error.status), &error.text),
            None => failure.to_string(),
        };
        if self.bench.gpu.synchronize().is_ok() { Ok(reason) } else { Err(reason) }
    }

    /// Executes a plan twice, and searches for an equal result.
    pub(super) fn execute(&mut self, plan: &Plan) -> Result<Execution, Failure> {
        self.reserve(plan.workspace_size)?;
        self.run(plan)?;
        let workspace = self.workspace.as_ref().ok_or("the workspace is missing")?;
        let damage = workspace_damage(&self.bench.gpu, &workspace.memory, plan.workspace_size)?;
        let known = self.known_result()?;
        let after = if known.is_none() { Some(self.download()?) } else { None };
        let result = match known {
            Some(result) => result,
            None => self.remember()?,
        };
        let time = self.run(plan)?.microseconds()?;
        let is_repeatable = self.known_result()? == Some(result);
        Ok(Execution { result, after, is_repeatable, workspace_damage: damage.into_iter().next(), time })
    }

    /// Queues a measured execution with an empty L2 cache.
    pub(super) fn measure(&mut self, plan: &Plan) -> Result<Interval, Failure> {
        let workspace = self.workspace.as_ref().filter(|workspace| workspace.size >= plan.workspace_size);
        let workspace = workspace.ok_or("the workspace is missing")?;
        let Bench { stopwatch, gpu, handle, .. } = &mut *self.bench;
        stopwatch.measure(gpu, || Ok(execute(handle, plan, &workspace.pack)?))
    }

    fn run(&mut self, plan: &Plan) -> Result<Interval, Failure> {
        let gpu = &self.bench.gpu;
        for (before, buffer) in self.before.iter().flatten().zip(self.buffers.iter_mut().flatten()) {
            gpu.copy(before, buffer)?;
        }
        let workspace = self.workspace.as_mut().ok_or("the workspace is missing")?;
        gpu.fill(&mut workspace.memory, PATTERN)?;
        let interval = gpu.between_events(|| Ok(execute(&self.bench.handle, plan, &workspace.pack)?))?;
        gpu.synchronize()?;
        Ok(interval)
    }

    /// Provides a workspace of at least this size. After a failure, the older one remains.
    fn reserve(&mut self, size: usize) -> Result<(), Failure> {
        let former = self.workspace.as_ref().map(|workspace| workspace.size);
        if former.is_some_and(|former| former >= size) {
            return Ok(());
        }
        // The device may have too little memory for both.
        self.workspace = None;
        match self.with_memory_of_results(|trial| trial.workspace(size)) {
            Ok(workspace) => self.workspace = Some(workspace),
            Err(failure) => {
                self.workspace = former.and_then(|former| self.workspace(former).ok());
                return Err(failure);
            }
        }
        Ok(())
    }

    fn workspace(&self, size: usize) -> Result<Workspace, Failure> {
        let memory = self.bench.gpu.filled(PATTERN, size + 2 * RED_ZONE)?;
        let pack = variant_pack(&self.inputs.memory, &self.buffers, &self.host, &memory)?;
        Ok(Workspace { size, memory, pack })
    }

    /// Returns the number of the result in the buffers.
    fn known_result(&mut self) -> Result<Option<usize>, Failure> {
        for (number, buffers) in &self.results {
            let pairs = self.buffers.iter().flatten().zip(buffers.iter().flatten());
            if self.bench.comparer.are_equal(&self.bench.gpu, pairs)? {
                return Ok(Some(*number));
            }
        }
        Ok(None)
    }

    fn remember(&mut self) -> Result<usize, Failure> {
        let number = self.distinct;
        self.distinct += 1;
        // The newest result is needed for the second execution.
        self.results.truncate(MAX_RESULTS - 1);
        let buffers = self.with_memory_of_results(Trial::copied)?;
        self.results.push((number, buffers));
        Ok(number)
    }

    fn copied(&self) -> Result<Buffers, Failure> {
        let copy = |buffer: &GpuMemory| Ok(self.bench.gpu.copied(buffer)?);
        self.buffers.iter().map(|buffer| buffer.as_ref().map(copy).transpose()).collect()
    }

    /// Allocates memory. After a failure, drops the results and tries again. Later equal results then count as new.
    fn with_memory_of_results<T>(&mut self, allocate: impl Fn(&Self) -> Result<T, Failure>) -> Result<T, Failure> {
        allocate(self).or_else(|failure| {
            if self.results.is_empty() {
                return Err(failure);
            }
            self.results.clear();
            allocate(self)
        })
    }

    /// Returns the bytes of output buffers and of other buffers that have changed.
    fn download(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        let prepared = Arc::clone(&self.inputs);
        let mut after = Vec::new();
        for (number, (before, buffer)) in self.before.iter().zip(&self.buffers).enumerate() {
            let (Some(before), Some(buffer)) = (before, buffer) else {
                after.push(Vec::new());
                continue;
            };
            let places = &prepared.memory.places;
            let is_written = |uid| prepared.written.contains(&uid);
            let has_outputs = places.iter().any(|place| place.buffer == number && is_written(place.tensor.uid));
            let is_needed = has_outputs || !self.bench.comparer.are_equal(&self.bench.gpu, [(before, buffer)])?;
            after.push(if is_needed { self.bench.gpu.download(buffer)? } else { Vec::new() });
        }
        Ok(after)
    }
}
