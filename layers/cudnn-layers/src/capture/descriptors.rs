//! Reads descriptors outside of the backend API with cuDNN's own functions.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use cudnn_layer_api::Host;
use cudnn_sys::signatures::unwinding;
use cudnn_sys::types::{cudnnHandle_t, cudnnStatus_t as Status};
use serde_json::{Map, Value as Json, json};

use crate::wrappers::{Argument, ToValue as _, ToValueOther as _, Value};

/// The maximum number of dimensions (`CUDNN_DIM_MAX`).
const MAX_DIMENSIONS: usize = 8;

/// Returns a number as JSON. Enums are numbers. Pointers are `true`.
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

/// Calls a function of cuDNN below this layer, and returns `None` unless it succeeds.
macro_rules! call {
    ($host:ident, $function:ident($($argument:expr),* $(,)?)) => {{
        static FUNCTION: OnceLock<Option<unwinding::$function>> = OnceLock::new();
        let function = FUNCTION.get_or_init(|| {
            let name = CStr::from_bytes_with_nul(concat!(stringify!($function), "\0").as_bytes()).ok()?;
            // SAFETY: the address belongs to the function with this name, or to another layer's wrapper of it.
            $host.next(name).map(|address| unsafe {
                std::mem::transmute::<*const c_void, unwinding::$function>(address)
            })
        });
        // SAFETY: the caller guarantees that the descriptor is live, and all other arguments are valid for writes.
        let status = unsafe { (*function)?($($argument),*) };
        (status == Status::CUDNN_STATUS_SUCCESS).then_some(())?
    }};
}

/// Reads a descriptor with a function of cuDNN. The parameters are: inputs, properties, arrays with the property that
/// is their length, more properties, and more inputs.
macro_rules! properties {
    (
        $host:ident,
        $function:ident($($before:expr),*)
            [$($first:ident)*] [$($count:ident: $($array:ident)*)?] [$($last:ident)*] ($($after:expr),*)
    ) => {{
        // SAFETY: the properties are numbers, enums and pointers, for which zero is valid.
        $(let mut $first = unsafe { std::mem::zeroed() };)*
        $($(let mut $array = [0; MAX_DIMENSIONS];)*)?
        // SAFETY: as above.
        $(let mut $last = unsafe { std::mem::zeroed() };)*
        call!($host, $function(
            $($before,)* $(&raw mut $first,)* $($($array.as_mut_ptr(),)*)? $(&raw mut $last,)* $($after,)*
        ));
        let mut object = Map::new();
        $(object.insert(stringify!($first).to_owned(), json_of((&Argument(&$first)).value()));)*
        $($(object.insert(stringify!($array).to_owned(), numbers(&$array, $count));)*)?
        $(object.insert(stringify!($last).to_owned(), json_of((&Argument(&$last)).value()));)*
        object
    }};
}

/// The first numbers of an array that cuDNN has filled.
fn numbers(array: &[c_int], count: c_int) -> Json {
    let count = usize::try_from(count).unwrap_or(0);
    json!(array.get(..count).unwrap_or(array))
}

/// The descriptors that can be read.
const READABLE: [&str; 12] = [
    "cudnnActivationDescriptor_t",
    "cudnnCTCLossDescriptor_t",
    "cudnnConvolutionDescriptor_t",
    "cudnnDropoutDescriptor_t",
    "cudnnFilterDescriptor_t",
    "cudnnLRNDescriptor_t",
    "cudnnOpTensorDescriptor_t",
    "cudnnPoolingDescriptor_t",
    "cudnnRNNDataDescriptor_t",
    "cudnnRNNDescriptor_t",
    "cudnnReduceTensorDescriptor_t",
    "cudnnTensorDescriptor_t",
];

/// Returns whether descriptors of this type can be read.
pub(super) fn is_readable(type_name: &str) -> bool {
    READABLE.contains(&type_name)
}

/// Returns the properties of a descriptor by the names in cuDNN's headers.
///
/// # Safety
/// The address is a live descriptor of this type.
#[allow(non_snake_case, reason = "these are the names of cuDNN's parameters")]
pub(super) unsafe fn read(host: Host, type_name: &str, address: usize, handle: Option<cudnnHandle_t>) -> Option<Json> {
    const ROOM: c_int = MAX_DIMENSIONS as c_int;
    // cuDNN refuses more.
    const SPATIAL: c_int = ROOM - 2;
    let at = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    Some(Json::Object(match type_name {
        "cudnnActivationDescriptor_t" => {
            properties!(host, cudnnGetActivationDescriptor(at.cast()) [mode reluNanOpt coef] [] [] ())
        }
        "cudnnCTCLossDescriptor_t" => properties!(
            host,
            cudnnGetCTCLossDescriptor_v9(at.cast()) [compType normMode ctcGradMode maxLabelLength] [] [] ()
        ),
        "cudnnConvolutionDescriptor_t" => {
            let mut object = properties!(
                host,
                cudnnGetConvolutionNdDescriptor(at.cast(), SPATIAL)
                    [arrayLength] [arrayLength: padA strideA dilationA] [mode computeType] ()
            );
            let group = || Some(properties!(host, cudnnGetConvolutionGroupCount(at.cast()) [groupCount] [] [] ()));
            let math = || Some(properties!(host, cudnnGetConvolutionMathType(at.cast()) [mathType] [] [] ()));
            object.extend([group(), math()].into_iter().flatten().flatten());
            object
        }
        "cudnnDropoutDescriptor_t" => {
            let handle = handle.filter(|handle| !handle.is_null())?;
            properties!(host, cudnnGetDropoutDescriptor(at.cast(), handle) [dropout states seed] [] [] ())
        }
        "cudnnFilterDescriptor_t" => properties!(
            host,
            cudnnGetFilterNdDescriptor(at.cast(), ROOM) [dataType format nbDims] [nbDims: filterDimA] [] ()
        ),
        "cudnnLRNDescriptor_t" => {
            properties!(host, cudnnGetLRNDescriptor(at.cast()) [lrnN lrnAlpha lrnBeta lrnK] [] [] ())
        }
        "cudnnOpTensorDescriptor_t" => properties!(
            host,
            cudnnGetOpTensorDescriptor(at.cast()) [opTensorOp opTensorCompType opTensorNanOpt] [] [] ()
        ),
        "cudnnPoolingDescriptor_t" => properties!(
            host,
            cudnnGetPoolingNdDescriptor(at.cast(), SPATIAL)
                [mode maxpoolingNanOpt nbDims] [nbDims: windowDimA paddingA strideA] [] ()
        ),
        "cudnnRNNDataDescriptor_t" => {
            // The lengths of sequences and the padding are not stored.
            let (mut padding, lengths) = (0_f64, std::ptr::null_mut());
            properties!(
                host,
                cudnnGetRNNDataDescriptor(at.cast()) [dataType layout maxSeqLength batchSize vectorSize] [] []
                    (0, lengths, (&raw mut padding).cast())
            )
        }
        "cudnnRNNDescriptor_t" => properties!(
            host,
            cudnnGetRNNDescriptor_v8(at.cast())
                [algo cellMode biasMode dirMode inputMode dataType mathPrec mathType inputSize hiddenSize projSize
                 numLayers dropoutDesc auxFlags] [] [] ()
        ),
        "cudnnReduceTensorDescriptor_t" => properties!(
            host,
            cudnnGetReduceTensorDescriptor(at.cast())
                [reduceTensorOp reduceTensorCompType reduceTensorNanOpt reduceTensorIndices reduceTensorIndicesType]
                [] [] ()
        ),
        "cudnnTensorDescriptor_t" => properties!(
            host,
            cudnnGetTensorNdDescriptor(at.cast(), ROOM) [dataType nbDims] [nbDims: dimA strideA] [] ()
        ),
        _ => return None,
    }))
}
