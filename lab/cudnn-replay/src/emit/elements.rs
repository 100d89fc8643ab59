//! Converts the elements of an attribute to numbers, descriptors or bytes.

use cudnn_graph::{Attribute, Value};
use cudnn_loader::cudnnBackendAttributeType_t as Type;

use super::constants::{self, Constant};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Elements {
    List(ElementType, Vec<Element>),
    /// Bytes in cuDNN's layout, for elements that the languages have no literals for.
    Bytes(Vec<u8>),
    /// A number of repetitions of the handle.
    Handles,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementType {
    U8,
    I32,
    I64,
    F32,
    F64,
    Descriptor,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Element {
    Integer(i64),
    Constant(Constant),
    Float(f64),
    /// The index of a descriptor.
    Descriptor(usize),
}

impl Elements {
    pub(super) fn new(attribute: &Attribute) -> Self {
        let ty = attribute.ty;
        let bytes = || Elements::Bytes(attribute.value.to_bytes(ty));
        match &attribute.value {
            Value::Nodes(nodes) if nodes.is_empty() => bytes(),
            Value::Nodes(nodes) => {
                Elements::List(ElementType::Descriptor, nodes.iter().copied().map(Element::Descriptor).collect())
            }
            Value::Handles(_) => Elements::Handles,
            Value::Text(..) => bytes(),
            Value::Integers(integers) if integers.is_empty() => bytes(),
            Value::Floats(floats) if floats.is_empty() || !floats.iter().all(|float| has_literal(ty, *float)) => {
                bytes()
            }
            Value::Integers(integers) => {
                let number =
                    |value: &i64| constants::element(ty, *value).map_or(Element::Integer(*value), Element::Constant);
                let element_type = match ty {
                    Type::CUDNN_TYPE_INT64 | Type::CUDNN_TYPE_FRACTION => ElementType::I64,
                    Type::CUDNN_TYPE_BOOLEAN => ElementType::U8,
                    _ => ElementType::I32,
                };
                Elements::List(element_type, integers.iter().map(number).collect())
            }
            Value::Floats(floats) => {
                let is_double = ty == Type::CUDNN_TYPE_DOUBLE;
                let element_type = if is_double { ElementType::F64 } else { ElementType::F32 };
                Elements::List(element_type, floats.iter().copied().map(Element::Float).collect())
            }
        }
    }
}

/// Returns whether the number is finite in this type. For example, a large double is infinite as a float.
fn has_literal(ty: Type, float: f64) -> bool {
    if ty == Type::CUDNN_TYPE_DOUBLE { float.is_finite() } else { (float as f32).is_finite() }
}

#[cfg(test)]
mod tests {
    use cudnn_loader::cudnnBackendAttributeName_t as Name;

    use super::*;

    fn elements(ty: Type, float: f64) -> Elements {
        let name = Name::CUDNN_ATTR_POINTWISE_ELU_ALPHA;
        Elements::new(&Attribute { name, ty, value: Value::Floats(vec![float]) })
    }

    #[test]
    fn floats_without_a_literal_are_bytes() {
        let (float, double) = (Type::CUDNN_TYPE_FLOAT, Type::CUDNN_TYPE_DOUBLE);
        for (ty, value) in [(float, f64::from(f32::MAX)), (float, -0.0), (double, 1e39), (double, f64::MAX)] {
            assert!(matches!(elements(ty, value), Elements::List(..)), "{ty:?} {value}");
        }
        // From half a unit above the largest float, numbers are rounded to infinity.
        for (ty, value, is_finite) in [
            (float, 3.402_823_5e38, true),
            (float, 3.402_823_6e38, false),
            (float, f64::INFINITY, false),
            (float, f64::NAN, false),
            (double, f64::NAN, false),
        ] {
            assert_eq!(matches!(elements(ty, value), Elements::List(..)), is_finite, "{ty:?} {value}");
        }
        for value in [1e39, -1e300] {
            let infinity = (value as f32).to_ne_bytes().to_vec();
            assert_eq!(elements(float, value), Elements::Bytes(infinity));
        }
    }
}
