//! Replays graphs one after the other with one device and one handle.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use cudnn_backend::device::{self, H200, Target};
use cudnn_backend::gpu::Gpu;
use cudnn_backend::handle::Handle;
use cudnn_loader::Error;
use cudnn_store::captures::Status;

use super::ahead::PreparedAhead;
use super::execution::Executor;
use super::planning::{self, Step};
use super::request::{ReplayReport, Request};
use super::status::ReportStatus;
use super::threads::{Threads, processors};
use crate::rebuild::is_graph;

/// The GPU, cuDNN's handle, which is dropped first, and threads, or the reason why graphs cannot be executed.
type Device = Result<Executing, String>;

struct Executing {
    handle: Result<Handle, Error>,
    gpu: Gpu,
    threads: Threads,
}

fn start() -> Device {
    let gpu = Gpu::first().map_err(|error| error.to_string())?;
    let threads = Threads::start().map_err(|error| format!("cannot start threads: {error}"))?;
    Ok(Executing { handle: Handle::new(), gpu, threads })
}

/// The graphs to replay in this process. Threads prepare the next ones while a graph is replayed.
#[derive(Default)]
pub struct Queue {
    /// Set by the first graph that is executed.
    device: Option<Device>,
    waiting: VecDeque<WaitingGraph>,
    /// The host memory for prepared graphs, in bytes.
    used: Arc<AtomicUsize>,
    is_damaged: bool,
}

struct WaitingGraph {
    request: Arc<Request>,
    ahead: Option<PreparedAhead>,
}

impl Queue {
    /// Appends a graph.
    pub fn push(&mut self, request: Request) {
        self.waiting.push_back(WaitingGraph { request: Arc::new(request), ahead: None });
    }

    /// Plans the first graph, and executes it if there is a GPU. Calls `step` before each step that may take long, with
    /// a description that follows "while it". Returns `None` if the queue is empty.
    pub fn replay_next(&mut self, step: &mut dyn FnMut(&str)) -> Option<ReplayReport> {
        if self.device.is_none() && !self.waiting.front()?.request.plan_only {
            step("started the driver");
            self.device = Some(start());
        }
        self.prepare_ahead();
        let WaitingGraph { request, ahead } = self.waiting.pop_front()?;
        // SAFETY: the call passes no pointers.
        let mut report = ReplayReport { cudnn: unsafe { cudnn_loader::cudnnGetVersion() }, ..ReplayReport::default() };
        let device = match self.device.as_ref().filter(|_| !request.plan_only) {
            Some(device) => device.as_ref().map_err(String::clone),
            None => Err("the device is only described".to_owned()),
        };
        match device {
            Ok(Executing { handle, gpu, threads }) => {
                report.device.clone_from(&gpu.name);
                match handle {
                    Ok(handle) => {
                        let mut executor = Executor::new(gpu, handle, threads, &request, ahead);
                        let execute =
                            &mut |plan: &_, planned: &mut _, step: &mut Step<'_>| executor.execute(plan, planned, step);
                        planning::plan(&request, Target::Handle(handle), &mut report, step, execute);
                        (report.not_executed, report.problems) = (executor.refusal, executor.problems);
                    }
                    Err(error) => report.fail(error, "cudnnCreate"),
                }
                let mut runs = report.plans.iter().flat_map(|plan| &plan.runs);
                let is_fine = runs.all(|run| run.status == Status::SUCCESS && run.damage.is_empty());
                // Errors such as an illegal address are permanent.
                self.is_damaged |= !is_fine || gpu.synchronize().is_err();
            }
            Err(reason) => plan_for_described(&request, reason, &mut report, step),
        }
        Some(report)
    }

    /// Returns whether this process can replay other graphs. A failed execution or damaged memory could affect them.
    pub fn is_intact(&self) -> bool {
        !self.is_damaged
    }

    fn prepare_ahead(&mut self) {
        let Some(Ok(Executing { handle: Ok(_), threads, .. })) = &self.device else { return };
        let count = self.waiting.front().map_or(0, |waiting| graphs_at_once(&waiting.request, processors()));
        for WaitingGraph { request, ahead } in self.waiting.iter_mut().take(count) {
            if ahead.is_none() && request.graph.root().is_some_and(is_graph) {
                *ahead = PreparedAhead::within_limit(threads, request, &self.used);
                // Later graphs also wait for the memory.
                if ahead.is_none() {
                    return;
                }
            }
        }
    }
}

/// Returns the number of graphs to prepare at once, including the current one. It is 1 for measurements, which threads
/// that work at the same time would affect.
fn graphs_at_once(request: &Request, processors: usize) -> usize {
    if request.time { 1 } else { (processors / request.data.len().max(1)).max(2) }
}

/// Plans the graph for the described device. `reason` says why it is not executed.
fn plan_for_described(request: &Request, reason: String, report: &mut ReplayReport, step: &mut Step<'_>) {
    let description = request.device.as_deref().map_or_else(|| H200.to_owned(), crate::device::completed);
    report.device = crate::device::name(&description).unwrap_or_else(|| crate::device::UNNAMED.to_owned());
    (report.not_executed, report.is_described) = (Some(reason), true);
    if let Err(refusal) = device::check_sizes(description.as_bytes()) {
        (report.status, report.reason) = (ReportStatus::Skipped, Some(refusal));
        return;
    }
    match device::from_json(&description) {
        Ok(device) => planning::plan(request, Target::Device(&device), report, step, &mut |_, _, _| {}),
        Err(error) => report.fail(&error, "the description of the device (cuDNN 9.8 or newer accepts one)"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::DataSet;
    use super::*;

    #[test]
    fn no_thread_works_while_a_time_is_measured() {
        let request = |time| Request {
            data: vec![DataSet::Integers, DataSet::Normal, DataSet::Adversarial],
            time,
            ..Request::new(serde_json::from_str(r#"[{"kind":"OPERATIONGRAPH"}]"#).unwrap())
        };
        assert_eq!([1, 6, 16, 100].map(|processors| graphs_at_once(&request(false), processors)), [2, 2, 5, 33]);
        assert_eq!([1, 16].map(|processors| graphs_at_once(&request(true), processors)), [1, 1]);
    }
}
