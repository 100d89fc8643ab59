//! Reads descriptors outside the backend API with cuDNN's own functions.

use std::ffi::{c_int, c_void};

use cudnn_layer_api::Host;
use cudnn_sys::types::{cudnnHandle_t, cudnnStatus_t as Status};
use serde_json::{Map, Value as Json, json};

use crate::wrappers::{Argument, Id, Next, ToValue as _, ToValueOther as _, Value};

/// The maximum number of dimensions (`CUDNN_DIM_MAX`).
const MAX_DIMENSIONS: usize = 8;

/// Returns a number as JSON. Pointers are `true`.
pub(super) fn json_of(value: Value<'_>) -> Json {
    match value {
        Value::Signed(number) => json!(number),
        Value::Unsigned(number) => json!(number),
        Value::Float(number) if number.is_finite() => json!(number),
        Value::Float(number) => json!(format!("{:016x}", number.to_bits())),
        Value::Pointer(0) => Json::Null,
        Value::Pointer(_) => Json::Bool(true),
        Value::Other(_, bits) => json!(bits),
    }
}

/// The readable types of descriptors, with cuDNN's functions.
const READABLE: [(&str, &[Id]); 12] = [
    ("cudnnActivationDescriptor_t", &[Id::CudnnGetActivationDescriptor]),
    ("cudnnCTCLossDescriptor_t", &[Id::CudnnGetCTCLossDescriptor_v9]),
    (
        "cudnnConvolutionDescriptor_t",
        &[Id::CudnnGetConvolutionNdDescriptor, Id::CudnnGetConvolutionGroupCount, Id::CudnnGetConvolutionMathType],
    ),
    ("cudnnDropoutDescriptor_t", &[Id::CudnnGetDropoutDescriptor]),
    ("cudnnFilterDescriptor_t", &[Id::CudnnGetFilterNdDescriptor]),
    ("cudnnLRNDescriptor_t", &[Id::CudnnGetLRNDescriptor]),
    ("cudnnOpTensorDescriptor_t", &[Id::CudnnGetOpTensorDescriptor]),
    ("cudnnPoolingDescriptor_t", &[Id::CudnnGetPoolingNdDescriptor]),
    ("cudnnRNNDataDescriptor_t", &[Id::CudnnGetRNNDataDescriptor]),
    ("cudnnRNNDescriptor_t", &[Id::CudnnGetRNNDescriptor_v8]),
    ("cudnnReduceTensorDescriptor_t", &[Id::CudnnGetReduceTensorDescriptor]),
    ("cudnnTensorDescriptor_t", &[Id::CudnnGetTensorNdDescriptor]),
];

static READERS: Next = Next::new();

/// Looks up the functions that read descriptors of this type before the program creates the first one. A lookup takes
/// ld.so's lock, which another thread may hold during later calls.
pub(super) fn prepare(host: Host, type_name: &str) {
    READABLE.iter().filter(|(name, _)| *name == type_name).for_each(|(_, functions)| READERS.load(host, functions));
}

pub(super) fn is_readable(type_name: &str) -> bool {
    READABLE.iter().any(|(name, _)| *name == type_name)
}

/// Calls a function of cuDNN below this layer, and returns `None` if it fails.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let function = READERS.$function()?;
        // SAFETY: the caller guarantees that the descriptor is live, and all other arguments are valid for writes.
        let status = unsafe { function($($argument),*) };
        (status == Status::CUDNN_STATUS_SUCCESS).then_some(())?
    }};
}

/// Reads a descriptor with a function of cuDNN. The parameters are: inputs, properties, arrays with the properties for
/// their lengths, more properties, and more inputs.
macro_rules! properties {
    (
        $function:ident($($before:expr),*)
            [$($first:ident)*] [$($count:ident: $($array:ident)*)?] [$($last:ident)*] ($($after:expr),*)
    ) => {{
        // SAFETY: the properties are numbers, enums and pointers, for which zero is valid.
        $(let mut $first = unsafe { std::mem::zeroed() };)*
        $($(let mut $array = [0; MAX_DIMENSIONS];)*)?
        // SAFETY: as above.
        $(let mut $last = unsafe { std::mem::zeroed() };)*
        call!($function(
            $($before,)* $(&raw mut $first,)* $($($array.as_mut_ptr(),)*)? $(&raw mut $last,)* $($after,)*
        ));
        let mut object = Map::new();
        // SAFETY: these are properties in cuDNN's API.
        $(object.insert(stringify!($first).to_owned(), json_of((&unsafe { Argument::new(&$first) }).value()));)*
        $($(object.insert(stringify!($array).to_owned(), numbers(&$array, $count));)*)?
        // SAFETY: as above.
        $(object.insert(stringify!($last).to_owned(), json_of((&unsafe { Argument::new(&$last) }).value()));)*
        object
    }};
}

fn numbers(array: &[c_int], count: c_int) -> Json {
    let count = usize::try_from(count).unwrap_or(0);
    json!(array.get(..count).unwrap_or(array))
}

/// Returns the properties of a descriptor by their names in cuDNN's headers.
///
/// # Safety
/// The address is a live descriptor of this type.
#[allow(non_snake_case, reason = "these are the names of cuDNN's parameters")]
pub(super) unsafe fn read(type_name: &str, address: usize, handle: Option<cudnnHandle_t>) -> Option<Json> {
    const ROOM: c_int = MAX_DIMENSIONS as c_int;
    // cuDNN refuses more.
    const SPATIAL: c_int = ROOM - 2;
    let at = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    Some(Json::Object(match type_name {
        "cudnnActivationDescriptor_t" => {
            properties!(cudnnGetActivationDescriptor(at.cast()) [mode reluNanOpt coef] [] [] ())
        }
        "cudnnCTCLossDescriptor_t" => properties!(
            cudnnGetCTCLossDescriptor_v9(at.cast()) [compType normMode ctcGradMode maxLabelLength] [] [] ()
        ),
        "cudnnConvolutionDescriptor_t" => {
            let mut object = properties!(
                cudnnGetConvolutionNdDescriptor(at.cast(), SPATIAL)
                    [arrayLength] [arrayLength: padA strideA dilationA] [mode computeType] ()
            );
            let group = || Some(properties!(cudnnGetConvolutionGroupCount(at.cast()) [groupCount] [] [] ()));
            let math = || Some(properties!(cudnnGetConvolutionMathType(at.cast()) [mathType] [] [] ()));
            object.extend([group(), math()].into_iter().flatten().flatten());
            object
        }
        "cudnnDropoutDescriptor_t" => {
            let handle = handle.filter(|handle| !handle.is_null())?;
            properties!(cudnnGetDropoutDescriptor(at.cast(), handle) [dropout states seed] [] [] ())
        }
        "cudnnFilterDescriptor_t" => properties!(
            cudnnGetFilterNdDescriptor(at.cast(), ROOM) [dataType format nbDims] [nbDims: filterDimA] [] ()
        ),
        "cudnnLRNDescriptor_t" => {
            properties!(cudnnGetLRNDescriptor(at.cast()) [lrnN lrnAlpha lrnBeta lrnK] [] [] ())
        }
        "cudnnOpTensorDescriptor_t" => properties!(
            cudnnGetOpTensorDescriptor(at.cast()) [opTensorOp opTensorCompType opTensorNanOpt] [] [] ()
        ),
        "cudnnPoolingDescriptor_t" => properties!(
            cudnnGetPoolingNdDescriptor(at.cast(), SPATIAL)
                [mode maxpoolingNanOpt nbDims] [nbDims: windowDimA paddingA strideA] [] ()
        ),
        "cudnnRNNDataDescriptor_t" => {
            // The sequence lengths and the padding are not stored.
            let (mut padding, lengths) = (0_f64, std::ptr::null_mut());
            properties!(
                cudnnGetRNNDataDescriptor(at.cast()) [dataType layout maxSeqLength batchSize vectorSize] [] []
                    (0, lengths, (&raw mut padding).cast())
            )
        }
        "cudnnRNNDescriptor_t" => properties!(
            cudnnGetRNNDescriptor_v8(at.cast())
                [algo cellMode biasMode dirMode inputMode dataType mathPrec mathType inputSize hiddenSize projSize
                 numLayers dropoutDesc auxFlags] [] [] ()
        ),
        "cudnnReduceTensorDescriptor_t" => properties!(
            cudnnGetReduceTensorDescriptor(at.cast())
                [reduceTensorOp reduceTensorCompType reduceTensorNanOpt reduceTensorIndices reduceTensorIndicesType]
                [] [] ()
        ),
        "cudnnTensorDescriptor_t" => properties!(
            cudnnGetTensorNdDescriptor(at.cast(), ROOM) [dataType nbDims] [nbDims: dimA strideA] [] ()
        ),
        _ => return None,
    }))
}
