//! Tests the shadow without a GPU in a layer that follows a planning program. A process can load cuDNN only once, so
//! every release runs in a separate process.

use std::ffi::c_void;

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::{self, Target};
use cudnn_backend::engine::{
    ConfigurationInfo, can_load_cublas_lt, can_try_every_engine, configuration, proposals, supporting_engines,
};
use cudnn_backend::graph::{Convolution, add, graph, relu};
use cudnn_backend::plan::Plan;
use cudnn_backend::tensor::Tensor;
use cudnn_layer_api::wrappers::{Next, Replacement, replace};
use cudnn_layer_api::{Host, Layer, NextFunction};
use cudnn_loader::cudnnBackendHeurMode_t as Mode;
use cudnn_os::testing::end_of_readable_memory;
use cudnn_sys::types::{cudnnDataType_t as DataType, cudnnStatus_t as Status};

use super::*;

struct Follower;

static NEXT: Next = Next::new();

const REPLACEMENTS: &[Replacement] = &[
    Replacement::cudnnBackendCreateDescriptor(create),
    Replacement::cudnnBackendInitialize(initialize),
    Replacement::cudnnBackendSetAttribute(set),
    Replacement::cudnnBackendFinalize(finalize),
    Replacement::cudnnBackendDestroyDescriptor(destroy),
    Replacement::cudnnBackendGetAttribute(get),
];

unsafe extern "C-unwind" fn create(kind: Kind, descriptor: *mut Raw) -> Status {
    // SAFETY: guaranteed by the caller.
    let status = unsafe { NEXT.cudnnBackendCreateDescriptor().unwrap()(kind, descriptor) };
    if status.is_success() {
        // SAFETY: cuDNN has written the descriptor.
        created(kind, unsafe { *descriptor });
    }
    status
}

unsafe extern "C-unwind" fn initialize(descriptor: Raw) -> Status {
    // SAFETY: guaranteed by the caller.
    let status = unsafe { NEXT.cudnnBackendInitialize().unwrap()(descriptor) };
    if status.is_success() {
        initialized(descriptor);
    }
    status
}

unsafe extern "C-unwind" fn set(descriptor: Raw, name: Name, ty: Type, count: i64, elements: *const c_void) -> Status {
    // SAFETY: guaranteed by the caller.
    let status = unsafe { NEXT.cudnnBackendSetAttribute().unwrap()(descriptor, name, ty, count, elements) };
    if status.is_success() {
        // SAFETY: cuDNN has read the elements.
        unsafe { attribute_set(descriptor, name, ty, count, elements) };
    }
    status
}

unsafe extern "C-unwind" fn finalize(descriptor: Raw) -> Status {
    // SAFETY: guaranteed by the caller.
    let status = unsafe { NEXT.cudnnBackendFinalize().unwrap()(descriptor) };
    if status.is_success() {
        finalized(descriptor);
    }
    status
}

unsafe extern "C-unwind" fn destroy(descriptor: Raw) -> Status {
    let destruction = destroying(descriptor);
    // SAFETY: guaranteed by the caller.
    let status = unsafe { NEXT.cudnnBackendDestroyDescriptor().unwrap()(descriptor) };
    if status.is_success() {
        destruction.succeeded();
    }
    status
}

unsafe extern "C-unwind" fn get(
    descriptor: Raw,
    name: Name,
    ty: Type,
    requested: i64,
    count: *mut i64,
    elements: *mut c_void,
) -> Status {
    // SAFETY: guaranteed by the caller.
    let status = unsafe { NEXT.cudnnBackendGetAttribute().unwrap()(descriptor, name, ty, requested, count, elements) };
    if status.is_success() {
        // SAFETY: cuDNN has written the elements.
        unsafe { attribute_read(descriptor, name, ty, requested, count, elements) };
    }
    status
}

impl Layer for Follower {
    fn begin(_: Host) -> Result<Self, String> {
        Ok(Follower)
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        replace(&NEXT, REPLACEMENTS, next)
    }
}

const DIR: &str = "CUDNN_SHADOW_TEST_DIR";

/// Runs the program with a release and returns the output, or `None` if the release is not cached on this machine.
fn follow(id: &str) -> Option<String> {
    if !cudnn_os::IS_LINUX {
        return None;
    }
    let release = cudnn_fetch::release(id).unwrap();
    let Ok(dir) = cudnn_fetch::fetch(release, cudnn_fetch::Network::Forbidden) else {
        eprintln!("NOT RUN: {id} is not in the cache");
        return None;
    };
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "--ignored", "--nocapture", "shadow::tests::real::program"]);
    let output = child.env(DIR, release.lib_dir(&dir)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

const CONVOLUTION: &str = "conv_fwd x[32,64,56,56] w[64,64,3,3] half -> y[32,64,56,56] half / float, pad 1, nhwc";
const FUSION: &str = "conv_fwd + bias + relu x[32,64,56,56] w[64,64,3,3] b[1,64,1,1] half -> y[32,64,56,56] half / float, \
                      pad 1, nhwc";

#[test]
fn a_release_without_heuristics() {
    let Some(text) = follow("jit-cu12-9.19.0") else { return };
    for label in [CONVOLUTION, FUSION] {
        assert!(text.contains(&format!("graph: {label}\n")), "{text}");
        assert!(text.contains(&format!("engine: {label}; engine ")), "{text}");
    }
    check(&text);
}

#[test]
fn a_full_release() {
    let Some(text) = follow("cu12-9.10.2") else { return };
    check(&text);
}

fn check(text: &str) {
    for line in [
        "x: tensor 1 [32,64,56,56] half nhwc",
        "operation: bias x[32,64,56,56] float b[1,64,1,1] half -> y[32,64,56,56] float / float, nhwc",
        &format!("graph: {CONVOLUTION}"),
        &format!("graph: {FUSION}"),
        "cuDNN read no more than declared",
        "left: 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
#[ignore = "run by other tests in a child process"]
fn program() {
    let dir = std::env::var_os(DIR).unwrap();
    cudnn_loader::layers::add::<Follower>("follower").unwrap();
    cudnn_loader::Options::new().path(dir).load().unwrap();
    plan();
    cudnn_copies_a_descriptor_that_an_attribute_is_set_to();
    cudnn_reads_no_more_than_it_declares();
    println!("left: {}", TABLE.len());
}

/// Confirms that cuDNN copies a descriptor when an attribute is set to it. Otherwise, the operation could be finalized
/// in the first case, but not in the second.
fn cudnn_copies_a_descriptor_that_an_attribute_is_set_to() {
    let (half, set_x) = (DataType::CUDNN_DATA_HALF, Name::CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    let y = Tensor::packed(2, half, &[8, 16]).descriptor().unwrap();
    let reshape = || {
        let reshape = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR).unwrap();
        reshape.set_descriptors(Name::CUDNN_ATTR_OPERATION_RESHAPE_YDESC, &[&y]).unwrap()
    };
    let without_attributes = || Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR).unwrap();
    let fill = |x: Descriptor| {
        let x = x.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[1i64]).unwrap();
        let x = x.set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[half]).unwrap();
        let x = x.set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16i64]).unwrap();
        let x = x.set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &[4i64, 32]).unwrap();
        x.set(Name::CUDNN_ATTR_TENSOR_STRIDES, &[32i64, 1]).unwrap()
    };

    let x = without_attributes();
    if let Ok(early) = reshape().set_descriptors(set_x, &[&x]) {
        let _x = fill(x).finalize().unwrap();
        assert!(early.finalize().is_err());
    }

    let x = fill(without_attributes()).finalize().unwrap();
    let operation = reshape().set_descriptors(set_x, &[&x]).unwrap();
    // SAFETY: the descriptor is live.
    assert!(unsafe { cudnn_loader::cudnnBackendInitialize(x.raw()) }.is_success());
    assert_eq!(shown(&x), "tensor [] unknown type");
    drop(x);
    let operation = operation.finalize().unwrap();
    assert_eq!(shown(&operation), "reshape x[4,32] half -> y[8,16] half");
}

/// Confirms that cuDNN reads at most the declared elements, which end at the end of readable memory. Otherwise,
/// programs with equal declared elements could behave differently.
fn cudnn_reads_no_more_than_it_declares() {
    const PAGE: usize = 4096;
    let end = end_of_readable_memory(16 * PAGE).unwrap();
    let mut accepted = 0;
    for kind in 0..60 {
        let Ok(descriptor) = Descriptor::new(Kind(kind)) else { continue };
        for (name, ty, most) in declared::all() {
            let is_value = !matches!(
                ty,
                Type::CUDNN_TYPE_BACKEND_DESCRIPTOR | Type::CUDNN_TYPE_HANDLE | Type::CUDNN_TYPE_VOID_PTR
            );
            let size = element_size(ty).unwrap();
            for count in [1, most.min(8)].into_iter().filter(|_| is_value) {
                // SAFETY: there are at least `count` elements, and all of them are 0.
                let status = unsafe {
                    let elements = end.byte_sub(size * count as usize);
                    cudnn_loader::cudnnBackendSetAttribute(descriptor.raw(), name, ty, i64::from(count), elements)
                };
                accepted += u32::from(status.is_success());
            }
        }
    }
    assert!(accepted > 100, "{accepted}");
    println!("cuDNN read no more than declared");
}

fn shown(descriptor: &Descriptor) -> String {
    label(descriptor.raw()).as_deref().unwrap_or("none").to_owned()
}

fn plan() {
    let device = device::from_json(device::H200).unwrap();
    let target = Target::Device(&device);
    let half = DataType::CUDNN_DATA_HALF;
    let x = Tensor::channels_last(1, half, &[32, 64, 56, 56]);
    let w = Tensor::channels_last(2, half, &[64, 64, 3, 3]);
    let y = Tensor::channels_last(3, half, &[32, 64, 56, 56]);
    println!("x: {}", shown(&x.descriptor().unwrap()));
    let convolution = Convolution::padded(1, 2);
    let single = graph(None, &[&convolution.forward([&x, &w, &y], 1.0, 0.0).unwrap()]).unwrap();
    let b = Tensor::channels_last(4, half, &[1, 64, 1, 1]);
    let (sum, biased) = (y.to_virtual(5, DataType::CUDNN_DATA_FLOAT), y.to_virtual(6, DataType::CUDNN_DATA_FLOAT));
    let operations = [
        convolution.forward([&x, &w, &sum], 1.0, 0.0).unwrap(),
        add([&sum, &b, &biased]).unwrap(),
        relu([&biased, &y]).unwrap(),
    ];
    operations.iter().for_each(|operation| println!("operation: {}", shown(operation)));
    let fused = graph(None, &operations.each_ref()).unwrap();
    drop(operations);
    for graph in [&single, &fused] {
        println!("graph: {}", shown(graph));
        if can_try_every_engine() {
            for engine in supporting_engines(graph, target).unwrap().take(4) {
                println!("engine: {}", shown(&engine));
                show_plan(configuration(&engine, &[]), target);
            }
        }
        if can_load_cublas_lt() {
            for proposed in proposals(graph, Mode::CUDNN_HEUR_MODE_A, target).unwrap_or_default().into_iter().take(4) {
                show_plan(Ok(proposed), target);
            }
        }
    }
}

fn show_plan(configuration: Result<Descriptor, cudnn_loader::Error>, target: Target<'_>) {
    let Ok(configuration) = configuration else { return };
    println!("before: {}", shown(&configuration));
    let plan = Plan::new(&configuration, target);
    if let Ok(plan) = &plan {
        println!("plan before: {}", shown(&plan.descriptor));
    }
    let info = ConfigurationInfo::new(&configuration).unwrap();
    println!("configuration: {}", shown(&configuration));
    assert!(shown(&configuration).ends_with(&info.engine_text().replace(" {}", "")), "{}", info.engine_text());
    drop(configuration);
    match plan {
        Ok(plan) => println!("plan: {}", shown(&plan.descriptor)),
        Err(error) => println!("no plan: {error:?}"),
    }
}
