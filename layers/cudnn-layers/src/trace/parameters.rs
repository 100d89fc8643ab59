//! What of a function's record is the same in each call: made once, when the function is resolved.

use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::wrappers::{Id, Parameter};

/// What records of a function have in common. Never freed.
pub(super) struct Pieces {
    /// The parameters, in order.
    pub(super) parameters: Vec<Piece>,
    /// It makes the device work, on the handle's stream or on one that it is given.
    pub(super) is_execution: bool,
    /// The place of its stream among the parameters.
    pub(super) stream: Option<usize>,
    /// The name, for C.
    pub(super) name: CString,
}

/// A parameter.
pub(super) struct Piece {
    /// Its name and its type in C: `n: int`.
    pub(super) text: String,
    /// It is the handle.
    pub(super) is_handle: bool,
}

static FUNCTIONS: [AtomicPtr<Pieces>; Id::NAMES.len()] = [const { AtomicPtr::new(null_mut()) }; Id::NAMES.len()];

/// Makes the pieces of a function.
pub(super) fn prepare(function: Id) {
    let Some(cell) = FUNCTIONS.get(function as usize) else { return };
    let new = Box::into_raw(Box::new(Pieces::new(function.name(), function.parameters())));
    if cell.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: it was made above, and nobody else has it.
        drop(unsafe { Box::from_raw(new) });
    }
}

/// The pieces of a function; `None` if it was not prepared.
#[inline]
pub(super) fn pieces(function: Id) -> Option<&'static Pieces> {
    // SAFETY: what a cell has is never freed.
    unsafe { FUNCTIONS.get(function as usize)?.load(Ordering::Acquire).as_ref() }
}

impl Pieces {
    fn new(name: &str, parameters: &[Parameter]) -> Self {
        let parameters: Vec<Piece> = parameters.iter().map(Piece::new).collect();
        let stream = parameters.iter().position(|piece| piece.text.ends_with(": cudaStream_t"));
        let has_stream = stream.is_some() || parameters.iter().any(|piece| piece.is_handle);
        let is_execution = has_stream && is_execution(name);
        let name = CString::new(name).unwrap_or_default();
        Pieces { parameters, is_execution, stream, name }
    }
}

impl Piece {
    fn new(parameter: &Parameter) -> Self {
        let ty = c_type(parameter.rust_type);
        // Bindings put an underscore behind names that are words of Rust.
        let text = format!("{}: {ty}", parameter.name.trim_end_matches('_'));
        Piece { text, is_handle: ty == "cudnnHandle_t" }
    }
}

/// Whether a function with a handle makes the device work, by its name: cuDNN's are regular.
fn is_execution(name: &str) -> bool {
    const WORK: [&str; 18] = [
        "AddTensor",
        "Apply",
        "Backward",
        "CTCLoss",
        "Conv1d",
        "Execute",
        "Forward",
        "Gnn",
        "Im2Col",
        "OpTensor",
        "ReduceTensor",
        "ReorderFilter",
        "ScaleTensor",
        "SetTensor",
        "SpatialTf",
        "Subquadratic",
        "TransformFilter",
        "TransformTensor",
    ];
    const NO_WORK: [&str; 6] = ["Create", "Descriptor", "Find", "Get", "Make", "Size"];
    WORK.iter().any(|word| name.contains(word)) && !NO_WORK.iter().any(|word| name.contains(word))
}

/// A type of the table of functions as C writes it.
fn c_type(rust: &str) -> String {
    let compact = rust.replace("$crate", "").replace(' ', "");
    let (pointers, base) = pointers(&compact);
    let base = base.rsplit("::").next().unwrap_or(base);
    let mut c = match base {
        "c_void" => "void",
        "c_char" => "char",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_ulonglong" => "unsigned long long",
        "usize" => "size_t",
        "f32" => "float",
        "f64" => "double",
        "i32" => "int32_t",
        "i64" => "int64_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        other => other,
    }
    .to_owned();
    for (index, is_const) in pointers.iter().rev().enumerate() {
        if *is_const {
            c = if index == 0 { format!("const {c}") } else { format!("{c} const ") };
        }
        c.push_str(if index == 0 { " *" } else { "*" });
    }
    c
}

/// The pointers of a type without spaces, the outermost first, whether each is to something constant; and the rest.
fn pointers(compact: &str) -> (Vec<bool>, &str) {
    let (mut pointers, mut rest) = (Vec::new(), compact);
    loop {
        if let Some(inner) = rest.strip_prefix("*const") {
            pointers.push(true);
            rest = inner;
        } else if let Some(inner) = rest.strip_prefix("*mut") {
            pointers.push(false);
            rest = inner;
        } else {
            return (pointers, rest);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn types_are_written_as_in_c() {
        let types = [
            "core::ffi::c_int",
            "*const core::ffi::c_void",
            "*mut usize",
            "*mut *mut core::ffi::c_void",
            "$crate::cudnnHandle_t",
            "* mut cudnn_sys :: cudnnHandle_t",
            "*const $crate::cudnnSeqDataAxis_t",
        ];
        let expected = [
            "int",
            "const void *",
            "size_t *",
            "void **",
            "cudnnHandle_t",
            "cudnnHandle_t *",
            "const cudnnSeqDataAxis_t *",
        ];
        assert_eq!(types.map(c_type), expected);
    }

    #[test]
    fn functions_that_make_the_device_work_are_known() {
        let work = ["cudnnBackendExecute", "cudnnConvolutionForward", "cudnnRNNBackwardWeights_v8", "cudnnSetTensor"];
        let no_work =
            ["cudnnGetRNNWeightParams", "cudnnFindConvolutionForwardAlgorithm", "cudnnSetStream", "cudnnCreate"];
        let is_execution = |name: &&str| {
            let function = Id::from_name(name.as_bytes()).unwrap();
            Pieces::new(name, function.parameters()).is_execution
        };
        assert!(work.iter().all(is_execution));
        assert!(!no_work.iter().any(is_execution));
    }

    #[test]
    fn the_table_gives_types_of_c() {
        for function in Id::ALL {
            for parameter in function.parameters() {
                let ty = c_type(parameter.rust_type);
                assert!(!ty.contains(':') && !ty.contains('$'), "{ty}");
            }
        }
    }
}
