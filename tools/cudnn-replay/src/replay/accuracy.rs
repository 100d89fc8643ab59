//! Measures the error of a result.

use cudnn_loader::cudnnDataType_t as DataType;

use super::element::{decode, encode, is_integer, precision};
use super::tensor::Array;

/// Returns the largest difference, in units of the type's precision at the largest value of the reference. 0.5 is the
/// error of a correct rounding of the largest value. The unit of integers is 1.
///
/// Values beyond the range of the type count as its largest value. A NaN on one side only counts as `f64::MAX`.
pub(super) fn error(ty: DataType, result: &Array, reference: &Array) -> f64 {
    let mut bytes = Vec::new();
    encode(ty, f64::MAX, &mut bytes);
    let max = decode(ty, &bytes);
    let in_range = |value: f64| value.clamp(-max, max);
    let largest =
        reference.values.iter().filter(|value| value.is_finite()).fold(0.0_f64, |a, b| a.max(in_range(*b).abs()));
    let unit = if is_integer(ty) || largest == 0.0 { precision(ty) } else { precision(ty) * largest };
    let mut error = 0.0_f64;
    for (value, expected) in result.values.iter().zip(&reference.values) {
        let difference = match (value.is_nan(), expected.is_nan()) {
            (true, true) => 0.0,
            (false, false) if expected.is_infinite() && in_range(*value) == in_range(*expected) => 0.0,
            (false, false) => (in_range(*value) - in_range(*expected)).abs() / unit,
            _ => f64::MAX,
        };
        error = error.max(difference.min(f64::MAX));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(ty: DataType, result: &[f64], reference: &[f64]) -> f64 {
        let array = |values: &[f64]| Array { dims: vec![values.len()], values: values.to_vec() };
        error(ty, &array(result), &array(reference))
    }

    #[test]
    fn errors_are_relative_to_the_largest_value() {
        let half = DataType::CUDNN_DATA_HALF;
        assert_eq!(measure(half, &[1.0, 2.0], &[1.0, 2.0]), 0.0);
        assert_eq!(measure(half, &[1.0 + 2.0 / 1024.0, 2.0], &[1.0, 2.0]), 1.0);
        assert_eq!(measure(half, &[f64::NAN], &[1.0]), f64::MAX);
        assert_eq!(measure(half, &[f64::NAN], &[f64::NAN]), 0.0);
        assert_eq!(measure(half, &[f64::INFINITY, 1.0], &[1e6, 1.0]), 0.0);
        assert!(measure(half, &[f64::INFINITY], &[1.0]) > 1e6);
        assert_eq!(measure(half, &[f64::INFINITY, 1.0 + 1.0 / 1024.0], &[f64::INFINITY, 1.0]), 1.0);
        assert_eq!(measure(DataType::CUDNN_DATA_INT8, &[3.0, 127.0], &[1.0, 200.0]), 2.0);
        assert_eq!(measure(half, &[0.5], &[0.0]), 512.0);
    }
}
