//! Writes graphs that cuDNN accepts, with heuristics, engines, plans and executions.

use cudnn_sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
    cudnnBackendHeurMode_t as HeuristicMode, cudnnDataType_t as DataType, cudnnPointwiseMode_t as Pointwise,
    cudnnReduceTensorOp_t as Reduction,
};

use crate::program::{Argument, Element};
use crate::writer::{Writer, attributes_of, is_operation, kind_of_element};

#[derive(Clone)]
struct Tensor {
    slot: usize,
    uid: i64,
    dims: Vec<i64>,
}

pub(super) fn write(writer: &mut Writer) {
    let device = device(writer);
    let (mut tensors, mut operations) = (Vec::new(), Vec::new());
    match writer.random.u8(..10) {
        0..3 => convolution(writer, &mut tensors, &mut operations),
        3..5 => matmul(writer, &mut tensors, &mut operations),
        5 => attention(writer, &mut tensors, &mut operations),
        6 => {
            let x = float_tensor(writer, &mut tensors, false);
            reduction(writer, &mut tensors, &mut operations, &x, false);
        }
        7 => {
            let x = float_tensor(writer, &mut tensors, false);
            chain(writer, &mut tensors, &mut operations, x);
        }
        _ => any_operation(writer, &mut tensors, &mut operations),
    }
    let graph = graph(writer, &operations);
    if writer.once_in(3) {
        read_any(writer, graph, Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    }
    let configuration = if writer.once_in(3) {
        let index = writer.pick(&[0, 1, 1, 4, 7, 7, 8, 11, 57, 71, 1000]);
        Some(engine(writer, graph, device, index))
    } else if writer.once_in(3) {
        None
    } else {
        heuristics(writer, graph, device)
    };
    let Some(configuration) = configuration else { return };
    // Compiling takes most of the time of all programs.
    if writer.once_in(8) {
        plan(writer, configuration, device, &tensors);
    } else if writer.once_in(3) {
        let plan = writer.create(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        writer.set_descriptors(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration]);
        read_any(writer, plan, Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    }
}

/// Describes a device, because the machine may have none.
fn device(writer: &mut Writer) -> usize {
    let device = writer.create(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    let name = Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
    let len = cudnn_sys::devices::H200.len() as i64;
    writer.set_some(device, name, Type::CUDNN_TYPE_CHAR, len, vec![Element::Device]);
    writer.finalize(device);
    device
}

fn graph(writer: &mut Writer, operations: &[usize]) -> usize {
    let graph = writer.create(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    writer.set_descriptors(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
    writer.finalize(graph);
    graph
}

/// Sets, finalizes and reads descriptors of any kinds with declared attributes and any values.
pub(super) fn write_any(writer: &mut Writer) {
    for _ in 0..writer.random.usize(1..6) {
        let (kind, _) = writer.pick(Kind::ENUMERATORS);
        // cuDNN reads uninitialized memory for this kind.
        if kind == Kind::CUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR {
            continue;
        }
        let slot = writer.create(kind);
        set_all(writer, slot, kind, 3);
        read_any(writer, slot, kind);
        if writer.once_in(3) {
            writer.last_error();
        }
    }
}

fn tensor(writer: &mut Writer, tensors: &mut Vec<Tensor>, ty: DataType, dims: &[i64], is_virtual: bool) -> Tensor {
    let (slot, uid) = (writer.create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR), writer.uid());
    // The order of dimensions in memory, the outermost first: rows, or channels last.
    let mut order: Vec<usize> = (0..dims.len()).collect();
    if dims.len() > 3 && !writer.once_in(3) {
        order[1..].rotate_left(1);
    }
    let mut strides = vec![0; dims.len()];
    let mut stride = 1;
    for index in order.into_iter().rev() {
        strides[index] = stride;
        stride *= dims[index];
    }
    writer.set_longs(slot, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[uid]);
    writer.set_int(slot, Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, ty.0);
    writer.set_longs(slot, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
    writer.set_longs(slot, Name::CUDNN_ATTR_TENSOR_STRIDES, &strides);
    writer.set_longs(slot, Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16]);
    if is_virtual {
        writer.set(slot, Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, Type::CUDNN_TYPE_BOOLEAN, vec![Element::Byte(1)]);
    }
    writer.finalize(slot);
    let tensor = Tensor { slot, uid, dims: dims.to_vec() };
    if !is_virtual {
        tensors.push(tensor.clone());
    }
    tensor
}

fn data_type(writer: &mut Writer) -> DataType {
    writer.pick(&[
        DataType::CUDNN_DATA_HALF,
        DataType::CUDNN_DATA_HALF,
        DataType::CUDNN_DATA_FLOAT,
        DataType::CUDNN_DATA_BFLOAT16,
        DataType::CUDNN_DATA_INT8,
    ])
}

fn float_tensor(writer: &mut Writer, tensors: &mut Vec<Tensor>, is_virtual: bool) -> Tensor {
    let dims = writer.pick::<&[i64]>(&[&[2, 8, 16, 16], &[4, 16, 8, 8], &[1, 64, 64], &[1, 32, 4, 4, 4]]);
    let ty = data_type(writer);
    tensor(writer, tensors, ty, dims, is_virtual)
}

/// Convolves in one of the three directions, and sometimes continues with the result.
fn convolution(writer: &mut Writer, tensors: &mut Vec<Tensor>, operations: &mut Vec<usize>) {
    let ty = data_type(writer);
    let (channels, filters, size) = (writer.pick(&[8, 16, 3]), writer.pick(&[8, 32]), writer.pick(&[8, 14]));
    let (window, padding) = writer.pick(&[(1, 0), (3, 1), (3, 0)]);
    let result = size + 2 * padding - window + 1;
    let function = writer.create(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    writer.set_int(function, Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, 0);
    writer.set_int(function, Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, Type::CUDNN_TYPE_CONVOLUTION_MODE, 1);
    writer.set_longs(function, Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2]);
    writer.set_longs(function, Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &[padding, padding]);
    writer.set_longs(function, Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &[padding, padding]);
    writer.set_longs(function, Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &[1, 1]);
    writer.set_longs(function, Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &[1, 1]);
    writer.finalize(function);
    let direction = writer.random.usize(..5).saturating_sub(2);
    let continues = direction == 0 && writer.once_in(2);
    let x = tensor(writer, tensors, ty, &[2, channels, size, size], false);
    let w = tensor(writer, tensors, ty, &[filters, channels, window, window], false);
    let y = tensor(writer, tensors, ty, &[2, filters, result, result], continues);
    type Direction = (Kind, [Name; 4], [Name; 2]);
    let directions: [Direction; 3] = [
        (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            ],
            [Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA],
        ),
        (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            ],
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            ],
        ),
        (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            ],
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            ],
        ),
    ];
    let (kind, names, scales) = directions[direction];
    let operation = writer.create(kind);
    for (name, slot) in names.into_iter().zip([x.slot, w.slot, y.slot, function]) {
        writer.set_descriptors(operation, name, &[slot]);
    }
    for (name, value) in scales.into_iter().zip([1.0, 0.0]) {
        writer.set(operation, name, Type::CUDNN_TYPE_FLOAT, vec![Element::Float(value)]);
    }
    writer.finalize(operation);
    operations.push(operation);
    if continues {
        chain(writer, tensors, operations, y);
    }
}

fn matmul(writer: &mut Writer, tensors: &mut Vec<Tensor>, operations: &mut Vec<usize>) {
    let ty = data_type(writer);
    let (rows, inner, columns) = (writer.pick(&[32, 64]), writer.pick(&[16, 64]), writer.pick(&[8, 64]));
    let a = tensor(writer, tensors, ty, &[1, rows, inner], false);
    let b = tensor(writer, tensors, ty, &[1, inner, columns], false);
    let continues = writer.once_in(2);
    let c = product(writer, tensors, operations, ty, [&a, &b], continues);
    if continues {
        chain(writer, tensors, operations, c);
    }
}

fn product(
    writer: &mut Writer,
    tensors: &mut Vec<Tensor>,
    operations: &mut Vec<usize>,
    ty: DataType,
    [a, b]: [&Tensor; 2],
    is_virtual: bool,
) -> Tensor {
    let mut dims = a.dims.clone();
    if let (Some(last), Some(columns)) = (dims.last_mut(), b.dims.last()) {
        *last = *columns;
    }
    let c = tensor(writer, tensors, ty, &dims, is_virtual);
    let function = writer.create(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    writer.set_int(function, Name::CUDNN_ATTR_MATMUL_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, 0);
    writer.finalize(function);
    let operation = writer.create(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    writer.set_descriptors(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, &[a.slot]);
    writer.set_descriptors(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, &[b.slot]);
    writer.set_descriptors(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, &[c.slot]);
    writer.set_descriptors(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, &[function]);
    writer.finalize(operation);
    operations.push(operation);
    c
}

/// Computes softmax(scale * Q K) V.
fn attention(writer: &mut Writer, tensors: &mut Vec<Tensor>, operations: &mut Vec<usize>) {
    let (half, float) = (DataType::CUDNN_DATA_HALF, DataType::CUDNN_DATA_FLOAT);
    let q = tensor(writer, tensors, half, &[1, 2, 64, 64], false);
    let k = tensor(writer, tensors, half, &[1, 2, 64, 64], false);
    let v = tensor(writer, tensors, half, &[1, 2, 64, 64], false);
    let scale = tensor(writer, tensors, float, &[1, 1, 1, 1], false);
    let scores = product(writer, tensors, operations, float, [&q, &k], true);
    let scaled = pointwise(writer, tensors, operations, Pointwise::CUDNN_POINTWISE_MUL, [&scores, &scale], true);
    let largest = reduction(writer, tensors, operations, &scaled, true);
    let less = pointwise(writer, tensors, operations, Pointwise::CUDNN_POINTWISE_SUB, [&scaled, &largest], true);
    let power = pointwise(writer, tensors, operations, Pointwise::CUDNN_POINTWISE_EXP, [&less], true);
    let sum = reduction(writer, tensors, operations, &power, true);
    let shares = pointwise(writer, tensors, operations, Pointwise::CUDNN_POINTWISE_DIV, [&power, &sum], true);
    product(writer, tensors, operations, half, [&shares, &v], false);
}

fn chain(writer: &mut Writer, tensors: &mut Vec<Tensor>, operations: &mut Vec<usize>, mut x: Tensor) {
    let count = writer.random.usize(1..3);
    for index in 1..=count {
        let is_virtual = index < count;
        x = if writer.once_in(2) {
            let mode = writer.pick(&[
                Pointwise::CUDNN_POINTWISE_RELU_FWD,
                Pointwise::CUDNN_POINTWISE_GELU_FWD,
                Pointwise::CUDNN_POINTWISE_EXP,
                Pointwise::CUDNN_POINTWISE_IDENTITY,
            ]);
            pointwise(writer, tensors, operations, mode, [&x], is_virtual)
        } else {
            let mode = writer.pick(&[
                Pointwise::CUDNN_POINTWISE_ADD,
                Pointwise::CUDNN_POINTWISE_MUL,
                Pointwise::CUDNN_POINTWISE_MAX,
            ]);
            let mut dims = vec![1; x.dims.len()];
            dims[1] = x.dims[1];
            let b = tensor(writer, tensors, DataType::CUDNN_DATA_FLOAT, &dims, false);
            pointwise(writer, tensors, operations, mode, [&x, &b], is_virtual)
        };
    }
}

fn pointwise<const INPUTS: usize>(
    writer: &mut Writer,
    tensors: &mut Vec<Tensor>,
    operations: &mut Vec<usize>,
    mode: Pointwise,
    inputs: [&Tensor; INPUTS],
    is_virtual: bool,
) -> Tensor {
    let ty = if is_virtual { DataType::CUDNN_DATA_FLOAT } else { data_type(writer) };
    let y = tensor(writer, tensors, ty, &inputs[0].dims, is_virtual);
    let function = writer.create(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    writer.set_int(function, Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, mode.0);
    writer.set_int(function, Name::CUDNN_ATTR_POINTWISE_MATH_PREC, Type::CUDNN_TYPE_DATA_TYPE, 0);
    writer.finalize(function);
    let operation = writer.create(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    writer.set_descriptors(operation, Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[function]);
    let names = [Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC];
    for (name, input) in names.into_iter().zip(inputs) {
        writer.set_descriptors(operation, name, &[input.slot]);
    }
    writer.set_descriptors(operation, Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &[y.slot]);
    writer.finalize(operation);
    operations.push(operation);
    y
}

fn reduction(
    writer: &mut Writer,
    tensors: &mut Vec<Tensor>,
    operations: &mut Vec<usize>,
    x: &Tensor,
    is_virtual: bool,
) -> Tensor {
    let mut dims = x.dims.clone();
    if let Some(last) = dims.last_mut() {
        *last = 1;
    }
    let y = tensor(writer, tensors, DataType::CUDNN_DATA_FLOAT, &dims, is_virtual);
    let operator = writer.pick(&[Reduction::CUDNN_REDUCE_TENSOR_ADD, Reduction::CUDNN_REDUCE_TENSOR_MAX]);
    let function = writer.create(Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    let ty = Type::CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
    writer.set_int(function, Name::CUDNN_ATTR_REDUCTION_OPERATOR, ty, operator.0);
    writer.set_int(function, Name::CUDNN_ATTR_REDUCTION_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, 0);
    writer.finalize(function);
    let operation = writer.create(Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    writer.set_descriptors(operation, Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, &[x.slot]);
    writer.set_descriptors(operation, Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, &[y.slot]);
    writer.set_descriptors(operation, Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, &[function]);
    writer.finalize(operation);
    operations.push(operation);
    y
}

/// Makes an operation of any kind, with any tensors.
fn any_operation(writer: &mut Writer, tensors: &mut Vec<Tensor>, operations: &mut Vec<usize>) {
    for _ in 0..writer.random.usize(1..4) {
        float_tensor(writer, tensors, false);
    }
    let kinds: Vec<Kind> = Kind::ENUMERATORS.iter().map(|(kind, _)| *kind).filter(|kind| is_operation(*kind)).collect();
    let kind = writer.pick(&kinds);
    let operation = writer.create(kind);
    set_all(writer, operation, kind, 10);
    operations.push(operation);
}

/// Sets the attributes of a descriptor to any values, except one in some, and finalizes it.
fn set_all(writer: &mut Writer, slot: usize, kind: Kind, except: usize) {
    for (name, elements) in attributes_of(kind) {
        if writer.once_in(except) {
            continue;
        }
        let ty = writer.pick(elements.types);
        let count = if elements.most > 1 && !writer.once_in(3) { writer.random.i64(1..5) } else { 1 };
        let values = (0..count).flat_map(|_| writer.values(*name, ty)).collect();
        writer.set_some(slot, *name, ty, count, values);
    }
    writer.finalize(slot);
}

pub(super) fn read_any(writer: &mut Writer, slot: usize, kind: Kind) {
    let attributes = attributes_of(kind);
    if attributes.is_empty() {
        return;
    }
    for _ in 0..writer.random.usize(1..5) {
        let (name, elements) = attributes[writer.random.usize(..attributes.len())];
        let ty = writer.pick(elements.types);
        let room = writer.pick(&[1, 1, 1, 0, 2, 8, -1]);
        let to = match writer.random.u8(..8) {
            0 => Argument::Null,
            1 => Argument::Memory(Vec::new()),
            _ if ty == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR => match kind_of_element(*name) {
                Some(kind) => Argument::Memory((0..room.max(1)).map(|_| Element::Slot(writer.create(kind))).collect()),
                None => Argument::Null,
            },
            _ => Argument::Memory(vec![Element::Zeros(16 * room.max(1) as usize)]),
        };
        writer.get(slot, *name, ty, room, to);
    }
}

/// Queries the heuristics, and returns the first engine configuration.
fn heuristics(writer: &mut Writer, graph: usize, device: usize) -> Option<usize> {
    let heuristics = writer.create(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    let mode = writer.pick(&[
        HeuristicMode::CUDNN_HEUR_MODE_A,
        HeuristicMode::CUDNN_HEUR_MODE_INSTANT,
        HeuristicMode::CUDNN_HEUR_MODE_FALLBACK,
    ]);
    writer.set_descriptors(heuristics, Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph]);
    writer.set_int(heuristics, Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, mode.0);
    writer.set_descriptors(heuristics, Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &[device]);
    writer.finalize(heuristics);
    let (name, ty) = (Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
    writer.get(heuristics, name, ty, 0, Argument::Null);
    let room = writer.pick(&[1, 2, 5, 20]);
    let configurations: Vec<usize> =
        (0..room).map(|_| writer.create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)).collect();
    let to = configurations.iter().copied().map(Element::Slot).collect();
    writer.get(heuristics, name, ty, room, Argument::Memory(to));
    if writer.once_in(3) {
        writer.destroy(heuristics);
    }
    let configuration = writer.pick(&configurations);
    if writer.once_in(2) {
        read_any(writer, configuration, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    if writer.once_in(3) {
        let engine = writer.create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        let to = Argument::Memory(vec![Element::Slot(engine)]);
        writer.get(configuration, Name::CUDNN_ATTR_ENGINECFG_ENGINE, ty, 1, to);
        read_any(writer, engine, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    }
    Some(configuration)
}

fn engine(writer: &mut Writer, graph: usize, device: usize, index: i64) -> usize {
    let engine = writer.create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    writer.set_descriptors(engine, Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph]);
    writer.set_longs(engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[index]);
    writer.set_descriptors(engine, Name::CUDNN_ATTR_ENGINE_DEVICEPROP, &[device]);
    writer.finalize(engine);
    read_any(writer, engine, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    let configuration = writer.create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    writer.set_descriptors(configuration, Name::CUDNN_ATTR_ENGINECFG_ENGINE, &[engine]);
    if writer.once_in(3) {
        let knob = writer.create(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        let ty = writer.pick(&[2, 13, 14, 24, 27]);
        writer.set_int(knob, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE, ty);
        let value = writer.random.i64(..4);
        writer.set_longs(knob, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[value]);
        writer.finalize(knob);
        writer.set_descriptors(configuration, Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, &[knob]);
    }
    writer.finalize(configuration);
    configuration
}

/// Builds a plan, reads it, restores it from its JSON, and executes it, which fails without a handle.
fn plan(writer: &mut Writer, configuration: usize, device: usize, tensors: &[Tensor]) {
    let plan = writer.create(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    let device_first = writer.once_in(2);
    let set_device = |writer: &mut Writer| {
        writer.set_descriptors(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, &[device]);
    };
    if device_first {
        set_device(writer);
    }
    writer.set_descriptors(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration]);
    if !device_first {
        set_device(writer);
    }
    writer.finalize(plan);
    let size = Argument::Memory(vec![Element::Long(-1)]);
    writer.get(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT64, 1, size);
    read_any(writer, plan, Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if writer.once_in(2) {
        let (json, ty) = (Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR);
        let room = 200_000;
        writer.get(plan, json, ty, 0, Argument::Null);
        writer.get(plan, json, ty, room, Argument::Kept(vec![Element::Zeros(room as usize)]));
        if writer.once_in(4) {
            let restored = writer.create(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
            writer.set_some(restored, json, ty, room, vec![Element::Kept]);
            set_device(writer);
            writer.finalize(restored);
        }
    }
    let pack = writer.create(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    let uids: Vec<i64> = tensors.iter().map(|tensor| tensor.uid).collect();
    writer.set_longs(pack, Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &uids);
    let pointers = (1..=uids.len()).map(|index| Element::Long(index as i64 * 4096)).collect();
    writer.set(pack, Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, pointers);
    writer.set(pack, Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, Type::CUDNN_TYPE_VOID_PTR, vec![Element::Long(0)]);
    writer.finalize(pack);
    if writer.once_in(2) {
        read_any(writer, pack, Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    }
    writer.call("cudnnBackendExecute", vec![Argument::Null, Argument::Slot(plan), Argument::Slot(pack)]);
    writer.last_error();
}

/// Plans a graph, so that cuDNN has loaded everything.
pub(super) fn warm_up(writer: &mut Writer) {
    let device = device(writer);
    let (mut tensors, mut operations) = (Vec::new(), Vec::new());
    let x = tensor(writer, &mut tensors, DataType::CUDNN_DATA_HALF, &[2, 8, 16, 16], false);
    pointwise(writer, &mut tensors, &mut operations, Pointwise::CUDNN_POINTWISE_RELU_FWD, [&x], false);
    let graph = graph(writer, &operations);
    heuristics(writer, graph, device);
    let configuration = engine(writer, graph, device, 1);
    plan(writer, configuration, device, &tensors);
}
