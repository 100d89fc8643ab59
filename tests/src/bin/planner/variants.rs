//! Runs a program and all variants that differ in one step: another value, type or number of elements, a step that is
//! omitted, repeated with another value, or followed by a failing step. All of them plan, and print their plans.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t as Raw,
    cudnnBackendDescriptorType_t as Kind,
};

/// A step of a program. Descriptors and handles are numbered in the order of creation.
#[derive(Clone)]
pub(crate) enum Step {
    Create(Kind),
    Set(usize, Name, Type, i64, Vec<u8>),
    /// The element count that the program passes, and the descriptors.
    SetDescriptors(usize, Name, i64, Vec<usize>),
    SetHandle(usize, Name, usize),
    Finalize(usize),
    /// Destroys a handle and creates one for a different device, possibly at the same address.
    ReplaceHandle(usize),
}

pub(crate) fn run() {
    let base = base();
    print("base", &base, false);
    for index in 0..base.len() {
        for (what, variant) in variants(&base, index) {
            print(&format!("{what} {index}"), &variant, false);
        }
        // Run the base program in between, to detect confusion with the most recent cache entry.
        print("base again", &base, false);
    }
}

pub(crate) fn base() -> Vec<Step> {
    let mut steps = Vec::new();
    let tensors: Vec<usize> = (1..6).map(|uid| tensor(&mut steps, uid)).collect();
    let mut operations = Vec::new();
    for [x, w, y] in [[0, 1, 2], [2, 3, 4]] {
        let operation = create(&mut steps, Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
        for (name, tensor) in [
            (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x),
            (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w),
            (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y),
        ] {
            steps.push(descriptors(operation, name, vec![tensors[tensor]]));
        }
        let alpha = Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA;
        steps.push(Step::Set(operation, alpha, Type::CUDNN_TYPE_FLOAT, 1, 1.0_f32.to_ne_bytes().into()));
        steps.push(Step::Finalize(operation));
        operations.push(operation);
    }
    let graph = create(&mut steps, Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    steps.push(descriptors(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, operations));
    steps.push(Step::SetHandle(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 0));
    steps.push(Step::Finalize(graph));
    let engine = create(&mut steps, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    steps.push(descriptors(engine, Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, vec![graph]));
    steps.push(ints(engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[2]));
    let target = 16_i32.to_ne_bytes().into();
    steps.push(Step::Set(engine, Name::CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, Type::CUDNN_TYPE_INT32, 1, target));
    steps.push(Step::Finalize(engine));
    let knob = create(&mut steps, Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    let number = 3_i32.to_ne_bytes().into();
    steps.push(Step::Set(knob, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE, 1, number));
    steps.push(ints(knob, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[2]));
    steps.push(Step::Finalize(knob));
    let configuration = create(&mut steps, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    steps.push(descriptors(configuration, Name::CUDNN_ATTR_ENGINECFG_ENGINE, vec![engine]));
    steps.push(descriptors(configuration, Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, vec![knob]));
    steps.push(Step::Finalize(configuration));
    let plan = create(&mut steps, Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    steps.push(Step::SetHandle(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 0));
    let name = Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;
    steps.push(descriptors(plan, name, vec![configuration]));
    steps.push(Step::Finalize(plan));
    steps
}

fn tensor(steps: &mut Vec<Step>, uid: i64) -> usize {
    let tensor = create(steps, Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    steps.push(ints(tensor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[uid]));
    steps.push(ints(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &[8, 64, 3]));
    steps.push(ints(tensor, Name::CUDNN_ATTR_TENSOR_STRIDES, &[192, 3, 1]));
    let data_type = 2_i32.to_ne_bytes().into();
    steps.push(Step::Set(tensor, Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, 1, data_type));
    steps.push(Step::Set(tensor, Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, Type::CUDNN_TYPE_BOOLEAN, 1, vec![0]));
    steps.push(Step::Finalize(tensor));
    tensor
}

pub(crate) fn create(steps: &mut Vec<Step>, kind: Kind) -> usize {
    let number = steps.iter().filter(|step| matches!(step, Step::Create(_))).count();
    steps.push(Step::Create(kind));
    number
}

pub(crate) fn ints(descriptor: usize, name: Name, values: &[i64]) -> Step {
    let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    Step::Set(descriptor, name, Type::CUDNN_TYPE_INT64, values.len() as i64, bytes)
}

pub(crate) fn descriptors(descriptor: usize, name: Name, children: Vec<usize>) -> Step {
    Step::SetDescriptors(descriptor, name, children.len() as i64, children)
}

fn variants(base: &[Step], index: usize) -> Vec<(&'static str, Vec<Step>)> {
    let with = |steps: Vec<Step>| {
        let mut variant = base.to_vec();
        variant.splice(index..=index, steps);
        variant
    };
    let step = base[index].clone();
    match step.clone() {
        Step::Create(_) => Vec::new(),
        Step::Set(descriptor, name, ty, count, bytes) => {
            let changed = |byte: usize| {
                let mut bytes = bytes.clone();
                bytes[byte] ^= 1;
                Step::Set(descriptor, name, ty, count, bytes)
            };
            let last = changed(bytes.len() - 1);
            let fails = Step::Set(descriptor, name, ty, 500_000, Vec::new());
            let more = Step::Set(descriptor, Name(name.0 + 50), ty, count, bytes.clone());
            let other_type = match ty {
                Type::CUDNN_TYPE_INT64 => Type::CUDNN_TYPE_DOUBLE,
                Type::CUDNN_TYPE_FLOAT => Type::CUDNN_TYPE_INT32,
                _ => Type::CUDNN_TYPE_CHAR,
            };
            let size = bytes.len() / usize::try_from(count).unwrap_or(1);
            vec![
                ("another value", with(vec![changed(0)])),
                ("another last byte", with(vec![last.clone()])),
                ("fewer elements", {
                    let bytes = bytes[..bytes.len() - size].to_vec();
                    with(vec![Step::Set(descriptor, name, ty, count - 1, bytes)])
                }),
                ("another type", with(vec![Step::Set(descriptor, name, other_type, 1, bytes.clone())])),
                ("not set", with(vec![])),
                ("set twice", with(vec![last, step.clone()])),
                ("set and then otherwise", with(vec![step.clone(), changed(0)])),
                ("set and then wrongly", with(vec![step.clone(), fails])),
                ("set with another", with(vec![step.clone(), more])),
                ("set before the one before", {
                    let mut variant = base.to_vec();
                    if matches!(&base[index - 1], Step::Set(other, ..) if *other == descriptor) {
                        variant.swap(index, index - 1);
                    }
                    variant
                }),
            ]
        }
        Step::SetDescriptors(descriptor, name, _, children) => {
            let reversed = descriptors(descriptor, name, children.iter().rev().copied().collect());
            let first = descriptors(descriptor, name, children[..1].to_vec());
            let neighbour = descriptors(descriptor, name, vec![children[0].saturating_sub(1)]);
            vec![
                ("reversed", with(vec![reversed])),
                ("the first alone", with(vec![first])),
                ("a neighbour", with(vec![neighbour])),
                ("not set", with(vec![])),
                ("set twice", with(vec![step.clone(), step])),
            ]
        }
        Step::SetHandle(descriptor, name, handle) => vec![
            ("another handle", with(vec![Step::SetHandle(descriptor, name, 1 - handle)])),
            ("no handle", with(vec![])),
            ("two handles", with(vec![step, Step::SetHandle(descriptor, name, 1 - handle)])),
        ],
        Step::Finalize(_) => vec![
            ("not finalized", with(vec![])),
            ("finalized twice", with(vec![step.clone(), step.clone()])),
            ("another handle instead", with(vec![step, Step::ReplaceHandle(0)])),
        ],
        Step::ReplaceHandle(_) => Vec::new(),
    }
}

/// Runs a program, optionally only until the first failing call, and prints the plan.
pub(crate) fn print(what: &str, steps: &[Step], stops: bool) {
    let mut handles = [null_mut(); 2];
    for handle in &mut handles {
        // SAFETY: cuDNN stores the handle here.
        let _ = unsafe { cudnn_loader::cudnnCreate(handle) };
    }
    let mut made: Vec<Raw> = Vec::new();
    let mut statuses = Vec::new();
    for step in steps {
        // SAFETY: the descriptors are live; the array holds the elements, or cuDNN refuses the call.
        let status = unsafe {
            match step {
                Step::Create(kind) => {
                    let mut raw = null_mut();
                    let status = cudnn_loader::cudnnBackendCreateDescriptor(*kind, &raw mut raw);
                    made.push(raw);
                    status
                }
                Step::Set(descriptor, name, ty, count, bytes) => {
                    set(made[*descriptor], *name, *ty, *count, bytes.as_ptr().cast())
                }
                Step::SetDescriptors(descriptor, name, count, children) => {
                    let children: Vec<Raw> = children.iter().map(|child| made[*child]).collect();
                    let ty = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
                    set(made[*descriptor], *name, ty, *count, children.as_ptr().cast())
                }
                Step::SetHandle(descriptor, name, handle) => {
                    let handle = &raw const handles[*handle];
                    set(made[*descriptor], *name, Type::CUDNN_TYPE_HANDLE, 1, handle.cast())
                }
                Step::Finalize(descriptor) => cudnn_loader::cudnnBackendFinalize(made[*descriptor]),
                Step::ReplaceHandle(handle) => {
                    let _ = cudnn_loader::cudnnDestroy(handles[*handle]);
                    cudnn_loader::cudnnCreate(&raw mut handles[*handle])
                }
            }
        };
        if status.0 != 0 {
            statuses.push(status.0);
            if stops {
                break;
            }
        }
    }
    let mut text = vec![0_u8; 1 << 20];
    let mut count = 0;
    if let Some(plan) = made.last().filter(|_| !stops || statuses.is_empty()) {
        let (name, ty) = (Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR);
        // SAFETY: the buffer has room for this many bytes.
        let status = unsafe {
            let to = text.as_mut_ptr().cast();
            cudnn_loader::cudnnBackendGetAttribute(*plan, name, ty, 1 << 20, &raw mut count, to)
        };
        statuses.push(status.0);
    }
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy();
    println!("{what}: {statuses:?} {}", without_code(&text));
    for descriptor in made.into_iter().rev() {
        // SAFETY: the descriptors are live and not used again.
        let _ = unsafe { cudnn_loader::cudnnBackendDestroyDescriptor(descriptor) };
    }
    for handle in handles {
        // SAFETY: as above.
        let _ = unsafe { cudnn_loader::cudnnDestroy(handle) };
    }
}

/// Returns a plan's text without the code, because cuDNN generates different code every time.
fn without_code(plan: &str) -> String {
    let Some((before, rest)) = plan.split_once(",\"payload\":") else { return plan.to_owned() };
    let mut code = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>();
    let _code = code.next();
    format!("{before}{}", rest.get(code.byte_offset()..).unwrap_or_default())
}

/// # Safety
/// The same as for cuDNN's function.
unsafe fn set(
    descriptor: Raw,
    name: Name,
    ty: Type,
    count: i64,
    elements: *const c_void,
) -> cudnn_loader::cudnnStatus_t {
    // SAFETY: the caller's obligation.
    unsafe { cudnn_loader::cudnnBackendSetAttribute(descriptor, name, ty, count, elements) }
}
