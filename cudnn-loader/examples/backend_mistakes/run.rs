//! The mistakes that only show when the graph runs, each in a process of its own, since some may spoil the context.

use std::process::Command;

use super::cudnn::{Error, cudnnDataType_t as DataType};
use super::{REASONS, in_a_cell};
use crate::backend::descriptor::Handle;
use crate::backend::gpu::Gpu;
use crate::backend::graph::{Convolution, graph, relu};
use crate::backend::plan::{Pack, Plan};
use crate::backend::tensor::Tensor;
use crate::backend::{Failure, reference};

/// What is done, and in what it differs from a right run.
pub(crate) static MISTAKES: [(&str, Mistake); 10] = [
    ("nothing: the same without a mistake", RIGHT),
    ("two tensors with one id", Mistake { w_id: 1, ..RIGHT }),
    ("a virtual tensor that no operation makes", Mistake { is_x_virtual: true, ..RIGHT }),
    ("nothing leaves the graph: y is virtual", Mistake { is_y_virtual: true, ..RIGHT }),
    ("the same, and memory is given for it", Mistake { is_y_virtual: true, is_virtual_given: true, ..RIGHT }),
    ("alpha and beta as doubles, with sums in float", Mistake { is_alpha_double: true, ..RIGHT }),
    ("the steps of a graph are not joined: other ids for what is between", Mistake { is_joined: false, ..RIGHT }),
    ("a tensor without memory: its id is not in the pack", Mistake { is_w_given: false, ..RIGHT }),
    ("memory that is less aligned than the tensor says: by 4 bytes instead of 16", Mistake { offset: 4, ..RIGHT }),
    ("a null workspace where the plan wants one", Mistake { has_workspace: false, ..RIGHT }),
];

const RIGHT: Mistake = Mistake {
    w_id: 2,
    is_x_virtual: false,
    is_y_virtual: false,
    is_joined: true,
    is_w_given: true,
    is_virtual_given: false,
    is_alpha_double: false,
    offset: 0,
    has_workspace: true,
};

pub(crate) struct Mistake {
    w_id: i64,
    is_x_virtual: bool,
    is_y_virtual: bool,
    is_joined: bool,
    is_w_given: bool,
    is_virtual_given: bool,
    is_alpha_double: bool,
    /// Of x in its memory, in bytes.
    offset: usize,
    has_workspace: bool,
}

/// Makes all of them, as the rows of another table.
pub(crate) fn all() -> Result<(), Failure> {
    if let Err(why) = Gpu::first() {
        println!("\nNo GPU to run on ({why}), so what only shows when it runs was not tried.");
        return Ok(());
    }
    println!("\n| Mistake | What comes of it |\n| --- | --- |");
    for (index, (what, _)) in MISTAKES.iter().enumerate() {
        let output = Command::new(std::env::current_exe()?).arg(index.to_string()).output()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let complained = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match output.status.success() {
            true => println!("| {what} | {said} |"),
            false => println!("| {what} | {}: {} |", output.status, in_a_cell(&complained)),
        }
    }
    Ok(())
}

/// Makes one of them, and says what came of it.
pub(crate) fn make(mistake: &Mistake) -> Result<(), Failure> {
    let gpu = Gpu::first()?;
    match run(&gpu, mistake) {
        Ok(true) => println!("it runs, and the result is right"),
        Ok(false) => println!("it runs, and the result is wrong"),
        Err(failure) => match failure.downcast_ref::<Error>() {
            Some(Error { function, status, .. }) => {
                let reason = REASONS.lock().ok().and_then(|reasons| reasons.first().cloned()).unwrap_or_default();
                println!("`{function}` gives {status:?}: {}", in_a_cell(&reason));
            }
            None => println!("{failure}"),
        },
    }
    Ok(())
}

/// y = max(conv(x, w), 0). Is the result right?
fn run(gpu: &Gpu, mistake: &Mistake) -> Result<bool, Failure> {
    let float = DataType::CUDNN_DATA_FLOAT;
    let x = Tensor { is_virtual: mistake.is_x_virtual, ..Tensor::channels_last(1, float, &[4, 16, 20, 20]) };
    let w = Tensor { uid: mistake.w_id, ..Tensor::channels_last(2, float, &[32, 16, 3, 3]) };
    let y = Tensor { is_virtual: mistake.is_y_virtual, ..Tensor::channels_last(3, float, &[4, 32, 20, 20]) };
    let made = y.between(4, float);
    let taken = Tensor { uid: if mistake.is_joined { 4 } else { 5 }, ..made.clone() };
    let convolution = Convolution::padded(1, 2);
    let handle = Handle::new()?;
    let plan = if mistake.has_workspace {
        let forward = match mistake.is_alpha_double {
            true => convolution.forward_with([&x, &w, &made], 1f64, 0f64)?,
            false => convolution.forward([&x, &w, &made], 1.0, 0.0)?,
        };
        let operations = [forward, relu([&taken, &y])?];
        let [first, second] = &operations;
        Plan::first(&graph(Some(&handle), &[first, second])?, &handle)?
    } else {
        // One for both operations wants none.
        let graph = graph(Some(&handle), &[&convolution.forward([&x, &w, &y], 1.0, 0.0)?])?;
        Plan::first_that(&graph, &handle, |plan| plan.workspace > 0).ok_or("no plan wants a workspace")?
    };

    let values = [reference::noise(&x), reference::noise(&Tensor { uid: 2, ..w.clone() })];
    let [x_values, w_values] = &values;
    let mut x_bytes = vec![0; mistake.offset];
    x_bytes.extend(reference::bytes(&x, x_values));
    let x_there = gpu.upload(&x_bytes)?.behind(mistake.offset);
    let w_there = gpu.upload(&reference::bytes(&w, w_values))?;
    let y_there = gpu.upload(&reference::bytes(&y, &vec![f32::NAN; y.len()]))?;
    let workspace = if mistake.has_workspace { gpu.room(plan.workspace)? } else { gpu.nothing()? };
    let mut memory = Vec::new();
    for (tensor, there) in [(&x, &x_there), (&y, &y_there), (&w, &w_there)] {
        let is_new = memory.iter().all(|(uid, _)| *uid != tensor.uid);
        let is_left_out = tensor.is_virtual && !mistake.is_virtual_given || tensor.uid == 2 && !mistake.is_w_given;
        if is_new && !is_left_out {
            memory.push((tensor.uid, there));
        }
    }
    let pack = Pack::new(&memory, &workspace)?;
    // SAFETY: each memory was made for its tensor, the workspace and the handle are the plan's; but for one of the mistakes,
    // which are what is tried here, in a process for that alone.
    unsafe { plan.execute(&handle, &pack) }?;
    let result = reference::values(&y, &gpu.download(&y_there)?);
    let nothing = vec![0.0; y.len()];
    let mut expected = reference::convolve(&convolution, [&x, &w, &y], [x_values, w_values, &nothing], (1.0, 0.0));
    if mistake.has_workspace {
        expected.iter_mut().for_each(|value| *value = value.max(0.0));
    }
    Ok(reference::compare(&result, &expected, 2e-3).is_ok())
}
