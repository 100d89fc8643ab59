//! Builds graphs with and without a supporting engine like a framework, which queries the heuristics in two modes,
//! tries each proposal, and destroys the graph.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::{self, Target};
use cudnn_backend::engine::{configuration, engine, proposals};
use cudnn_backend::graph::{Convolution, add, graph, relu};
use cudnn_backend::plan::Plan;
use cudnn_backend::tensor::Tensor;
use cudnn_loader::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode,
    cudnnDataType_t as DataType, cudnnDebug_t, cudnnSeverity_t,
};

const HALF: DataType = DataType::CUDNN_DATA_HALF;
const BFLOAT16: DataType = DataType::CUDNN_DATA_BFLOAT16;
const FLOAT: DataType = DataType::CUDNN_DATA_FLOAT;

static MESSAGES: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn count(_: cudnnSeverity_t, _: *mut c_void, _: *const cudnnDebug_t, _: *const c_char) {
    MESSAGES.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn replace(_: cudnnSeverity_t, _: *mut c_void, _: *const cudnnDebug_t, _: *const c_char) {
    // SAFETY: the function accepts cuDNN's arguments in any thread.
    let _ = unsafe { cudnn_loader::cudnnSetCallback(0b0111, std::ptr::null_mut(), Some(count)) };
}

/// Plans these graphs for a described device, and prints the result of each call. Other words are actions:
/// `set-callback` sets a callback, `replace-callback` sets one that sets another, `callback` prints what cuDNN returns
/// about it, `threads` plans the rest in parallel, `fork` starts a child that also plans the rest, and `kill` kills the
/// process. A prefix changes the treatment of a graph. `retry:` imitates PyTorch, which describes the graph again for
/// each mode, destroys it before trying plans, and destroys the proposals after the next query. `leak:` queries one
/// mode and never destroys the graph, `execute:` also executes the plan, which fails, and `engines:` creates three
/// engines without the heuristics.
pub(crate) fn run(device: &str, graphs: &[String]) {
    let json = std::fs::read_to_string(device).unwrap_or_default();
    for (index, name) in graphs.iter().enumerate() {
        #[cfg(unix)]
        match name.as_str() {
            "kill" => {
                // SAFETY: the call has no memory effects.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            }
            "fork" => {
                // SAFETY: the process has a single thread.
                let child = unsafe { libc::fork() };
                if child > 0 {
                    println!("child {child}");
                    // SAFETY: the child was started above.
                    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                }
                continue;
            }
            _ => {}
        }
        if name == "threads" {
            let rest = graphs.get(index + 1..).unwrap_or_default();
            let texts: Vec<String> = std::thread::scope(|scope| {
                let running: Vec<_> = rest.iter().map(|name| scope.spawn(|| line(&json, name))).collect();
                running.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
            });
            texts.iter().for_each(|text| println!("{text}"));
            return;
        }
        println!("{}", line(&json, name));
    }
}

fn line(json: &str, name: &str) -> String {
    match name {
        "set-callback" => {
            // SAFETY: the function accepts cuDNN's arguments in any thread.
            let status = unsafe { cudnn_loader::cudnnSetCallback(0b0111, std::ptr::null_mut(), Some(count)) };
            format!("{status:?}")
        }
        "replace-callback" => {
            // SAFETY: the function accepts cuDNN's arguments in any thread.
            let status = unsafe { cudnn_loader::cudnnSetCallback(0b1111, std::ptr::null_mut(), Some(replace)) };
            format!("{status:?}")
        }
        "callback" => {
            let (mut mask, mut data, mut function) = (0, std::ptr::null_mut(), None);
            // SAFETY: the pointers are valid for writes.
            let status = unsafe { cudnn_loader::cudnnGetCallback(&raw mut mask, &raw mut data, &raw mut function) };
            let is_own = function.is_some_and(|function| function as usize == count as *const () as usize);
            let messages = MESSAGES.swap(0, Ordering::Relaxed);
            format!("{status:?}: mask {mask}, own {is_own}, none {}, {messages} messages", function.is_none())
        }
        _ => {
            let attempted = match name.split_once(':') {
                Some(("retry", graph)) => retry(json, graph),
                Some(("leak", graph)) => leak(json, graph),
                Some(("execute", graph)) => execute(json, graph),
                Some(("engines", graph)) => engines(json, graph),
                _ => attempt(json, name),
            };
            match attempted {
                Ok(results) => format!("{name}: {results}"),
                Err(error) => format!("{name}: {error}"),
            }
        }
    }
}

fn retry(json: &str, name: &str) -> Result<String, Error> {
    let device = device::from_json(json)?;
    let target = Target::Device(&device);
    let mut results = Vec::new();
    let mut former = Vec::new();
    for mode in [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_FALLBACK] {
        let is_last = mode == Mode::CUDNN_HEUR_MODE_FALLBACK;
        // The proposals of the first mode are destroyed after the second query.
        let proposals = proposals(&build(name)?, mode, target)?;
        // The program ignores the first proposal, as a filter would. A working graph works in the last mode.
        for proposal in proposals.iter().skip(usize::from(!is_last)).filter(|_| is_last || name == "integers") {
            match Plan::new(proposal, target) {
                Ok(_) => return Ok("a plan".to_owned()),
                Err(error) => results.push(format!("{:?}", error.status)),
            }
        }
        former = proposals;
    }
    drop(former);
    Ok(results.join(", "))
}

fn leak(json: &str, name: &str) -> Result<String, Error> {
    let device = device::from_json(json)?;
    let graph = build(name)?;
    let count = proposals(&graph, Mode::CUDNN_HEUR_MODE_A, Target::Device(&device))?.len();
    std::mem::forget(graph);
    Ok(format!("{count} proposals"))
}

fn engines(json: &str, name: &str) -> Result<String, Error> {
    let (device, graph) = (device::from_json(json)?, build(name)?);
    let target = Target::Device(&device);
    let status = |index| match engine(&graph, index, target).and_then(|engine| configuration(&engine, &[])) {
        Ok(configuration) => Plan::new(&configuration, target)
            .map_or_else(|error| format!("no plan: {:?}", error.status), |_| "a plan".to_owned()),
        Err(error) => format!("{:?}", error.status),
    };
    Ok([0, 1, 2].map(status).join(", "))
}

fn execute(json: &str, name: &str) -> Result<String, Error> {
    let device = device::from_json(json)?;
    let target = Target::Device(&device);
    let graph = build(name)?;
    let proposals = proposals(&graph, Mode::CUDNN_HEUR_MODE_A, target)?;
    let plan = proposals.iter().find_map(|proposal| Plan::new(proposal, target).ok());
    let Some(plan) = plan else { return Ok("no plan".to_owned()) };
    let pack = Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
    // SAFETY: cuDNN refuses a null handle.
    let status = unsafe { cudnn_loader::cudnnBackendExecute(std::ptr::null_mut(), plan.descriptor.raw(), pack.raw()) };
    Ok(format!("{status:?}"))
}

fn attempt(json: &str, name: &str) -> Result<String, Error> {
    let device = device::from_json(json)?;
    let target = Target::Device(&device);
    let graph = build(name)?;
    let mut results = Vec::new();
    for mode in [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_FALLBACK] {
        let proposals = proposals(&graph, mode, target)?;
        results.push(format!("{} proposals", proposals.len()));
        for proposal in &proposals {
            match Plan::new(proposal, target) {
                Ok(plan) => {
                    results.push(format!("a plan with a workspace of {} bytes", plan.workspace_size));
                    return Ok(results.join(", "));
                }
                Err(error) => results.push(format!("{:?}", error.status)),
            }
        }
    }
    // The program's last error stays the same when the layer tries engines.
    let incomplete = Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
    // SAFETY: the descriptor is live.
    let status = unsafe { cudnn_loader::cudnnBackendFinalize(incomplete.raw()) };
    drop(graph);
    let mut text = [0_u8; 4096];
    // SAFETY: the buffer has this size.
    unsafe { cudnn_loader::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    results.push(format!("{status:?} {}", String::from_utf8_lossy(text)));
    Ok(results.join(", "))
}

fn build(name: &str) -> Result<Descriptor, Error> {
    let conv = |ty, channels: i64| {
        let tensor = |uid, dims: &[i64]| Tensor::channels_last(uid, ty, dims);
        let x = tensor(1, &[4, channels, 14, 14]);
        [x, tensor(2, &[32, channels, 3, 3]), tensor(3, &[4, 32, 14, 14])]
    };
    match name {
        "works" => {
            let [x, w, y] = conv(HALF, 16);
            graph(None, &[&Convolution::padded(1, 2).forward([&x, &w, &y], 1.0, 0.0)?])
        }
        "mixed-types" => graph(None, &[&matmul(HALF, BFLOAT16, false)?]),
        "fused-mixed-types" => fused(HALF, BFLOAT16),
        "fused" => fused(HALF, HALF),
        "broadcast" => {
            let tensor = |uid, dims: &[i64]| Tensor::packed(uid, FLOAT, dims);
            graph(None, &[&add([&tensor(1, &[4, 64, 64]), &tensor(2, &[1, 3, 64]), &tensor(3, &[4, 64, 64])])?])
        }
        "integers" => {
            let [x, w, y] = conv(DataType::CUDNN_DATA_INT8, 16);
            graph(None, &[&Convolution::padded(1, 2).forward([&x, &w, &y], 1.0, 0.0)?])
        }
        // "float-filter"
        _ => {
            let [x, mut w, y] = conv(HALF, 16);
            w.data_type = FLOAT;
            graph(None, &[&Convolution::padded(1, 2).forward([&x, &w, &y], 1.0, 0.0)?])
        }
    }
}

fn fused(a: DataType, b: DataType) -> Result<Descriptor, Error> {
    let c = Tensor::packed(3, FLOAT, &[4, 64, 64]).to_virtual(3, FLOAT);
    graph(None, &[&matmul(a, b, true)?, &relu([&c, &Tensor::packed(4, HALF, &[4, 64, 64])])?])
}

fn matmul(a: DataType, b: DataType, is_virtual: bool) -> Result<Descriptor, Error> {
    let function = Descriptor::new(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_MATMUL_COMP_TYPE, &[FLOAT])?
        .finalize()?;
    let a = Tensor::packed(1, a, &[4, 64, 64]).descriptor()?;
    let b = Tensor::packed(2, b, &[4, 64, 64]).descriptor()?;
    let c = Tensor::packed(3, HALF, &[4, 64, 64]);
    let c = if is_virtual { c.to_virtual(3, FLOAT) } else { c }.descriptor()?;
    Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, &[&function])?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, &[&a])?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, &[&b])?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, &[&c])?
        .finalize()
}
