//! Makes mistakes that only show when the graph runs. Every mistake runs in a child process, because some leave the
//! CUDA context unusable.

use std::process::Command;

use cudnn_backend::cudnn::{Error, cudnnDataType_t as DataType};
use cudnn_backend::device::Target;
use cudnn_backend::execute::VariantPack;
use cudnn_backend::gpu::Gpu;
use cudnn_backend::graph::{Convolution, graph, relu};
use cudnn_backend::handle::Handle;
use cudnn_backend::plan::Plan;
use cudnn_backend::tensor::Tensor;
use cudnn_backend::{Failure, reference};

use super::{cell, take_reason};

/// cuDNN may multiply in TF32.
const TOLERANCE: f64 = 2e-3;

/// The description of a mistake, and how the setup differs from a correct run.
static MISTAKES: [(&str, Setup); 10] = [
    ("none: the same without a mistake", CORRECT),
    ("two tensors with the same id", Setup { w_id: 1, ..CORRECT }),
    ("a virtual tensor that no operation writes", Setup { is_x_virtual: true, ..CORRECT }),
    ("the graph has no output: y is virtual", Setup { is_y_virtual: true, ..CORRECT }),
    ("the same, with memory for y in the variant pack", Setup { is_y_virtual: true, packs_virtual: true, ..CORRECT }),
    ("alpha and beta as doubles, accumulation in float", Setup { is_alpha_double: true, ..CORRECT }),
    (
        "the operations are not connected: different ids for the tensor between them",
        Setup { is_connected: false, ..CORRECT },
    ),
    ("a tensor id that is missing in the variant pack", Setup { packs_w: false, ..CORRECT }),
    ("memory aligned to 4 bytes instead of the tensor's 16", Setup { offset: 4, ..CORRECT }),
    ("a null workspace for a plan that needs one", Setup { has_workspace: false, ..CORRECT }),
];

const CORRECT: Setup = Setup {
    w_id: 2,
    is_x_virtual: false,
    is_y_virtual: false,
    is_connected: true,
    packs_w: true,
    packs_virtual: false,
    is_alpha_double: false,
    offset: 0,
    has_workspace: true,
};

struct Setup {
    w_id: i64,
    is_x_virtual: bool,
    is_y_virtual: bool,
    is_connected: bool,
    packs_w: bool,
    packs_virtual: bool,
    is_alpha_double: bool,
    /// The offset of x in the memory, in bytes.
    offset: usize,
    has_workspace: bool,
}

/// Makes all mistakes and prints the second table.
pub(crate) fn table() -> Result<(), Failure> {
    if let Err(error) = Gpu::first() {
        println!("\nNo GPU found ({error}), so mistakes that only show at run time were skipped.");
        return Ok(());
    }
    println!("\n| Mistake | Result |\n| --- | --- |");
    for (index, (mistake, _)) in MISTAKES.iter().enumerate() {
        let output = Command::new(std::env::current_exe()?).arg(index.to_string()).output()?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            println!("| {mistake} | {} |", stdout.trim());
        } else {
            println!("| {mistake} | {}: {} |", output.status, cell(&String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(())
}

/// Makes the mistake with this index, and prints the result.
pub(crate) fn child(index: &str) -> Result<(), Failure> {
    let mistake = index.parse().ok().and_then(|index: usize| MISTAKES.get(index));
    let (_, setup) = mistake.ok_or_else(|| format!("{index:?} is not the index of a mistake"))?;
    let gpu = Gpu::first()?;
    match run(&gpu, setup) {
        Ok(true) => println!("it runs, and the result is correct"),
        Ok(false) => println!("it runs, and the result is wrong"),
        Err(failure) => match failure.downcast_ref::<Error>() {
            Some(Error { function, status, .. }) => {
                println!("`{function}` returns {status:?}: {}", cell(&take_reason()));
            }
            None => println!("{failure}"),
        },
    }
    Ok(())
}

/// Runs y = max(conv(x, w), 0) with a mistake. Returns whether the result is correct.
fn run(gpu: &Gpu, setup: &Setup) -> Result<bool, Failure> {
    let float = DataType::CUDNN_DATA_FLOAT;
    let x = Tensor { is_virtual: setup.is_x_virtual, ..Tensor::channels_last(1, float, &[4, 16, 20, 20]) };
    let w = Tensor { uid: setup.w_id, ..Tensor::channels_last(2, float, &[32, 16, 3, 3]) };
    let y = Tensor { is_virtual: setup.is_y_virtual, ..Tensor::channels_last(3, float, &[4, 32, 20, 20]) };
    let convolution = Convolution::padded(1, 2);
    let handle = Handle::new()?;
    let plan = plan(setup, &convolution, &handle, [&x, &w, &y])?;

    let x_values = reference::noise(&x);
    let w_values = reference::noise(&Tensor { uid: 2, ..w.clone() });
    let mut x_bytes = vec![0; setup.offset];
    x_bytes.extend(reference::encode(&x, &x_values));
    let x_memory = gpu.upload(&x_bytes)?.with_offset(setup.offset);
    let w_memory = gpu.upload(&reference::encode(&w, &w_values))?;
    let y_memory = gpu.upload(&reference::encode(&y, &vec![f32::NAN; y.element_count()]))?;
    let workspace = if setup.has_workspace { gpu.zeroed(plan.workspace_size)? } else { gpu.null()? };
    let mut memory = Vec::new();
    for (tensor, buffer) in [(&x, &x_memory), (&y, &y_memory), (&w, &w_memory)] {
        let is_duplicate = memory.iter().any(|(uid, _)| *uid == tensor.uid);
        let is_omitted = tensor.is_virtual && !setup.packs_virtual || tensor.uid == 2 && !setup.packs_w;
        if !is_duplicate && !is_omitted {
            memory.push((tensor.uid, buffer));
        }
    }
    let pack = VariantPack::new(&memory, &workspace)?;
    // SAFETY: every buffer is as large as the tensor; the workspace and the handle belong to the plan. Some setups
    // violate this on purpose, in a process without other work.
    unsafe { plan.execute(&handle, &pack) }?;
    let result = reference::decode(&y, &gpu.download(&y_memory)?);
    let zeros = vec![0.0; y.element_count()];
    let mut expected = reference::convolve(&convolution, [&x, &w, &y], [&x_values, &w_values, &zeros], (1.0, 0.0));
    if setup.has_workspace {
        expected.iter_mut().for_each(|value| *value = value.max(0.0));
    }
    Ok(reference::compare(&result, &expected, TOLERANCE).is_ok())
}

/// Plans convolution and ReLU. For the missing workspace it plans only the convolution, because no plan for both
/// operations needs a workspace.
fn plan(setup: &Setup, convolution: &Convolution, handle: &Handle, [x, w, y]: [&Tensor; 3]) -> Result<Plan, Failure> {
    let target = Target::Handle(handle);
    if !setup.has_workspace {
        let graph = graph(Some(handle), &[&convolution.forward([x, w, y], 1.0, 0.0)?])?;
        let plan = Plan::find(&graph, target, |plan| plan.workspace_size > 0);
        return Ok(plan.ok_or("no plan needs a workspace")?);
    }
    let written = y.to_virtual(4, DataType::CUDNN_DATA_FLOAT);
    let read = Tensor { uid: if setup.is_connected { 4 } else { 5 }, ..written.clone() };
    let forward = if setup.is_alpha_double {
        convolution.forward_scaled([x, w, &written], 1f64, 0f64)?
    } else {
        convolution.forward([x, w, &written], 1.0, 0.0)?
    };
    let operations = [forward, relu([&read, y])?];
    Ok(Plan::first(&graph(Some(handle), &operations.each_ref())?, target)?.plan)
}
