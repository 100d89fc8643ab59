//! Precomputes the common parts of a function's records.

use std::ffi::CString;

use once_cell::race::OnceBox;

use crate::wrappers::{Id, Parameter};

/// The common parts of a function's records, which are never freed.
pub(super) struct Pieces {
    pub(super) parameters: Vec<Piece>,
    /// The index of the stream parameter.
    pub(super) stream: Option<usize>,
    pub(super) name: CString,
}

pub(super) struct Piece {
    /// The name and the C type, such as `n: int`.
    pub(super) text: String,
    pub(super) is_handle: bool,
}

static FUNCTIONS: [OnceBox<Pieces>; Id::NAMES.len()] = [const { OnceBox::new() }; Id::NAMES.len()];

pub(super) fn prepare(function: Id) {
    if let Some(cell) = FUNCTIONS.get(function as usize) {
        let _ = cell.set(Box::new(Pieces::new(function)));
    }
}

/// Returns the parts of a function after [`prepare`] was called.
#[inline]
pub(super) fn pieces(function: Id) -> Option<&'static Pieces> {
    FUNCTIONS.get(function as usize)?.get()
}

impl Pieces {
    fn new(function: Id) -> Self {
        let parameters: Vec<Piece> = function.parameters().iter().map(Piece::new).collect();
        let stream = parameters.iter().position(|piece| piece.text.ends_with(": cudaStream_t"));
        let name = CString::new(function.name()).unwrap_or_default();
        Pieces { parameters, stream, name }
    }
}

impl Piece {
    fn new(parameter: &Parameter) -> Self {
        let ty = c_type(parameter.rust_type);
        // Bindings append an underscore to names that are Rust keywords.
        let text = format!("{}: {ty}", parameter.name.trim_end_matches('_'));
        Piece { text, is_handle: ty == "cudnnHandle_t" }
    }
}

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

/// Splits a type without spaces into pointers and the base type. The outermost pointer comes first, and the values say
/// whether they are `const`.
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
    fn the_table_gives_types_of_c() {
        for function in Id::ALL {
            for parameter in function.parameters() {
                let ty = c_type(parameter.rust_type);
                assert!(!ty.contains(':') && !ty.contains('$'), "{ty}");
            }
        }
    }
}
