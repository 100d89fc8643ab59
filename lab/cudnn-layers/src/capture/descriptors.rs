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

static READERS: Next = Next::new();

/// Looks up the functions that read descriptors of this type before the program creates the first one. A lookup takes
/// ld.so's lock, which another thread may hold during later calls.
pub(super) fn prepare(host: Host, type_name: &str) {
    let functions = functions(type_name).iter().filter_map(|name| Id::from_name(name.as_bytes()));
    READERS.load(host, &functions.collect::<Vec<_>>());
}

pub(super) fn is_readable(type_name: &str) -> bool {
    !functions(type_name).is_empty()
}

fn numbers(array: &[c_int], count: c_int) -> Json {
    let count = usize::try_from(count).unwrap_or(0);
    json!(array.get(..count).unwrap_or(array))
}

/// Lists the readable types of descriptors with cuDNN's functions, which are called below this layer. The parameters of
/// a function are: the descriptor, inputs, properties, arrays with the properties for their lengths, more properties, and
/// more inputs.
macro_rules! readable {
    (|$handle:ident| $($type_name:ident { $(
        $function:ident($($before:expr),*)
            [$($first:ident)*] [$($count:ident: $($array:ident)*)?] [$($last:ident)*] ($($after:expr),*);
    )* })*) => {
        fn functions(type_name: &str) -> &'static [&'static str] {
            match type_name {
                $(stringify!($type_name) => &[$(stringify!($function)),*],)*
                _ => &[],
            }
        }

        /// Returns the properties of a descriptor by their names in cuDNN's headers. Only the first function must succeed.
        ///
        /// # Safety
        /// The address is a live descriptor of this type.
        #[allow(non_snake_case, reason = "these are the names of cuDNN's parameters")]
        pub(super) unsafe fn read(type_name: &str, address: usize, $handle: Option<cudnnHandle_t>) -> Option<Json> {
            let descriptor = std::ptr::with_exposed_provenance_mut::<c_void>(address);
            let mut properties = Map::new();
            match type_name {
                $(stringify!($type_name) => { $(
                    let read = || {
                        // SAFETY: the properties are numbers, enums and pointers, for which zero is valid.
                        $(let mut $first = unsafe { std::mem::zeroed() };)*
                        $($(let mut $array = [0; MAX_DIMENSIONS];)*)?
                        // SAFETY: as above.
                        $(let mut $last = unsafe { std::mem::zeroed() };)*
                        let function = READERS.$function()?;
                        // SAFETY: the descriptor is live, and all other arguments are valid for writes.
                        let status = unsafe { function(
                            descriptor.cast(), $($before,)* $(&raw mut $first,)* $($($array.as_mut_ptr(),)*)?
                            $(&raw mut $last,)* $($after,)*
                        ) };
                        (status == Status::CUDNN_STATUS_SUCCESS).then_some(())?;
                        let mut object = Map::new();
                        // SAFETY: these are properties in cuDNN's API.
                        $(object.insert(stringify!($first).to_owned(), json_of((&unsafe { Argument::new(&$first) }).value()));)*
                        $($(object.insert(stringify!($array).to_owned(), numbers(&$array, $count));)*)?
                        // SAFETY: as above.
                        $(object.insert(stringify!($last).to_owned(), json_of((&unsafe { Argument::new(&$last) }).value()));)*
                        Some(object)
                    };
                    match read() {
                        Some(object) => properties.extend(object),
                        None if properties.is_empty() => return None,
                        None => {}
                    }
                )* })*
                _ => return None,
            }
            Some(Json::Object(properties))
        }
    };
}

const ROOM: c_int = MAX_DIMENSIONS as c_int;
/// cuDNN refuses more.
const SPATIAL: c_int = ROOM - 2;

readable! { |handle|
    cudnnActivationDescriptor_t { cudnnGetActivationDescriptor() [mode reluNanOpt coef] [] [] (); }
    cudnnCTCLossDescriptor_t {
        cudnnGetCTCLossDescriptor_v9() [compType normMode ctcGradMode maxLabelLength] [] [] ();
    }
    cudnnConvolutionDescriptor_t {
        cudnnGetConvolutionNdDescriptor(SPATIAL)
            [arrayLength] [arrayLength: padA strideA dilationA] [mode computeType] ();
        cudnnGetConvolutionGroupCount() [groupCount] [] [] ();
        cudnnGetConvolutionMathType() [mathType] [] [] ();
    }
    cudnnDropoutDescriptor_t {
        cudnnGetDropoutDescriptor(handle.filter(|handle| !handle.is_null())?) [dropout states seed] [] [] ();
    }
    cudnnFilterDescriptor_t { cudnnGetFilterNdDescriptor(ROOM) [dataType format nbDims] [nbDims: filterDimA] [] (); }
    cudnnLRNDescriptor_t { cudnnGetLRNDescriptor() [lrnN lrnAlpha lrnBeta lrnK] [] [] (); }
    cudnnOpTensorDescriptor_t { cudnnGetOpTensorDescriptor() [opTensorOp opTensorCompType opTensorNanOpt] [] [] (); }
    cudnnPoolingDescriptor_t {
        cudnnGetPoolingNdDescriptor(SPATIAL) [mode maxpoolingNanOpt nbDims] [nbDims: windowDimA paddingA strideA] [] ();
    }
    cudnnRNNDataDescriptor_t {
        // The sequence lengths and the padding are not stored.
        cudnnGetRNNDataDescriptor() [dataType layout maxSeqLength batchSize vectorSize] [] []
            (0, std::ptr::null_mut(), std::ptr::from_mut(&mut 0_f64).cast());
    }
    cudnnRNNDescriptor_t {
        cudnnGetRNNDescriptor_v8()
            [algo cellMode biasMode dirMode inputMode dataType mathPrec mathType inputSize hiddenSize projSize numLayers
             dropoutDesc auxFlags] [] [] ();
    }
    cudnnReduceTensorDescriptor_t {
        cudnnGetReduceTensorDescriptor()
            [reduceTensorOp reduceTensorCompType reduceTensorNanOpt reduceTensorIndices reduceTensorIndicesType] [] [] ();
    }
    cudnnTensorDescriptor_t { cudnnGetTensorNdDescriptor(ROOM) [dataType nbDims] [nbDims: dimA strideA] [] (); }
}
