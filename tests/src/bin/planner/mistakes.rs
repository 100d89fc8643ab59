//! Makes one mistake, with the number in the list of `docs/measurements/validate.md`, and prints every failed call.
//! `many` makes 300 mistakes twice, `legitimate` makes unusual graphs that are correct, and `steps-N` measures the
//! calls of a step nine times, each with N steps.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::time::Instant;

use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t as Raw,
    cudnnBackendDescriptorType_t as Kind, cudnnDataType_t as DataType, cudnnHandle_t, cudnnPointwiseMode_t as Mode,
    cudnnReduceTensorOp_t as Reduction, cudnnStatus_t as Status,
};

const HALF: DataType = DataType::CUDNN_DATA_HALF;
const FLOAT: DataType = DataType::CUDNN_DATA_FLOAT;

fn report(what: &str, status: Status) {
    if status == Status::CUDNN_STATUS_SUCCESS {
        return;
    }
    let mut text = [0_u8; 4096];
    // SAFETY: the buffer has this size.
    unsafe { cudnn_loader::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy();
    println!("{what}: {status:?} {text}");
}

/// A descriptor that is destroyed only at the end of the process.
#[derive(Clone, Copy)]
struct Made(Raw);

fn new(kind: Kind) -> Made {
    let mut raw = null_mut();
    // SAFETY: cuDNN stores the descriptor here.
    report("create", unsafe { cudnn_loader::cudnnBackendCreateDescriptor(kind, &raw mut raw) });
    Made(raw)
}

impl Made {
    fn set<T>(self, name: Name, ty: Type, elements: &[T]) -> Self {
        let count = elements.len() as i64;
        // SAFETY: the callers pass elements of the type; cuDNN refuses the other calls.
        let status =
            unsafe { cudnn_loader::cudnnBackendSetAttribute(self.0, name, ty, count, elements.as_ptr().cast()) };
        report("set", status);
        self
    }

    fn numbers(self, name: Name, numbers: &[i64]) -> Self {
        self.set(name, Type::CUDNN_TYPE_INT64, numbers)
    }

    fn data_type(self, name: Name, data_type: DataType) -> Self {
        self.set(name, Type::CUDNN_TYPE_DATA_TYPE, &[data_type])
    }

    fn children(self, name: Name, children: &[Made]) -> Self {
        let raw: Vec<Raw> = children.iter().map(|child| child.0).collect();
        self.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &raw)
    }

    fn child(self, name: Name, child: Made) -> Self {
        self.children(name, &[child])
    }

    fn finalize(self) -> Self {
        // SAFETY: the descriptor is live.
        report("finalize", unsafe { cudnn_loader::cudnnBackendFinalize(self.0) });
        self
    }

    fn destroy(self) {
        // SAFETY: the descriptor is live.
        report("destroy", unsafe { cudnn_loader::cudnnBackendDestroyDescriptor(self.0) });
    }
}

#[derive(Clone)]
struct Tensor {
    uid: i64,
    dims: Vec<i64>,
    strides: Vec<i64>,
    data_type: DataType,
    is_virtual: bool,
    is_by_value: bool,
}

fn tensor(uid: i64, dims: &[i64]) -> Tensor {
    let mut strides = vec![1; dims.len()];
    for index in (1..dims.len()).rev() {
        strides[index - 1] = strides[index] * dims[index].max(1);
    }
    Tensor { uid, dims: dims.to_vec(), strides, data_type: HALF, is_virtual: false, is_by_value: false }
}

fn image(uid: i64, dims: &[i64]) -> Tensor {
    let mut strides = vec![1; dims.len()];
    let mut stride = dims[1];
    for index in (2..dims.len()).rev() {
        strides[index] = stride;
        stride *= dims[index];
    }
    strides[0] = stride;
    tensor(uid, dims).strided(&strides)
}

impl Tensor {
    fn intermediate(self) -> Self {
        Tensor { is_virtual: true, data_type: FLOAT, ..self }
    }

    fn with_data_type(self, data_type: DataType) -> Self {
        Tensor { data_type, ..self }
    }

    fn strided(self, strides: &[i64]) -> Self {
        Tensor { strides: strides.to_vec(), ..self }
    }

    fn by_value(self) -> Self {
        Tensor { is_by_value: true, ..self }
    }

    fn open(&self) -> Made {
        let made = new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)
            .numbers(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[self.uid])
            .data_type(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, self.data_type)
            .numbers(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16])
            .numbers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &self.dims)
            .numbers(Name::CUDNN_ATTR_TENSOR_STRIDES, &self.strides)
            .set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, Type::CUDNN_TYPE_BOOLEAN, &[self.is_virtual]);
        if self.is_by_value {
            return made.set(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE, Type::CUDNN_TYPE_BOOLEAN, &[true]);
        }
        made
    }

    fn made(&self) -> Made {
        self.open().finalize()
    }
}

fn function(mode: Mode) -> Made {
    new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        .set(Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, &[mode])
        .data_type(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, FLOAT)
        .finalize()
}

fn pointwise_of(function: Made, x: &Tensor, b: Option<&Tensor>, y: &Tensor) -> Made {
    let made = new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function)
        .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.made())
        .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.made());
    match b {
        Some(b) => made.child(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b.made()).finalize(),
        None => made.finalize(),
    }
}

fn pointwise(mode: Mode, x: &Tensor, b: Option<&Tensor>, y: &Tensor) -> Made {
    pointwise_of(function(mode), x, b, y)
}

fn relu(x: &Tensor, y: &Tensor) -> Made {
    pointwise(Mode::CUDNN_POINTWISE_RELU_FWD, x, None, y)
}

fn add(x: &Tensor, b: &Tensor, y: &Tensor) -> Made {
    pointwise(Mode::CUDNN_POINTWISE_ADD, x, Some(b), y)
}

fn matmul_function() -> Made {
    new(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR).data_type(Name::CUDNN_ATTR_MATMUL_COMP_TYPE, FLOAT).finalize()
}

fn matmul_of(function: Option<Made>, a: &Tensor, b: &Tensor, c: Option<&Tensor>) -> Made {
    let mut made = new(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
        .child(Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.made())
        .child(Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.made());
    if let Some(c) = c {
        made = made.child(Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.made());
    }
    if let Some(function) = function {
        made = made.child(Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, function);
    }
    made.finalize()
}

fn matmul(a: &Tensor, b: &Tensor, c: &Tensor) -> Made {
    matmul_of(Some(matmul_function()), a, b, Some(c))
}

fn reduction(operator: Reduction, x: &Tensor, y: &Tensor) -> Made {
    let function = new(Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
        .set(Name::CUDNN_ATTR_REDUCTION_OPERATOR, Type::CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, &[operator])
        .data_type(Name::CUDNN_ATTR_REDUCTION_COMP_TYPE, FLOAT)
        .finalize();
    new(Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
        .child(Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, function)
        .child(Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.made())
        .child(Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.made())
        .finalize()
}

fn reshape(x: &Tensor, y: &Tensor) -> Made {
    new(Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
        .child(Name::CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.made())
        .child(Name::CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.made())
        .finalize()
}

fn convolution_function(padding: i64, stride: i64) -> Made {
    new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        .data_type(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, FLOAT)
        .set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, Type::CUDNN_TYPE_CONVOLUTION_MODE, &[1_i32])
        .numbers(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2])
        .numbers(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &[padding; 2])
        .numbers(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &[padding; 2])
        .numbers(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &[stride; 2])
        .numbers(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &[1, 1])
        .finalize()
}

#[derive(Clone, Copy)]
enum Pass {
    Forward,
    Data,
    Filter,
}

fn convolution(pass: Pass, stride: i64, x: &Tensor, w: &Tensor, y: &Tensor) -> Made {
    let (kind, names) = match pass {
        Pass::Forward => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            ],
        ),
        Pass::Data => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            ],
        ),
        Pass::Filter => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            ],
        ),
    };
    let [x_name, w_name, y_name, function, alpha, beta] = names;
    new(kind)
        .child(x_name, x.made())
        .child(w_name, w.made())
        .child(y_name, y.made())
        .child(function, convolution_function(1, stride))
        .set(alpha, Type::CUDNN_TYPE_FLOAT, &[1.0_f32])
        .set(beta, Type::CUDNN_TYPE_FLOAT, &[0.0_f32])
        .finalize()
}

fn graph_of(operations: &[Made]) -> Made {
    new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
        .children(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)
        .finalize()
}

/// The program, with the described device for the heuristics.
struct Program {
    device: Option<Made>,
}

impl Program {
    fn heuristics(&self, graph: Made) -> Made {
        let made =
            new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR).child(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
        match self.device {
            Some(device) => made.child(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device),
            None => made,
        }
    }

    fn search(&self, operations: &[Made]) -> Made {
        let graph = graph_of(operations);
        self.heuristics(graph).set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[0_i32]).finalize();
        graph
    }

    /// Makes a plan of y = max(x, 0) for tensors 1 and 2, and a handle.
    fn plan(&self) -> (cudnnHandle_t, Made) {
        let dims = [4, 64, 64];
        let graph = self.search(&[relu(&tensor(1, &dims), &tensor(2, &dims))]);
        let mut handle = null_mut();
        // SAFETY: cuDNN stores the handle here.
        report("cudnnCreate", unsafe { cudnn_loader::cudnnCreate(&raw mut handle) });
        let engine = new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)
            .child(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph)
            .numbers(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[1])
            .finalize();
        let configuration =
            new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).child(Name::CUDNN_ATTR_ENGINECFG_ENGINE, engine).finalize();
        let plan = new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
            .set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle])
            .child(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
            .finalize();
        (handle, plan)
    }

    /// Executes a plan with all packs twice. The stand-in returns immediately.
    fn execute(&self, packs: &[&[(i64, usize)]]) {
        let (handle, plan) = self.plan();
        for entries in packs {
            let pack = pack(entries);
            for _ in 0..2 {
                // SAFETY: the descriptors are live. Only the stand-in gets here, and it does not use the pointers.
                report("execute", unsafe { cudnn_loader::cudnnBackendExecute(handle, plan.0, pack.0) });
            }
            pack.destroy();
        }
    }

    /// Prints the nanoseconds of a step with a new variant pack, which has seven calls.
    fn execute_steps(&self, steps: u32) {
        let (handle, plan) = self.plan();
        let step = || {
            let pack = pack(&[(1, 0x1000), (2, 0x2000)]);
            // SAFETY: as in `execute`.
            report("execute", unsafe { cudnn_loader::cudnnBackendExecute(handle, plan.0, pack.0) });
            pack.destroy();
        };
        let measure = |_| {
            let start = Instant::now();
            (0..steps).for_each(|_| step());
            start.elapsed().as_nanos() / u128::from(steps)
        };
        println!("{}", (0..9).map(measure).min().unwrap_or_default());
    }

    /// Makes an attention of one head: the product of Q and K, a softmax, and the product with V.
    fn attention(&self, data_type: DataType, size_of_output: i64, has_sink: bool) {
        let (length, inner) = (128, |uid, dims: &[i64]| tensor(uid, dims).intermediate());
        let scores = [2, 4, length, length];
        let column = [2, 4, length, 1];
        let q = tensor(1, &[2, 4, length, 64]).with_data_type(data_type);
        let k =
            tensor(2, &[2, 4, 64, length]).strided(&[4 * 64 * length, 64 * length, 1, 64]).with_data_type(data_type);
        let v = tensor(3, &[2, 4, length, 32]).with_data_type(data_type);
        let o = tensor(4, &[2, 4, length, size_of_output]).with_data_type(data_type);
        let s = inner(5, &scores);
        let (max, shifted, exp) = (inner(6, &column), inner(7, &scores), inner(8, &scores));
        let (sum, p) = (inner(9, &column), inner(10, &scores).with_data_type(data_type));
        // cudnn-frontend 1.32 sets the shape of the scores here, although the operation writes one value per row.
        let (largest, sink) = (inner(11, &scores), tensor(12, &[1, 4, 1, 1]).with_data_type(FLOAT));
        let maximum = match has_sink {
            true => vec![
                reduction(Reduction::CUDNN_REDUCE_TENSOR_MAX, &s, &largest),
                pointwise(Mode::CUDNN_POINTWISE_MAX, &largest, Some(&sink), &max),
            ],
            false => vec![reduction(Reduction::CUDNN_REDUCE_TENSOR_MAX, &s, &max)],
        };
        let softmax = [
            pointwise(Mode::CUDNN_POINTWISE_SUB, &s, Some(&max), &shifted),
            pointwise(Mode::CUDNN_POINTWISE_EXP, &shifted, None, &exp),
            reduction(Reduction::CUDNN_REDUCE_TENSOR_ADD, &exp, &sum),
            pointwise(Mode::CUDNN_POINTWISE_DIV, &exp, Some(&sum), &p),
        ];
        let all = [&[matmul(&q, &k, &s)], &*maximum, &softmax, &[matmul(&p, &v, &o)]];
        self.search(&all.concat());
    }
}

fn pack(entries: &[(i64, usize)]) -> Made {
    let (ids, pointers): (Vec<i64>, Vec<usize>) = entries.iter().copied().unzip();
    let mut pack = new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    if !entries.is_empty() {
        pack = pack.numbers(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &ids).set(
            Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
            Type::CUDNN_TYPE_VOID_PTR,
            &pointers,
        );
    }
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, Type::CUDNN_TYPE_VOID_PTR, &[null_mut::<c_void>()]).finalize()
}

pub(crate) fn run(which: &str, device: Option<&str>) {
    let device = device.map(|json| {
        let json = json.trim_end_matches('\0');
        let bytes: Vec<u8> = json.bytes().chain([0]).collect();
        new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
            .set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, &bytes)
            .finalize()
    });
    let program = Program { device };
    if let Some(steps) = which.strip_prefix("steps-").and_then(|steps| steps.parse().ok()) {
        return program.execute_steps(steps);
    }
    if which == "many" {
        return (0..300).chain(0..300).for_each(|uid| tensor(uid, &[4, 0, 64]).made().destroy());
    }
    match which.parse() {
        Ok(number @ ..16) => tensors_and_operations(&program, number),
        Ok(number @ 16..27) => graphs_and_executions(&program, number),
        Ok(number) => refused_and_others(&program, number),
        Err(_) => legitimate(&program),
    }
    println!("done");
}

const DIMS: [i64; 3] = [4, 64, 64];

fn tensors_and_operations(program: &Program, number: u32) {
    let (x, y) = (tensor(1, &DIMS), tensor(2, &DIMS));
    let search = |operation| _ = program.search(&[operation]);
    match number {
        1 => search(relu(&x, &tensor(2, &[4, 32, 64]))),
        2 => search(add(&x, &tensor(3, &[1, 3, 64]), &y)),
        3 => search(pointwise(Mode::CUDNN_POINTWISE_RELU_FWD, &x, Some(&tensor(3, &DIMS)), &y)),
        4 => search(relu(&tensor(1, &[4, 0, 64]), &tensor(2, &[4, 0, 64]))),
        5 => search(relu(&x, &y.strided(&[64, 32, 1]))),
        6 => search(matmul_of(None, &x, &tensor(3, &DIMS), Some(&y))),
        7 => search(matmul_of(Some(y.made()), &x, &tensor(3, &DIMS), Some(&y))),
        8 => {
            let [a, b, c] = [1, 2, 3].map(|uid| tensor(uid, &DIMS).strided(&[8192, 128, 2]));
            search(matmul(&a, &b, &c));
        }
        9 => search(matmul(&x, &tensor(3, &DIMS).with_data_type(DataType::CUDNN_DATA_BFLOAT16), &y)),
        10 => {
            let operation = new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function(Mode::CUDNN_POINTWISE_RELU_FWD))
                .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.open())
                .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.made());
            search(operation.finalize());
        }
        11 => {
            let scalar = tensor(3, &[1, 1, 1]).intermediate().by_value();
            search(pointwise(Mode::CUDNN_POINTWISE_MUL, &x, Some(&scalar), &y));
        }
        12 => search(relu(&x.with_data_type(DataType(99)), &y)),
        13 => _ = x.open().numbers(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT, &[4]).finalize(),
        14 => {
            let function = new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                .data_type(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, FLOAT)
                .finalize();
            search(pointwise_of(function, &x, None, &y));
        }
        _ => {
            let function = new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                .set(
                    Name::CUDNN_ATTR_POINTWISE_MODE,
                    Type::CUDNN_TYPE_POINTWISE_MODE,
                    &[Mode::CUDNN_POINTWISE_RELU_FWD],
                )
                .data_type(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, FLOAT)
                .set(Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, Type::CUDNN_TYPE_DOUBLE, &[6.0])
                .set(Name::CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, Type::CUDNN_TYPE_DOUBLE, &[0.0])
                .finalize();
            search(pointwise_of(function, &x, None, &y));
        }
    }
}

fn graphs_and_executions(program: &Program, number: u32) {
    let (x, y) = (tensor(1, &DIMS), tensor(2, &DIMS));
    match number {
        16 => _ = program.heuristics(graph_of(&[relu(&x, &y)])).finalize(),
        17 => {
            let _ = new(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
                .set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE, &[3_i32])
                .finalize();
        }
        18 => program.execute(&[&[]]),
        19 => program.execute(&[&[(1, 0x1000), (1, 0x2000), (2, 0x3000)]]),
        20 => program.execute(&[&[(1, 0), (2, 0x2000)]]),
        // The tensors have different strides. Equal tensors with one id may be the same tensor.
        21 => _ = program.search(&[add(&x, &x.clone().strided(&[4096, 1, 64]), &y)]),
        22 => _ = program.search(&[relu(&x, &y), relu(&tensor(3, &DIMS), &tensor(4, &DIMS))]),
        23 => _ = program.search(&[relu(&x, &y.intermediate())]),
        24 => program.execute(&[&[(1, 0x1004), (2, 0x2000)]]),
        // Mistake 25 depends on data in device memory.
        _ => program.attention(FLOAT, 32, false),
    }
}

fn refused_and_others(program: &Program, number: u32) {
    let (x, y) = (tensor(1, &DIMS), tensor(2, &DIMS));
    let search = |operations: &[Made]| _ = program.search(operations);
    let engine =
        |graph| new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR).child(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    match number {
        27 => search(&[matmul_of(Some(matmul_function()), &x, &y, None)]),
        28 => search(&[matmul(&x, &tensor(3, &[64, 64]), &y)]),
        29 => _ = engine(graph_of(&[relu(&x, &y)])).finalize(),
        30 => {
            let engine = engine(graph_of(&[relu(&x, &y)]));
            engine.numbers(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[-1]).finalize();
        }
        31 => _ = new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).finalize(),
        32 => _ = new(Kind(999)),
        33 => _ = x.open().numbers(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[1]),
        34 => _ = x.made().numbers(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[5]),
        35 => _ = convolution_function(-1, 1),
        36 => search(&[relu(&x, &y), relu(&tensor(3, &DIMS), &y)]),
        37 => {
            let inner = tensor(3, &DIMS).intermediate();
            search(&[relu(&x, &inner), relu(&tensor(3, &[4, 32, 64]).intermediate(), &tensor(2, &[4, 32, 64]))]);
        }
        38 => {
            let (one, two) = (tensor(3, &DIMS).intermediate(), tensor(4, &DIMS).intermediate());
            search(&[add(&x, &two, &one), relu(&one, &two), relu(&two, &y)]);
        }
        39 => search(&[x.made()]),
        40 => search(&[pointwise(Mode::CUDNN_POINTWISE_ADD, &x, None, &y)]),
        41 => program.attention(HALF, 64, false),
        // These are not in the list.
        51 => search(&[relu(&tensor(3, &DIMS).intermediate(), &y)]),
        52 => {
            let (x, w, y) = (image(1, &[4, 16, 14, 14]), image(2, &[32, 16, 3, 3]), image(3, &[4, 32, 13, 13]));
            search(&[convolution(Pass::Forward, 1, &x, &w, &y)]);
        }
        53 => {
            let (x, w, y) = (image(1, &[4, 16, 13, 13]), image(2, &[32, 16, 3, 3]), image(3, &[4, 32, 14, 14]));
            search(&[convolution(Pass::Data, 1, &x, &w, &y)]);
        }
        54 => {
            let (x, w, y) = (image(1, &[4, 16, 14, 14]), image(2, &[32, 16, 5, 5]), image(3, &[4, 32, 14, 14]));
            search(&[convolution(Pass::Filter, 1, &x, &w, &y)]);
        }
        55 => search(&[reduction(Reduction::CUDNN_REDUCE_TENSOR_ADD, &x, &tensor(2, &[4, 24, 1]))]),
        56 => search(&[matmul(&x, &tensor(3, &DIMS), &tensor(2, &[4, 64, 32]))]),
        57 => program.execute(&[&[(1, 0x1000)]]),
        58 => program.execute(&[&[(1, 0x1000), (2, 0x2000), (999, 0x3000)]]),
        _ => {
            let tensor = x.made();
            tensor.destroy();
            // The stand-in reads the freed memory.
            tensor.finalize();
        }
    }
}

/// Makes graphs that look like mistakes, but are correct.
fn legitimate(program: &Program) {
    let (x, y, inner) = (tensor(1, &DIMS), tensor(2, &DIMS), tensor(3, &DIMS).intermediate());
    let search = |operations: &[Made]| _ = program.search(operations);
    // Scalars, by value or not, vectors and repeated elements.
    let scalar = tensor(4, &[1, 1, 1]).with_data_type(FLOAT);
    search(&[pointwise(Mode::CUDNN_POINTWISE_MUL, &x, Some(&scalar.clone().by_value()), &y)]);
    search(&[pointwise(Mode::CUDNN_POINTWISE_MUL, &x, Some(&scalar), &y)]);
    search(&[add(&x, &tensor(4, &[1, 1, 64]), &y)]);
    search(&[add(&x, &tensor(4, &DIMS).strided(&[0, 64, 1]), &y)]);
    search(&[add(&tensor(4, &[4, 1, 1]), &tensor(1, &[1, 64, 64]), &y)]);
    search(&[relu(&tensor(1, &[1, 1, 64]), &y)]);
    // One tensor as both operands, and a result that the graph writes and reads.
    search(&[add(&x, &x, &y)]);
    let written = tensor(3, &DIMS);
    search(&[relu(&x, &written), add(&written, &x, &y)]);
    // Operations in a different order, and two that share only an input.
    search(&[relu(&inner, &y), add(&x, &x, &inner)]);
    search(&[relu(&x, &y), pointwise(Mode::CUDNN_POINTWISE_EXP, &x, None, &tensor(5, &DIMS))]);
    // Padded, interleaved and transposed outputs.
    search(&[relu(&x, &tensor(2, &DIMS).strided(&[3 * 4096, 64, 1]))]);
    search(&[relu(&x, &tensor(2, &DIMS).strided(&[64, 256, 1]))]);
    search(&[relu(&x, &tensor(2, &DIMS).strided(&[4096, 1, 64]))]);
    search(&[
        reshape(&x, &tensor(3, &[4, 4096, 1]).intermediate()),
        relu(&tensor(3, &[4, 4096, 1]).intermediate(), &tensor(2, &[4, 4096, 1])),
    ]);
    // Products with a repeated batch, a transposed matrix, and a vector.
    search(&[matmul(&x, &tensor(3, &[1, 64, 32]), &tensor(2, &[4, 64, 32]))]);
    search(&[matmul(&x, &tensor(3, &DIMS).strided(&[4096, 1, 64]), &tensor(2, &DIMS).strided(&[4096, 1, 64]))]);
    search(&[matmul(&tensor(1, &[4, 1, 64]), &tensor(3, &DIMS), &tensor(2, &[4, 1, 64]))]);
    let gqa = |uid, heads| tensor(uid, &[2, heads, 64, 64]);
    search(&[matmul(&gqa(1, 8), &gqa(2, 2), &gqa(3, 8))]);
    search(&[matmul(
        &x.clone().with_data_type(DataType::CUDNN_DATA_FP8_E4M3),
        &tensor(3, &DIMS).with_data_type(DataType::CUDNN_DATA_FP8_E5M2),
        &y,
    )]);
    search(&[reduction(Reduction::CUDNN_REDUCE_TENSOR_ADD, &x, &tensor(2, &[4, 1, 1]).with_data_type(FLOAT))]);
    search(&[reduction(Reduction::CUDNN_REDUCE_TENSOR_ADD, &x, &tensor(2, &[4, 16, 64]).with_data_type(FLOAT))]);
    // Convolutions that omit the last rows, in all passes.
    for (pass, size) in [(Pass::Forward, 14), (Pass::Data, 14), (Pass::Filter, 13)] {
        let (x, w) = (image(1, &[4, 16, size, size]), image(2, &[32, 16, 3, 3]));
        search(&[convolution(pass, 2, &x, &w, &image(3, &[4, 32, 7, 7]))]);
    }
    program.attention(HALF, 32, false);
    program.attention(HALF, 32, true);
    // A vectorized tensor, with dimensions that count vectors, and a bound that equals the other one.
    let vectorized = image(1, &[4, 16, 14, 14]).with_data_type(DataType::CUDNN_DATA_INT8).open();
    let _ = vectorized
        .numbers(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT, &[4])
        .numbers(Name::CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, &[1])
        .finalize();
    let clipped = new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        .set(Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, &[Mode::CUDNN_POINTWISE_RELU_FWD])
        .data_type(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, FLOAT)
        .set(Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, Type::CUDNN_TYPE_DOUBLE, &[6.0])
        .set(Name::CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, Type::CUDNN_TYPE_DOUBLE, &[6.0])
        .finalize();
    search(&[pointwise_of(clipped, &x, None, &y)]);
    // A tensor with offsets, and strides that may let it overlap.
    let offset = tensor(6, &[5, 1, 1]).with_data_type(DataType::CUDNN_DATA_INT32).made();
    let ragged = tensor(2, &DIMS).strided(&[64, 64, 1]).open();
    let ragged = ragged.child(Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, offset).finalize();
    let operation = new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function(Mode::CUDNN_POINTWISE_RELU_FWD))
        .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.made())
        .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, ragged)
        .finalize();
    search(&[operation]);
    // Descriptors that are destroyed early, and addresses that are reused.
    let (a, b, c) = (x.made(), function(Mode::CUDNN_POINTWISE_RELU_FWD), y.made());
    let operation = new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, b)
        .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a)
        .child(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, c)
        .finalize();
    [a, b, c].into_iter().for_each(Made::destroy);
    let graph = graph_of(&[operation]);
    operation.destroy();
    program.heuristics(graph).set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[0_i32]).finalize();
    for _ in 0..100 {
        x.made().destroy();
    }
    // Plans for a described device are not executed.
    if program.device.is_none() {
        let pack: &[(i64, usize)] = &[(2, 0x2000), (1, 0x1000)];
        program.execute(&[pack, pack]);
    }
}
