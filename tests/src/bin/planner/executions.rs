//! Executes plans of y = max(x, 0) in unusual ways, which only the stand-in accepts. It ignores the memory.
//!
//! | which | the program |
//! | --- | --- |
//! | `restored` | restores a plan from JSON that it has read, and executes it three times |
//! | `foreign` | restores a plan from JSON of an unknown plan |
//! | `unknown-engine` | creates an unknown engine |
//! | `early-configuration` | destroys the configuration before it finalizes the plan |
//! | `early-pack` | makes the variant pack before the plan, and executes it twice |
//! | `fork-early-pack` | executes a plan, and does the same as `early-pack` in a forked child |
//! | `changed-pack` | changes a variant pack after another plan was executed |
//! | `X,Y`... | fills x with X and y with Y, executes the plan, and unmaps the memory at once |
//! | `threads` | executes one plan in four threads |
//! | `failures` | fails to finalize 1,100 different tensors; a real cuDNN refuses them |

use std::ffi::c_void;
use std::ptr::null_mut;

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::Target;
use cudnn_backend::engine::{configuration, engine};
use cudnn_backend::graph::{graph, relu};
use cudnn_backend::handle::Handle;
use cudnn_backend::tensor::Tensor;
use cudnn_loader::{
    Error, check, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind,
    cudnnDataType_t as DataType, cudnnHandle_t,
};

const ELEMENTS: usize = 1024;

pub(crate) fn run(which: &[String]) {
    let is_failing = which.first().is_some_and(|which| which == "failures");
    match if is_failing { fail() } else { execute(which) } {
        Ok(()) => println!("done"),
        Err(error) => println!("failed: {error}"),
    }
}

fn fail() -> Result<(), Error> {
    for id in 0..1100_i64 {
        let tensor = new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[id])?;
        let _refused = tensor.finalize();
    }
    Ok(())
}

fn execute(which: &[String]) -> Result<(), Error> {
    let handle = Handle::new()?;
    let (plan_of, handle_name) = (|extent| plan(&handle, extent), Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
    let at = |addresses: [usize; 2]| addresses.map(std::ptr::without_provenance);
    let addresses = at([0x1000, 0x2000]);
    match which.first().map(String::as_str).unwrap_or_default() {
        which @ ("restored" | "foreign") => {
            let original = plan_of(ELEMENTS)?;
            let mut json = original.get(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 0_u8)?;
            if which == "foreign" {
                json.pop();
                json.extend([b' ', 0]);
            }
            drop(original);
            let restored = new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
                .set_handle(handle_name, &handle)?
                .set(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, &json)?
                .finalize()?;
            for _ in 0..3 {
                step(handle.raw(), &restored, addresses)?;
            }
        }
        "unknown-engine" => _ = configured(&handle, ELEMENTS, 99)?,
        "early-configuration" => {
            let configuration = configured(&handle, ELEMENTS, 1)?;
            let plan = new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
                .set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[&configuration])?
                .set_handle(handle_name, &handle)?;
            drop(configuration);
            plan.finalize()?;
        }
        "early-pack" => {
            let (pack, plan) = (filled(addresses)?.finalize()?, plan_of(ELEMENTS)?);
            for _ in 0..2 {
                run_plan(handle.raw(), &plan, &pack)?;
            }
        }
        "fork-early-pack" => {
            step(handle.raw(), &plan_of(ELEMENTS)?, addresses)?;
            // SAFETY: the process has one thread.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let (pack, plan) = (filled(addresses)?.finalize()?, plan_of(ELEMENTS)?);
                run_plan(handle.raw(), &plan, &pack)?;
                std::process::exit(0);
            }
            // SAFETY: a null pointer means that the status is not returned.
            unsafe { libc::waitpid(child, null_mut(), 0) };
        }
        "changed-pack" => {
            let pack = filled(addresses)?;
            step(handle.raw(), &plan_of(ELEMENTS)?, addresses)?;
            let pack = filled_with(pack, at([0x9000, 0x1_0000]))?.finalize()?;
            run_plan(handle.raw(), &plan_of(2 * ELEMENTS)?, &pack)?;
        }
        "threads" => {
            let plan = plan_of(ELEMENTS)?;
            let (plan, handle) = (plan.raw().addr(), handle.raw().addr());
            std::thread::scope(|scope| {
                let run = || {
                    for _ in 0..1000 {
                        let pack = filled(at([0x1000, 0x2000])).and_then(Descriptor::finalize);
                        let Ok(pack) = pack else { return };
                        // SAFETY: the stand-in only reads these descriptors.
                        let _ = unsafe {
                            let [handle, plan] = [handle, plan].map(std::ptr::with_exposed_provenance_mut::<c_void>);
                            cudnn_loader::cudnnBackendExecute(handle.cast(), plan, pack.raw())
                        };
                    }
                };
                (0..4).for_each(|_| _ = scope.spawn(run));
            });
        }
        _ => {
            let plan = plan_of(ELEMENTS)?;
            for step_values in which {
                let values = step_values.split(',').map(|value| value.parse().unwrap_or(0.0_f32));
                let memory: Vec<*mut c_void> = values.map(mapped).collect();
                let [x, y] = memory.as_slice() else { continue };
                step(handle.raw(), &plan, [x.cast_const(), y.cast_const()])?;
                for memory in memory {
                    // SAFETY: this is the last use of the memory.
                    unsafe { libc::munmap(memory, ELEMENTS * size_of::<f32>()) };
                }
            }
        }
    }
    Ok(())
}

fn new(kind: Kind) -> Result<Descriptor, Error> {
    Descriptor::new(kind)
}

fn configured(handle: &Handle, extent: usize, index: i64) -> Result<Descriptor, Error> {
    let [x, y] = [1, 2].map(|uid| Tensor::packed(uid, DataType::CUDNN_DATA_FLOAT, &[1, extent as i64, 1]));
    let graph = graph(Some(handle), &[&relu([&x, &y])?])?;
    configuration(&engine(&graph, index, Target::Handle(handle))?, &[])
}

fn plan(handle: &Handle, extent: usize) -> Result<Descriptor, Error> {
    new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[&configured(handle, extent, 1)?])?
        .set_handle(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle)?
        .finalize()
}

fn filled(addresses: [*const c_void; 2]) -> Result<Descriptor, Error> {
    filled_with(new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?, addresses)
}

fn filled_with(pack: Descriptor, addresses: [*const c_void; 2]) -> Result<Descriptor, Error> {
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &[1_i64, 2])?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &addresses)
}

fn step(handle: cudnnHandle_t, plan: &Descriptor, addresses: [*const c_void; 2]) -> Result<(), Error> {
    run_plan(handle, plan, &filled(addresses)?.finalize()?)
}

fn run_plan(handle: cudnnHandle_t, plan: &Descriptor, pack: &Descriptor) -> Result<(), Error> {
    // SAFETY: the descriptors are live, and the stand-in ignores the memory.
    unsafe { check!(cudnn_loader::cudnnBackendExecute(handle, plan.raw(), pack.raw())) }
}

/// Returns new memory for a tensor, filled with this value.
fn mapped(value: f32) -> *mut c_void {
    let bytes = ELEMENTS * size_of::<f32>();
    // SAFETY: the pages are new.
    unsafe {
        let (both, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(null_mut(), bytes, both, private, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        std::slice::from_raw_parts_mut(memory.cast::<f32>(), ELEMENTS).fill(value);
        memory
    }
}
