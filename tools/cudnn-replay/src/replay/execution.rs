//! Executes plans on the GPU, and compares the outputs with the reference.

use std::collections::BTreeMap;
use std::ffi::c_void;

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::gpu::{Gpu, Memory as GpuMemory};
use cudnn_backend::handle::Handle;
use cudnn_backend::plan::Plan;
use cudnn_backend::{Failure, first_reason};
use cudnn_capture_file::{Graph, Value, status_name};
use cudnn_loader::{Error, check, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};
use sha2::{Digest, Sha256};

use super::memory::{Memory, PATTERN, Place, RED_ZONE};
use super::planning::Step;
use super::request::{DataSet, PlanReport, Request, Run};
use super::tensor::{Array, Tensor};
use super::{accuracy, data, element, reference};

/// The number of executions to measure the time.
const TIMED_RUNS: u32 = 20;

/// Executes the plans of a graph.
pub(super) struct Executor<'a> {
    gpu: &'a Gpu,
    handle: &'a Handle,
    request: &'a Request,
    prepared: Vec<Prepared>,
    /// Why nothing can be executed.
    pub(super) refusal: Option<String>,
}

/// The values of a data set.
struct Prepared {
    data: DataSet,
    memory: Memory,
    /// The uids of the tensors that the graph writes.
    written: Vec<i64>,
    expected: Result<BTreeMap<i64, Array>, String>,
}

impl<'a> Executor<'a> {
    pub(super) fn new(gpu: &'a Gpu, handle: &'a Handle, request: &'a Request) -> Self {
        Executor { gpu, handle, request, prepared: Vec::new(), refusal: None }
    }

    /// Executes a plan with each data set.
    pub(super) fn execute(&mut self, plan: &Plan, report: &mut PlanReport, step: &mut Step<'_>) {
        if self.refusal.is_some() {
            return;
        }
        if self.prepared.is_empty() {
            step("computed the references");
            let request = self.request;
            // References take seconds, and data sets are independent.
            let prepared: Result<Vec<Prepared>, String> = std::thread::scope(|scope| {
                let start = |data: &DataSet| {
                    scope.spawn({
                        let data = *data;
                        move || Prepared::new(request, data)
                    })
                };
                let threads: Vec<_> = request.data.iter().map(start).collect();
                let stopped = |_| Err("the reference cannot be computed".to_owned());
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(stopped)).collect()
            });
            match prepared {
                Ok(prepared) => self.prepared = prepared,
                Err(reason) => {
                    self.refusal = Some(reason);
                    return;
                }
            }
        }
        for prepared in &self.prepared {
            step(&format!("executed engine {}", report.engine.index));
            let mut run = Run {
                data: prepared.data,
                status: "SUCCESS".to_owned(),
                reason: None,
                error: None,
                no_reference: prepared.expected.as_ref().err().cloned(),
                bits: String::new(),
                is_repeatable: true,
                damage: Vec::new(),
            };
            if let Err(failure) = self.run(plan, prepared, &mut run) {
                (run.status, run.reason) = match failure.downcast_ref::<Error>() {
                    Some(error) => (status_name(error.status), Some(first_reason(&error.text).to_owned())),
                    None => ("EXECUTION_FAILED".to_owned(), Some(failure.to_string())),
                };
            }
            let is_fine = run.status == "SUCCESS";
            report.runs.push(run);
            if !is_fine {
                // An error of the device is permanent.
                return;
            }
        }
        if let Some(prepared) = self.prepared.first().filter(|_| self.request.time) {
            step(&format!("measured engine {}", report.engine.index));
            report.time_ms = self.time(plan, prepared).ok();
        }
    }

    fn run(&self, plan: &Plan, prepared: &Prepared, run: &mut Run) -> Result<(), Failure> {
        for repetition in 0..self.request.repeat.max(1) {
            let launch = Launch::new(self.gpu, &prepared.memory, plan)?;
            launch.execute(self.handle, plan)?;
            self.gpu.synchronize()?;
            let after = launch.read(self.gpu)?;
            let bits = prepared.digest(&after);
            if repetition > 0 {
                run.is_repeatable &= run.bits == bits;
                continue;
            }
            run.bits = bits;
            run.error = prepared.error(&after);
            run.damage = after.iter().enumerate().filter_map(|(at, bytes)| prepared.memory.damage(at, bytes)).collect();
            let workspace = self.gpu.download(&launch.workspace)?;
            let (start, end) = (RED_ZONE, RED_ZONE + plan.workspace_size);
            let outside =
                workspace.iter().enumerate().filter(|(at, byte)| !(start..end).contains(at) && **byte != PATTERN);
            if let Some((at, _)) = outside.min_by_key(|(at, _)| *at) {
                run.damage
                    .push(format!("the byte at offset {} of the workspace was changed", at as i64 - start as i64));
            }
        }
        Ok(())
    }

    fn time(&self, plan: &Plan, prepared: &Prepared) -> Result<f64, Failure> {
        let launch = Launch::new(self.gpu, &prepared.memory, plan)?;
        self.gpu.time(TIMED_RUNS, || Ok(launch.execute(self.handle, plan)?))
    }
}

/// Memory on the device, and a variant pack that refers to it.
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
            device.push(if buffer.is_host { None } else { Some(gpu.upload(&buffer.bytes)?) });
            // Host memory is aligned to 8 bytes.
            let words = if buffer.is_host { buffer.bytes.as_slice() } else { &[] };
            host.push(
                words
                    .chunks(8)
                    .map(|chunk| {
                        let mut word = [PATTERN; 8];
                        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                        u64::from_ne_bytes(word)
                    })
                    .collect::<Vec<_>>(),
            );
        }
        let workspace = gpu.upload(&vec![PATTERN; plan.workspace_size + 2 * RED_ZONE])?;
        let pointer = |place: &Place| {
            let on_device = device.get(place.buffer).and_then(Option::as_ref).map(GpuMemory::address);
            let on_host = || host.get(place.buffer).map(|words: &Vec<u64>| words.as_ptr().cast::<c_void>());
            on_device.or_else(on_host).map(|start| start.wrapping_byte_add(place.offset))
        };
        let pointers: Vec<*const c_void> = memory.places.iter().filter_map(pointer).collect();
        let uids: Vec<i64> = memory.places.iter().map(|place| place.tensor.uid).collect();
        let pack = Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &uids)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &pointers)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[workspace.address().wrapping_byte_add(RED_ZONE)])?
            .finalize()?;
        Ok(Launch { device, host, workspace, pack })
    }

    fn execute(&self, handle: &Handle, plan: &Plan) -> Result<(), Error> {
        // SAFETY: plan and pack are finalized, and their memory lives until the work on the default stream is done.
        unsafe { check!(cudnn_loader::cudnnBackendExecute(handle.raw(), plan.descriptor.raw(), self.pack.raw())) }
    }

    /// Returns the bytes of all buffers after the execution.
    fn read(&self, gpu: &Gpu) -> Result<Vec<Vec<u8>>, Failure> {
        let buffers = self.device.iter().zip(&self.host).map(|(device, host)| match device {
            Some(memory) => Ok(gpu.download(memory)?),
            None => Ok(host.iter().flat_map(|word| word.to_ne_bytes()).collect()),
        });
        buffers.collect()
    }
}

impl Prepared {
    fn new(request: &Request, data: DataSet) -> Result<Self, String> {
        let graph = &request.graph;
        let mut tensors = BTreeMap::new();
        for node in graph.tensors() {
            let tensor = Tensor::new(node)?;
            if !tensor.is_virtual {
                tensors.insert(tensor.uid, tensor);
            }
        }
        let is_readable = tensors.values().all(|tensor| tensor.is_plain && element::is_readable(tensor.ty));
        let mut memory = Memory::new(tensors.into_values().collect(), request.execution.as_ref())?;
        let is_known = reference::is_known(graph);
        let written: Vec<i64> = uids(graph, Graph::outputs);
        let read: Vec<i64> = uids(graph, Graph::inputs);
        let id = graph.id();
        for place in memory.places.clone() {
            let Tensor { uid, ty, is_by_value, .. } = place.tensor;
            let is_written = written.contains(&uid);
            let seed = data::seed(&id, uid);
            if let Some(bytes) = captured(request, uid).filter(|_| is_by_value) {
                memory.write(&place, &bytes);
            } else if is_by_value {
                memory.fill(&place, |_| if element::is_integer(ty) { 1.0 } else { 0.125 });
            } else if element::is_integer(ty) && !(is_known && is_readable) {
                // Lengths, offsets or page numbers, which must be valid.
                memory.fill(&place, |_| 0.0);
            } else if !is_written || read.contains(&uid) || accumulates(graph) {
                memory.fill(&place, |index| data::value(data, seed, index));
            }
            if is_written || !is_known {
                memory.allow_writes(&place);
            }
        }
        let given = |place: &Place| {
            let bytes = memory.buffers.get(place.buffer)?.bytes.get(place.offset..)?;
            Some((place.tensor.uid, place.tensor.read(bytes)))
        };
        let expected = if is_readable {
            reference::compute(graph, memory.places.iter().filter_map(given).collect())
        } else {
            Err("a tensor has a special layout".to_owned())
        };
        Ok(Prepared { data, memory, written, expected })
    }

    /// Returns the places of the outputs with their bytes after the execution.
    fn outputs<'a>(&'a self, after: &'a [Vec<u8>]) -> impl Iterator<Item = (&'a Place, &'a [u8])> {
        let places = self.memory.places.iter().filter(|place| self.written.contains(&place.tensor.uid));
        places.filter_map(|place| {
            let range = place.offset..place.offset + place.tensor.span();
            Some((place, after.get(place.buffer)?.get(range)?))
        })
    }

    fn digest(&self, after: &[Vec<u8>]) -> String {
        let mut digest = Sha256::new();
        for (_, bytes) in self.outputs(after) {
            digest.update(bytes);
        }
        digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn error(&self, after: &[Vec<u8>]) -> Option<f64> {
        let expected = self.expected.as_ref().ok()?;
        let errors = self.outputs(after).filter_map(|(place, bytes)| {
            Some(accuracy::error(place.tensor.ty, &place.tensor.read(bytes), expected.get(&place.tensor.uid)?))
        });
        errors.reduce(f64::max)
    }
}

fn uids(graph: &Graph, of: fn(&Graph, &cudnn_capture_file::Node) -> Vec<i64>) -> Vec<i64> {
    graph.operations().into_iter().flat_map(|operation| of(graph, operation)).collect()
}

/// Returns whether an operation adds to its output.
fn accumulates(graph: &Graph) -> bool {
    let names = [
        Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
        Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
        Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
    ];
    let is_set =
        |value: Option<&Value>| matches!(value, Some(Value::Floats(beta)) if beta.iter().any(|beta| *beta != 0.0));
    graph.operations().iter().any(|operation| names.iter().any(|name| is_set(operation.value(*name))))
}

/// Returns the captured bytes of a tensor in host memory.
fn captured(request: &Request, uid: i64) -> Option<Vec<u8>> {
    request.execution.as_ref()?.tensors.iter().find(|tensor| tensor.uid == uid)?.value_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MATMUL: &str = r#"[
        {"kind":"TENSOR","TENSOR_UNIQUE_ID:3":1,"TENSOR_DATA_TYPE:1":2,"TENSOR_DIMENSIONS:3":[1,3,5],"TENSOR_STRIDES:3":[24,8,1]},
        {"kind":"TENSOR","TENSOR_UNIQUE_ID:3":2,"TENSOR_DATA_TYPE:1":9,"TENSOR_DIMENSIONS:3":[1,5,2],"TENSOR_STRIDES:3":[10,1,5]},
        {"kind":"TENSOR","TENSOR_UNIQUE_ID:3":3,"TENSOR_DATA_TYPE:1":2,"TENSOR_DIMENSIONS:3":[1,3,2],"TENSOR_STRIDES:3":[12,4,1]},
        {"kind":"MATMUL"},
        {"kind":"OPERATION_MATMUL","OPERATION_MATMUL_ADESC:15":0,"OPERATION_MATMUL_BDESC:15":1,"OPERATION_MATMUL_CDESC:15":2},
        {"kind":"OPERATIONGRAPH","OPERATIONGRAPH_OPS:15":4}]"#;

    fn request() -> Request {
        Request {
            graph: serde_json::from_str(MATMUL).unwrap(),
            device: None,
            engines: super::super::Engines::First,
            execution: None,
            data: Vec::new(),
            repeat: 1,
            time: false,
        }
    }

    #[test]
    fn only_a_correct_and_complete_output_has_a_small_error() {
        for data in [DataSet::Integers, DataSet::Normal, DataSet::Adversarial] {
            let prepared = Prepared::new(&request(), data).unwrap();
            let untouched: Vec<Vec<u8>> = prepared.memory.buffers.iter().map(|buffer| buffer.bytes.clone()).collect();
            assert_eq!(prepared.error(&untouched), Some(f64::MAX));
            // Writes what a correct engine would write.
            let expected = prepared.expected.as_ref().unwrap()[&3].clone();
            let place = prepared.memory.places.iter().find(|place| place.tensor.uid == 3).unwrap().clone();
            let mut computed = prepared.memory.clone();
            computed.fill(&place, |index| expected.get(index as usize));
            let mut after: Vec<Vec<u8>> = computed.buffers.into_iter().map(|buffer| buffer.bytes).collect();
            let error = prepared.error(&after).unwrap();
            assert!(if data == DataSet::Integers { error == 0.0 } else { error <= 0.5 }, "{data:?}: {error}");
            assert!((0..after.len()).all(|at| prepared.memory.damage(at, &after[at]).is_none()));
            let bits = prepared.digest(&after);
            after[place.buffer][place.offset + 1] ^= 0x40;
            assert!(prepared.error(&after) > Some(100.0) && prepared.digest(&after) != bits, "{data:?}");
        }
    }

    #[test]
    fn graphs_that_cannot_be_executed_are_refused() {
        for (from, to, reason) in [
            (r#""TENSOR_DATA_TYPE:1":9"#, r#""TENSOR_DATA_TYPE:1":16"#, "element type"),
            ("[1,3,5]", "[4294967296,3,4294967296]", "too large"),
            ("[24,8,1]", "[24,268435455,1]", "too large"),
        ] {
            let graph = serde_json::from_str(&MATMUL.replace(from, to)).unwrap();
            let refused = Prepared::new(&Request { graph, ..request() }, DataSet::Normal);
            assert!(refused.err().unwrap().contains(reason), "{to}");
        }
    }
}
