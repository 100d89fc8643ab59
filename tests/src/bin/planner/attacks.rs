//! Runs random programs that set attributes in undocumented ways that cuDNN accepts: other numbers of elements, other
//! types, twice, or in a different order. Every program runs before and after a program with a single different value.
//! If a cache ignores a value that cuDNN uses, one of them receives the wrong plan.

use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
};

use crate::random::Random;
use crate::variants::{self, Step};

/// The room for the elements of an array, so that cuDNN reads valid memory for every count here.
const ROOM: usize = 1 << 14;
const DESCRIPTORS: usize = 8;

/// Runs the programs for these seeds, with a real cuDNN for a described device, or with the stand-in.
pub(crate) fn run(first: u64, last: u64, device: Option<&str>) {
    let base = device.map_or_else(variants::base, matmul);
    for seed in first..last {
        let mut random = Random::new(seed);
        let mut program = base.clone();
        if device.is_some() && seed % 4 == 0 {
            let other = confuse(&mut program, &mut random);
            run_both(seed, &program, &other, true);
            continue;
        }
        let mut distorted = None;
        for _ in 0..random.below(4) {
            distorted = distort(&mut program, &mut random).or(distorted);
        }
        let mut other = program.clone();
        // Usually change the value of a distorted call, to detect distortions that matter.
        let only = distorted.filter(|_| !random.once_in(4));
        change_a_value(&mut other, only, &mut random);
        run_both(seed, &program, &other, device.is_some());
    }
}

fn run_both(seed: u64, program: &[Step], other: &[Step], is_real: bool) {
    for (what, program) in [("one", program), ("other", other), ("one again", program)] {
        // After a refused call, cuDNN reads uninitialized memory for the missing attribute.
        variants::print(&format!("{seed}, {what}"), program, is_real);
    }
}

/// Makes a call that cuDNN 9.19 interprets differently from the declaration. Returns the program with another value.
fn confuse(program: &mut [Step], random: &mut Random) -> Vec<Step> {
    let is_padding = random.once_in(2);
    let matrix = random.pick(&[Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC]);
    let chosen = if is_padding { Name::CUDNN_ATTR_MATMUL_PADDING_VALUE } else { matrix };
    let Some(index) = program.iter().position(|step| place(step).is_some_and(|(_, name)| name == chosen)) else {
        return program.to_vec();
    };
    match &mut program[index] {
        Step::Set(_, _, ty, _, _) => *ty = random.pick(&[Type::CUDNN_TYPE_FLOAT, Type::CUDNN_TYPE_INT32]),
        Step::SetDescriptors(_, _, count, _) => *count = random.pick(&[0, -1]),
        _ => {}
    }
    let mut other = program.to_vec();
    match &mut other[index] {
        // A byte after the four bytes of the declared type.
        Step::Set(_, _, _, _, bytes) => bytes[4 + random.below(4) as usize] ^= 1 << random.below(8),
        // The same matrix in column order.
        Step::SetDescriptors(_, _, _, children) => children[0] += 3,
        _ => {}
    }
    other
}

type Place = (usize, Name);

fn place(step: &Step) -> Option<Place> {
    match step {
        Step::Set(descriptor, name, ..) | Step::SetDescriptors(descriptor, name, ..) => Some((*descriptor, *name)),
        _ => None,
    }
}

/// Sets an attribute to the same value in a different way. Returns the attribute.
fn distort(program: &mut Vec<Step>, random: &mut Random) -> Option<Place> {
    let index = random.below(program.len() as u64) as usize;
    let step = program[index].clone();
    let place = place(&step);
    match (&mut program[index], random.below(6)) {
        (Step::Set(_, _, ty, count, bytes), choice @ 0..4) => {
            bytes.resize(bytes.len().max(ROOM), 0);
            match choice {
                0 => *count = random.pick(&[0, -1]),
                1 => *count += 1 + random.below(8) as i64,
                _ => {
                    *ty = random.pick(&[
                        Type::CUDNN_TYPE_INT64,
                        Type::CUDNN_TYPE_INT32,
                        Type::CUDNN_TYPE_INT32,
                        Type::CUDNN_TYPE_FLOAT,
                        Type::CUDNN_TYPE_DOUBLE,
                        Type::CUDNN_TYPE_BOOLEAN,
                        Type::CUDNN_TYPE_CHAR,
                        Type::CUDNN_TYPE_DATA_TYPE,
                    ]);
                }
            }
        }
        (Step::SetDescriptors(_, _, count, children), 0..4) => {
            let first = children[0];
            children.resize(DESCRIPTORS, first);
            *count = random.pick(&[0, -1, 1, 2, DESCRIPTORS as i64]);
        }
        (Step::Set(..) | Step::SetDescriptors(..) | Step::SetHandle(..), 4) => program.insert(index, step),
        (Step::Set(descriptor, ..), _) => {
            let descriptor = *descriptor;
            if matches!(&program[index - 1], Step::Set(other, ..) if *other == descriptor) {
                program.swap(index, index - 1);
            }
        }
        _ => {}
    }
    place
}

/// Changes one value in place: a byte that cuDNN may read, or a descriptor.
fn change_a_value(program: &mut [Step], only: Option<Place>, random: &mut Random) {
    let kinds: Vec<Kind> = program
        .iter()
        .filter_map(|step| match step {
            Step::Create(kind) => Some(*kind),
            _ => None,
        })
        .collect();
    let steps: Vec<&mut Step> = program
        .iter_mut()
        .filter(|step| place(step).is_some_and(|place| only.is_none_or(|only| place == only)))
        .collect();
    let index = random.below(steps.len() as u64) as usize;
    match steps.into_iter().nth(index) {
        Some(Step::Set(_, _, _, _, bytes)) => {
            let index = random.below(bytes.len().min(16) as u64) as usize;
            bytes[index] ^= 1 << random.below(8);
        }
        Some(Step::SetDescriptors(_, _, _, children)) => {
            let alike: Vec<usize> = (0..kinds.len()).filter(|other| kinds[*other] == kinds[children[0]]).collect();
            children[0] = random.pick(&alike);
        }
        _ => {}
    }
}

/// Multiplies two matrices, in row or column order.
fn matmul(device: &str) -> Vec<Step> {
    let mut program = Vec::new();
    let create = |program: &mut Vec<Step>, kind| variants::create(program, kind);
    let number = |descriptor, name, ty, value: i32| Step::Set(descriptor, name, ty, 1, value.to_ne_bytes().into());
    let device_properties = create(&mut program, Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    let (name, ty) = (Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR);
    program.push(Step::Set(device_properties, name, ty, device.len() as i64, device.into()));
    program.push(Step::Finalize(device_properties));
    let mut tensors = Vec::new();
    for (uid, dims, strides) in [
        (1, [1, 128, 64], [8192, 64, 1]),
        (2, [1, 64, 96], [6144, 96, 1]),
        (3, [1, 128, 96], [12288, 96, 1]),
        (1, [1, 128, 64], [8192, 1, 128]),
        (2, [1, 64, 96], [6144, 1, 64]),
    ] {
        let tensor = create(&mut program, Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        program.push(variants::ints(tensor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[uid]));
        program.push(variants::ints(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &dims));
        program.push(variants::ints(tensor, Name::CUDNN_ATTR_TENSOR_STRIDES, &strides));
        program.push(variants::ints(tensor, Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16]));
        program.push(number(tensor, Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, 2));
        program.push(Step::Finalize(tensor));
        tensors.push(tensor);
    }
    let function = create(&mut program, Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    program.push(number(function, Name::CUDNN_ATTR_MATMUL_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, 0));
    let padding = 1.0_f64.to_ne_bytes().into();
    program.push(Step::Set(function, Name::CUDNN_ATTR_MATMUL_PADDING_VALUE, Type::CUDNN_TYPE_DOUBLE, 1, padding));
    program.push(Step::Finalize(function));
    let operation = create(&mut program, Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    for (name, child) in [
        (Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, function),
        (Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensors[0]),
        (Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensors[1]),
        (Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensors[2]),
    ] {
        program.push(variants::descriptors(operation, name, vec![child]));
    }
    program.push(Step::Finalize(operation));
    let graph = create(&mut program, Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    program.push(variants::descriptors(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, vec![operation]));
    program.push(Step::Finalize(graph));
    let engine = create(&mut program, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    program.push(variants::descriptors(engine, Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, vec![graph]));
    program.push(variants::descriptors(engine, Name::CUDNN_ATTR_ENGINE_DEVICEPROP, vec![device_properties]));
    program.push(variants::ints(engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[7]));
    program.push(Step::Finalize(engine));
    let configuration = create(&mut program, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    program.push(variants::descriptors(configuration, Name::CUDNN_ATTR_ENGINECFG_ENGINE, vec![engine]));
    program.push(Step::Finalize(configuration));
    let plan = create(&mut program, Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    program.push(variants::descriptors(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, vec![device_properties]));
    program.push(variants::descriptors(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, vec![configuration]));
    program.push(Step::Finalize(plan));
    program
}
