//! The elements that cuDNN declares for each attribute: which types, and how many.
//!
//! cuDNN accepts more than it declares: any number of elements where it reads one, or a float where it reads eight
//! bytes. Such a call means something that only cuDNN knows. The shadow reads no element of it, and nothing is
//! concluded from it.

use super::elements::{Name, Type};

/// The elements of an attribute.
#[derive(Debug)]
struct Elements {
    types: &'static [Type],
    /// The largest number of elements.
    most: u32,
}

/// By the attributes' numbers: see `cargo xtask bindings`.
static DECLARED: &[(Name, Elements)] = &include!("../generated/attributes.rs");

/// Returns whether cuDNN declares elements of this type, in this number, for an attribute.
pub(crate) fn is_declared(name: Name, ty: Type, count: i64) -> bool {
    (1..=most(name, ty)).contains(&count)
}

/// Returns the largest number of elements of this type that cuDNN declares for an attribute: 0 if there is no such
/// declaration.
pub(super) fn most(name: Name, ty: Type) -> i64 {
    let found = DECLARED.binary_search_by_key(&name.0, |(name, _)| name.0).ok().and_then(|place| DECLARED.get(place));
    found.map_or(0, |(_, elements)| if elements.types.contains(&ty) { i64::from(elements.most) } else { 0 })
}

/// All declarations: the attribute, a type of its elements, and their largest number.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (Name, Type, u32)> {
    DECLARED.iter().flat_map(|(name, elements)| elements.types.iter().map(|ty| (*name, *ty, elements.most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_in_the_order_of_their_numbers() {
        assert!(DECLARED.is_sorted_by_key(|(name, _)| name.0) && DECLARED.len() > 300);
    }

    #[test]
    fn one_type_and_one_number_are_declared_for_most_attributes() {
        let dims = Name::CUDNN_ATTR_TENSOR_DIMENSIONS;
        for (count, expected) in [(-1, false), (0, false), (1, true), (8, true), (9, false), (i64::MAX, false)] {
            assert_eq!(is_declared(dims, Type::CUDNN_TYPE_INT64, count), expected, "{count}");
            assert!(!is_declared(dims, Type::CUDNN_TYPE_INT32, count));
            assert!(!is_declared(Name(123_456), Type::CUDNN_TYPE_INT64, count));
        }
        // cuDNN accepts each of these types and numbers.
        let padding = Name::CUDNN_ATTR_MATMUL_PADDING_VALUE;
        let types = [Type::CUDNN_TYPE_DOUBLE, Type::CUDNN_TYPE_FLOAT, Type::CUDNN_TYPE_INT32, Type::CUDNN_TYPE_INT64];
        assert_eq!(types.map(|ty| is_declared(padding, ty, 1)), [true, false, false, false]);
        let (a, ty) = (Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
        assert_eq!([-1, 0, 1, 2].map(|count| is_declared(a, ty, count)), [false, false, true, false]);
    }
}
