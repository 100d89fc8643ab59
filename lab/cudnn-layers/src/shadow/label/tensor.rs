//! Describes tensors: dimensions, data types, and memory layout.

use std::fmt::Write;

use super::names;
use crate::shadow::content::Content;
use crate::shadow::elements::Name;

/// A tensor with its name in an operation.
#[derive(Clone)]
pub(crate) struct Named<'a> {
    /// The name of the attribute, such as `x`.
    pub(crate) role: String,
    pub(crate) tensor: &'a Content,
}

impl Named<'_> {
    /// Returns the data type, such as `half`.
    pub(crate) fn data_type(&self) -> String {
        data_type(self.tensor)
    }

    /// Returns the number of the data type in cuDNN's enum.
    pub(crate) fn data_type_number(&self) -> Option<i64> {
        self.tensor.number(Name::CUDNN_ATTR_TENSOR_DATA_TYPE)
    }

    /// Returns the extent of each dimension.
    pub(crate) fn extents(&self) -> Vec<i64> {
        self.tensor.numbers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS)
    }

    /// Returns the stride of each dimension, in elements.
    pub(crate) fn strides(&self) -> Vec<i64> {
        self.tensor.numbers(Name::CUDNN_ATTR_TENSOR_STRIDES)
    }

    /// Returns whether an image or filter is channels-last, and could not be anything else.
    pub(crate) fn is_channels_last(&self) -> bool {
        is_channels_last(self.tensor) == Some(true)
    }

    /// Returns the program's id for the tensor.
    pub(crate) fn uid(&self) -> Option<i64> {
        uid(self.tensor)
    }

    /// Returns whether the tensor only connects two operations.
    pub(crate) fn is_virtual(&self) -> bool {
        self.tensor.number(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL) == Some(1)
    }

    /// Returns whether the program passes the value in host memory.
    pub(crate) fn is_by_value(&self) -> bool {
        self.tensor.number(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE) == Some(1)
    }

    /// Returns the alignment in bytes that the program promises.
    pub(crate) fn alignment(&self) -> Option<i64> {
        self.tensor.number(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
    }
}

/// Maximum number of tensors in a label.
const MAX_TENSORS: usize = 8;
const MAX_DIMENSIONS: usize = 8;

/// Formats a tensor as `tensor 1 [8,64,56,56] half nhwc`.
pub(super) fn label(tensor: &Content) -> String {
    let mut text = "tensor".to_owned();
    if let Some(uid) = uid(tensor) {
        let _ = write!(text, " {uid}");
    }
    let _ = write!(text, " {} {}", dimensions(tensor), data_type(tensor));
    if is_channels_last(tensor) == Some(true) {
        text.push_str(" nhwc");
    }
    if tensor.number(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL) == Some(1) {
        text.push_str(" virtual");
    }
    text
}

/// Formats tensors as `x[8,64,56,56] w[64,64,3,3] half b[1,64,1,1] float`. A type applies to all tensors before it.
pub(super) fn list(tensors: &[Named<'_>]) -> String {
    let mut text = String::new();
    let mut shown = tensors.iter().take(MAX_TENSORS).peekable();
    while let Some(Named { role, tensor }) = shown.next() {
        let data_type = data_type(tensor);
        let _ = write!(text, "{role}{}", dimensions(tensor));
        if shown.peek().is_none_or(|next| self::data_type(next.tensor) != data_type) {
            let _ = write!(text, " {data_type}");
        }
        if shown.peek().is_some() {
            text.push(' ');
        }
    }
    if let Some(more) = tensors.len().checked_sub(MAX_TENSORS + 1) {
        let _ = write!(text, " and {} more", more + 1);
    }
    text
}

/// Returns `nhwc` if all tensors with a recognizable layout are channels-last, or `None` if none is.
pub(super) fn order<'a>(tensors: impl Iterator<Item = &'a Named<'a>>) -> Option<&'static str> {
    let (mut last, mut other) = (false, false);
    for is_last in tensors.filter_map(|named| is_channels_last(named.tensor)) {
        last |= is_last;
        other |= !is_last;
    }
    match (last, other) {
        (true, false) => Some("nhwc"),
        (true, true) => Some("mixed nchw and nhwc"),
        (false, _) => None,
    }
}

pub(super) fn uid(tensor: &Content) -> Option<i64> {
    tensor.number(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID)
}

/// Returns whether all dimensions are 1.
pub(super) fn is_scalar(tensor: &Content) -> bool {
    tensor.numbers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS).iter().all(|extent| *extent == 1)
}

/// Returns whether a tensor has one value per channel: only the second or the last dimension is larger than 1.
pub(super) fn is_per_channel(tensor: &Content) -> bool {
    let extents = tensor.numbers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
    let mut long = extents.iter().enumerate().filter(|(_, extent)| **extent != 1).map(|(index, _)| index);
    let only = long.next().filter(|_| long.next().is_none());
    only.is_some_and(|index| index == 1 || index + 1 == extents.len())
}

fn data_type(tensor: &Content) -> String {
    tensor.number(Name::CUDNN_ATTR_TENSOR_DATA_TYPE).map_or_else(|| "unknown type".to_owned(), names::data_type)
}

fn dimensions(tensor: &Content) -> String {
    let extents = tensor.numbers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
    let mut texts: Vec<_> = extents.iter().take(MAX_DIMENSIONS).map(i64::to_string).collect();
    if extents.len() > MAX_DIMENSIONS {
        texts.push("..".to_owned());
    }
    format!("[{}]", texts.join(","))
}

/// Returns whether an image or filter is channels-last. Returns `None` for other tensors, and if the dimensions are
/// ambiguous.
fn is_channels_last(tensor: &Content) -> Option<bool> {
    let extents = tensor.numbers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
    let strides = tensor.numbers(Name::CUDNN_ATTR_TENSOR_STRIDES);
    if !(4..=5).contains(&extents.len()) || strides.len() != extents.len() {
        return None;
    }
    let is_packed = |innermost_first: &[usize]| {
        let mut expected = 1i64;
        innermost_first.iter().all(|index| {
            let extent = extents.get(*index).copied().unwrap_or(1);
            let fits = extent == 1 || strides.get(*index) == Some(&expected);
            expected = expected.saturating_mul(extent);
            fits
        })
    };
    let rank = extents.len();
    let channels_last: Vec<usize> = [1].into_iter().chain((2..rank).rev()).chain([0]).collect();
    let channels_first: Vec<usize> = (0..rank).rev().collect();
    match (is_packed(&channels_last), is_packed(&channels_first)) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}
