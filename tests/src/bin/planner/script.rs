//! Runs one random program. All calls go through one type, which records the results.

use std::ffi::{CStr, c_void};
use std::fmt::Write;
use std::ptr::null_mut;

use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t as Raw,
    cudnnBackendDescriptorType_t as Kind, cudnnHandle_t,
};

use crate::random::Random;

pub(crate) fn run(seed: u64) -> String {
    let mut script = Script {
        random: Random::new(seed),
        text: format!("seed {seed}\n"),
        handles: Vec::new(),
        buffer: vec![0; 1 << 20],
        is_wild: seed.is_multiple_of(4),
    };
    script.handle();
    for _ in 0..1 + script.random.below(4) {
        if script.random.once_in(3) {
            script.handle();
        }
        if script.random.once_in(4) && script.handles.len() > 1 {
            let index = script.random.below(script.handles.len() as u64) as usize;
            let handle = script.handles.remove(index);
            // SAFETY: the handle is live and not used again, because plans live only within a round.
            script.note("destroy handle", unsafe { cudnn_loader::cudnnDestroy(handle) }.0);
        }
        script.round();
    }
    while let Some(handle) = script.handles.pop() {
        // SAFETY: as above.
        script.note("destroy handle", unsafe { cudnn_loader::cudnnDestroy(handle) }.0);
    }
    script.text
}

struct Script {
    random: Random,
    text: String,
    handles: Vec<cudnnHandle_t>,
    /// Room for the longest result, cleared after each use.
    buffer: Vec<u8>,
    /// Whether to make calls that fail.
    is_wild: bool,
}

type Setting = (Name, Type, i64, Vec<u8>);

impl Script {
    fn note(&mut self, what: &str, status: u32) {
        let _ = write!(self.text, "{what} {status}");
        if status != 0 && !self.random.once_in(3) {
            let _ = write!(self.text, " {}", last_error());
        }
        self.text.push('\n');
    }

    fn handle(&mut self) {
        let mut handle = null_mut();
        // SAFETY: cuDNN stores the handle here.
        let status = unsafe { cudnn_loader::cudnnCreate(&raw mut handle) };
        self.note("create handle", status.0);
        self.handles.push(handle);
    }

    fn create(&mut self, kind: Kind) -> Raw {
        let mut raw = null_mut();
        // SAFETY: cuDNN stores the descriptor here.
        let status = unsafe { cudnn_loader::cudnnBackendCreateDescriptor(kind, &raw mut raw) };
        assert_eq!(status.0, 0);
        raw
    }

    fn destroy(&mut self, descriptor: Raw) {
        // SAFETY: the descriptor is live and not used again.
        let status = unsafe { cudnn_loader::cudnnBackendDestroyDescriptor(descriptor) };
        assert_eq!(status.0, 0);
    }

    fn set(&mut self, descriptor: Raw, (name, ty, count, bytes): &Setting) {
        // SAFETY: the array holds this many elements, or cuDNN refuses the count.
        let status = unsafe {
            cudnn_loader::cudnnBackendSetAttribute(descriptor, *name, *ty, *count, bytes.as_ptr().cast::<c_void>())
        };
        self.note(&format!("set {}", name.0), status.0);
    }

    fn set_descriptors(&mut self, descriptor: Raw, name: Name, elements: &[Raw]) {
        let bytes: Vec<u8> = elements.iter().flat_map(|element| element.addr().to_ne_bytes()).collect();
        self.set(descriptor, &(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, elements.len() as i64, bytes));
    }

    fn set_handle(&mut self, descriptor: Raw, name: Name, handle: cudnnHandle_t) {
        self.set(descriptor, &(name, Type::CUDNN_TYPE_HANDLE, 1, handle.addr().to_ne_bytes().to_vec()));
    }

    fn finalize(&mut self, descriptor: Raw) -> bool {
        // SAFETY: the descriptor is live.
        let status = unsafe { cudnn_loader::cudnnBackendFinalize(descriptor) };
        self.note("finalize", status.0);
        status.0 == 0
    }

    /// Sets all attributes in any order, some of them twice, and sometimes to a value that cuDNN refuses.
    fn set_all(&mut self, descriptor: Raw, mut settings: Vec<Setting>) {
        self.random.shuffle(&mut settings);
        for setting in &settings {
            if self.random.once_in(12) {
                let mut other = setting.clone();
                // Plans are not cached if an attribute of a descriptor was overwritten.
                if self.is_wild {
                    other.3.iter_mut().for_each(|byte| *byte ^= 1);
                }
                self.set(descriptor, &other);
            }
            self.set(descriptor, setting);
            match if self.is_wild { self.random.below(60) } else { 60 } {
                0 => self.set(descriptor, &(setting.0, setting.1, 500_000, Vec::new())),
                1 => self.set(descriptor, &(Name(5000), Type::CUDNN_TYPE_INT64, 1, vec![0; 8])),
                2 => self.set(descriptor, &(Name(2999), Type::CUDNN_TYPE_INT64, 1, vec![7; 8])),
                _ => {}
            }
        }
    }

    fn tensor(&mut self, uid: i64) -> Raw {
        let tensor = self.create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        let mut dims: Vec<i64> = (0..3).map(|_| self.random.pick(&[1, 2, 8, 64])).collect();
        if self.random.once_in(40) {
            dims[0] = 13;
        }
        let data_type = self.random.pick(&[0_i32, 2]);
        let mut settings = vec![
            ints(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[uid]),
            ints(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &dims),
            ints(Name::CUDNN_ATTR_TENSOR_STRIDES, &[64 * 64, self.random.pick(&[64, 1]), 1]),
            ints(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[self.random.pick(&[4, 16])]),
            (Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, 1, data_type.to_ne_bytes().to_vec()),
        ];
        if self.random.once_in(2) {
            let is_virtual = self.random.below(2) as u8;
            settings.push((Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, Type::CUDNN_TYPE_BOOLEAN, 1, vec![is_virtual]));
        }
        self.set_all(tensor, settings);
        self.finalize(tensor);
        tensor
    }

    fn graph(&mut self) -> (Raw, Vec<Raw>) {
        let mut made = Vec::new();
        let mut operations = Vec::new();
        let mut tensors: Vec<Raw> = (1..4).map(|uid| self.tensor(uid)).collect();
        for _ in 0..1 + self.random.below(2) {
            let operation = self.create(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
            for name in [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            ] {
                if self.random.once_in(5) {
                    let uid = tensors.len() as i64 + 1;
                    let tensor = self.tensor(uid);
                    tensors.push(tensor);
                }
                let tensor = self.random.pick(&tensors);
                self.set_descriptors(operation, name, &[tensor]);
            }
            let alpha = self.random.pick(&[1.0_f32, 0.5]);
            self.set_all(
                operation,
                vec![
                    (
                        Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                        Type::CUDNN_TYPE_FLOAT,
                        1,
                        alpha.to_ne_bytes().to_vec(),
                    ),
                    (
                        Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                        Type::CUDNN_TYPE_DOUBLE,
                        1,
                        0.0_f64.to_ne_bytes().to_vec(),
                    ),
                ],
            );
            self.finalize(operation);
            operations.push(operation);
        }
        made.extend(&tensors);
        made.extend(&operations);
        let graph = self.create(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        self.set_descriptors(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operations);
        if !self.random.once_in(8) {
            let handle = self.random.pick(&self.handles.clone());
            self.set_handle(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
        }
        if self.random.once_in(10) {
            let name = Name::CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED;
            let is = self.random.below(2) as u8;
            self.set(graph, &(name, Type::CUDNN_TYPE_BOOLEAN, 1, vec![is]));
        }
        self.finalize(graph);
        (graph, made)
    }

    /// Returns a configuration made from scratch, or a proposal of the heuristics.
    fn configuration(&mut self, graph: Raw, made: &mut Vec<Raw>) -> Raw {
        let configuration = self.create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        if self.random.once_in(2) {
            let heuristics = self.create(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
            self.set_descriptors(heuristics, Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph]);
            let mode = self.random.below(2) as i32;
            let mode = mode.to_ne_bytes().to_vec();
            self.set(heuristics, &(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, 1, mode));
            self.finalize(heuristics);
            let mut results: Vec<Raw> = (0..3).map(|_| self.create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)).collect();
            let (name, ty) = (Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
            let mut count = 0;
            let room = 1 + self.random.below(3) as i64;
            // SAFETY: the array has room for this many.
            let status = unsafe {
                let to = results.as_mut_ptr().cast();
                cudnn_loader::cudnnBackendGetAttribute(heuristics, name, ty, room, &raw mut count, to)
            };
            self.note(&format!("{count} results"), status.0);
            let chosen = results.remove(self.random.below(room as u64) as usize);
            made.extend(results);
            made.push(heuristics);
            self.destroy(configuration);
            return chosen;
        }
        let engine = self.create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        self.set_descriptors(engine, Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph]);
        let index = self.random.below(6) as i64;
        self.set(engine, &ints(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[index]));
        if self.random.once_in(4) {
            let target = self.random.pick(&[16_i32, 32]).to_ne_bytes().to_vec();
            self.set(engine, &(Name::CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, Type::CUDNN_TYPE_INT32, 1, target));
        }
        self.finalize(engine);
        self.set_descriptors(configuration, Name::CUDNN_ATTR_ENGINECFG_ENGINE, &[engine]);
        let knobs: Vec<Raw> = (0..self.random.below(3)).map(|number| self.knob(number as i32)).collect();
        if !knobs.is_empty() {
            self.set_descriptors(configuration, Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, &knobs);
        }
        self.finalize(configuration);
        made.extend(knobs);
        made.push(engine);
        configuration
    }

    fn knob(&mut self, number: i32) -> Raw {
        let knob = self.create(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        let value = self.random.below(3) as i64;
        self.set_all(
            knob,
            vec![
                (
                    Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                    Type::CUDNN_TYPE_KNOB_TYPE,
                    1,
                    (number + 3).to_ne_bytes().to_vec(),
                ),
                ints(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[value]),
            ],
        );
        self.finalize(knob);
        knob
    }

    /// Builds and plans a graph, and reads all attributes.
    fn round(&mut self) {
        if self.random.once_in(3) {
            let handle = self.random.pick(&self.handles.clone());
            let stream = std::ptr::without_provenance_mut(self.random.below(2) as usize * 16);
            // SAFETY: the handle is live, and the stand-in ignores the stream.
            self.note("set stream", unsafe { cudnn_loader::cudnnSetStream(handle, stream) }.0);
        }
        let (graph, mut made) = self.graph();
        for _ in 0..1 + self.random.below(3) {
            let configuration = self.configuration(graph, &mut made);
            let plan = self.create(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
            if self.random.once_in(8) {
                let other = self.configuration(graph, &mut made);
                self.set_descriptors(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[other]);
                made.push(other);
            }
            let handle = self.random.pick(&self.handles.clone());
            match self.random.below(8) {
                0..3 => self.set_handle(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle),
                3 => {
                    let device = self.device(handle);
                    self.set_descriptors(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, &[device]);
                    made.push(device);
                }
                _ => {}
            }
            self.set_descriptors(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration]);
            if self.random.once_in(2) {
                self.destroy(configuration);
            } else {
                made.push(configuration);
            }
            if self.random.once_in(6) {
                self.random.shuffle(&mut made);
                for _ in 0..made.len() / 2 {
                    if let Some(index) = made.iter().position(|descriptor| *descriptor != graph) {
                        let descriptor = made.remove(index);
                        self.destroy(descriptor);
                    }
                }
            }
            self.ask(plan, handle);
            if self.finalize(plan) {
                self.ask(plan, handle);
            }
            if self.random.once_in(6) {
                self.finalize(plan);
                self.set(plan, &ints(Name::CUDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS, &[1]));
                self.ask(plan, handle);
            }
            if self.random.once_in(6) {
                // SAFETY: the descriptor is live.
                let status = unsafe { cudnn_loader::cudnnBackendInitialize(plan) };
                self.note("initialize", status.0);
                self.ask(plan, handle);
                let other = self.configuration(graph, &mut made);
                self.set_descriptors(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[other]);
                made.push(other);
                if self.finalize(plan) {
                    self.ask(plan, handle);
                }
            }
            self.destroy(plan);
        }
        self.destroy(graph);
        self.random.shuffle(&mut made);
        for descriptor in made {
            self.destroy(descriptor);
        }
    }

    /// Returns a device description from JSON text or from a handle.
    fn device(&mut self, handle: cudnnHandle_t) -> Raw {
        let device = self.create(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        self.set_handle(device, Name::CUDNN_ATTR_DEVICEPROP_HANDLE, handle);
        self.finalize(device);
        if self.random.once_in(3) {
            return device;
        }
        let mut text = vec![0_u8; 1000];
        let mut count = 0;
        let (name, ty) = (Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR);
        // SAFETY: the buffer has room for this many bytes.
        let status = unsafe {
            let to = text.as_mut_ptr().cast();
            cudnn_loader::cudnnBackendGetAttribute(device, name, ty, 1000, &raw mut count, to)
        };
        self.note(&format!("device of {count}"), status.0);
        self.destroy(device);
        text.truncate(text.iter().position(|byte| *byte == 0).unwrap_or(0));
        let described = self.create(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        self.set(described, &(name, ty, text.len() as i64, text));
        self.finalize(described);
        described
    }

    fn ask(&mut self, plan: Raw, handle: cudnnHandle_t) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for (name, ty, room) in [
            (Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT64, 1),
            (Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT32, 1),
            (Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, 0),
            (Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, 1 << 20),
            (Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, 1),
            (Name::CUDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS, Type::CUDNN_TYPE_INT64, 4),
            // These attributes do not belong to plans.
            (Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT64, 4),
            (Name(3500), Type::CUDNN_TYPE_INT64, 4),
        ] {
            if self.random.once_in(3) {
                continue;
            }
            let mut count = -1;
            // SAFETY: the array has room for this many elements.
            let status = unsafe {
                let to = buffer.as_mut_ptr().cast();
                cudnn_loader::cudnnBackendGetAttribute(plan, name, ty, room, &raw mut count, to)
            };
            let is_text = ty == Type::CUDNN_TYPE_CHAR;
            let len = if is_text { buffer.iter().position(|byte| *byte == 0).unwrap_or(0) } else { 8 };
            let shown = String::from_utf8_lossy(&buffer[..len]).into_owned();
            buffer[..len.max(64)].fill(0);
            let shown = if is_text { shown } else { format!("{:?}", shown.as_bytes()) };
            self.note(&format!("get {} {count} {shown}", name.0), status.0);
        }
        self.buffer = buffer;
        let configuration = self.create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        if self.random.once_in(8) {
            let mut to = [configuration];
            let mut count = -1;
            let (name, ty) = (Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
            // SAFETY: the array has room for one element.
            let status = unsafe {
                let to = to.as_mut_ptr().cast();
                cudnn_loader::cudnnBackendGetAttribute(plan, name, ty, 1, &raw mut count, to)
            };
            self.note(&format!("get configuration {count}"), status.0);
        }
        self.destroy(configuration);
        let pack = self.create(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        self.set(pack, &ints(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &[1, 2]));
        self.finalize(pack);
        // SAFETY: the descriptors are live, and the stand-in does not compute.
        let status = unsafe { cudnn_loader::cudnnBackendExecute(handle, plan, pack) };
        self.note("execute", status.0);
        let mut size = 0;
        // SAFETY: the descriptors are live, and the size points to a local variable.
        let status = unsafe { cudnn_loader::cudnnGetExecutionPlanWorkspaceSize(handle, plan, pack, &raw mut size) };
        self.note(&format!("workspace for the pack {size}"), status.0);
        let mut result = [0_u8; 100];
        let mut count = 0;
        let (name, ty) = (Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR);
        if status.0 == 0 {
            // SAFETY: the buffer has room for this many bytes.
            let status = unsafe {
                let to = result.as_mut_ptr().cast();
                cudnn_loader::cudnnBackendGetAttribute(pack, name, ty, 100, &raw mut count, to)
            };
            assert_eq!(status.0, 0);
            let result = CStr::from_bytes_until_nul(&result).unwrap_or_default().to_string_lossy();
            let _ = writeln!(self.text, "computed {result}");
        }
        self.destroy(pack);
        if self.random.once_in(3) {
            let _ = writeln!(self.text, "last error {}", last_error());
        }
    }
}

fn ints(name: Name, values: &[i64]) -> Setting {
    let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    (name, Type::CUDNN_TYPE_INT64, values.len() as i64, bytes)
}

fn last_error() -> String {
    let mut text = [0_u8; 400];
    // SAFETY: the buffer has room for this many bytes.
    unsafe { cudnn_loader::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
    CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned()
}
