//! Measures the error of a result.

use cudnn_loader::cudnnDataType_t as DataType;
use rayon::prelude::*;

use super::element::{decode, encode, is_integer, precision};
use super::tensor::{Array, ELEMENTS_AT_ONCE};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Worst {
    /// The error in units of the type's precision at the largest reference value, where correct rounding has an error
    /// of 0.5. The unit of integers is 1.
    pub(super) error: f64,
    pub(super) index: usize,
    pub(super) value: f64,
    pub(super) expected: f64,
    pub(super) is_out_of_range: bool,
    pub(super) compared: f64,
}

/// If fewer elements are compared, most errors would be missed.
const MIN_COMPARED: f64 = 0.1;

/// Returns the element with the largest error, or the fraction of comparable elements if it is less than a tenth.
///
/// Values beyond the range of the type count as its largest or smallest value. If the result is NaN and the reference
/// is a number, the error is `f64::MAX`. Elements with a NaN as reference are not compared, because cuDNN may return a
/// number: operations may ignore NaNs, attention may return 0 for a row without keys, and rounding may select the side
/// of a jump.
pub(super) fn worst(ty: DataType, result: &Array, reference: &Array) -> Result<Worst, f64> {
    let limit = |value| {
        let mut bytes = [0; 8];
        encode(ty, value, &mut bytes);
        decode(ty, &bytes)
    };
    // Unsigned types have no negative values.
    let (min, max) = (limit(f64::MIN).min(0.0), limit(f64::MAX));
    let in_range = |value: f64| value.clamp(min, max);
    let largest_of = |values: &[f64]| {
        values.iter().filter(|value| value.is_finite()).fold(0.0_f64, |a, b| a.max(in_range(*b).abs()))
    };
    let largest = reference.values.par_chunks(ELEMENTS_AT_ONCE).map(largest_of).reduce(|| 0.0, f64::max);
    let unit = if is_integer(ty) || largest == 0.0 { precision(ty) } else { precision(ty) * largest };
    let error = |value: f64, expected: f64| {
        if value.is_nan() {
            f64::MAX
        } else if expected.is_infinite() && in_range(value) == in_range(expected) {
            0.0
        } else {
            ((in_range(value) - in_range(expected)).abs() / unit).min(f64::MAX)
        }
    };
    let measured = |(number, (values, expected)): (usize, (&[f64], &[f64]))| {
        let mut worst: Option<Worst> = None;
        let mut count = 0_usize;
        for (at, (value, expected)) in values.iter().zip(expected).enumerate().filter(|(_, (_, e))| !e.is_nan()) {
            count += 1;
            let (value, expected, index) = (*value, *expected, number * ELEMENTS_AT_ONCE + at);
            let error = error(value, expected);
            if worst.is_none_or(|worst| error > worst.error) {
                let is_out_of_range = expected < min || expected > max;
                worst = Some(Worst { error, index, value, expected, is_out_of_range, compared: 0.0 });
            }
        }
        (count, worst)
    };
    let values = result.values.par_chunks(ELEMENTS_AT_ONCE);
    let parts: Vec<_> = values.zip(reference.values.par_chunks(ELEMENTS_AT_ONCE)).enumerate().map(measured).collect();
    let count: usize = parts.iter().map(|(count, _)| count).sum();
    let compared = count as f64 / result.values.len().min(reference.values.len()).max(1) as f64;
    if compared < MIN_COMPARED {
        return Err(compared);
    }
    let worst = parts.into_iter().filter_map(|(_, worst)| worst).reduce(|a, b| if b.error > a.error { b } else { a });
    worst.map(|worst| Worst { compared, ..worst }).ok_or(compared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(ty: DataType, result: &[f64], reference: &[f64]) -> f64 {
        let array = |values: &[f64]| Array { dims: vec![values.len()], values: values.to_vec() };
        worst(ty, &array(result), &array(reference)).unwrap().error
    }

    #[test]
    fn unsigned_types_end_at_zero() {
        assert_eq!(measure(DataType::CUDNN_DATA_UINT8, &[0.0, 255.0], &[-7.0, 300.0]), 0.0);
        assert_eq!(measure(DataType::CUDNN_DATA_UINT32, &[0.0], &[-1e6]), 0.0);
        assert_eq!(measure(DataType::CUDNN_DATA_INT8, &[-128.0], &[-1e6]), 0.0);
    }

    #[test]
    fn elements_without_a_reference_are_not_compared() {
        let half = DataType::CUDNN_DATA_HALF;
        let array = |values: &[f64]| Array { dims: vec![values.len()], values: values.to_vec() };
        let worst = |reference: &[f64]| worst(half, &array(&[7.0, 1.0, 2.0, 3.0]), &array(reference));
        assert_eq!(worst(&[f64::NAN; 4]), Err(0.0));
        let found = worst(&[f64::NAN, 1.0, f64::NAN, f64::NAN]).unwrap();
        assert_eq!((found.error, found.index, found.compared), (0.0, 1, 0.25));
        let mut reference = [f64::NAN; 16];
        reference[0] = 7.0;
        assert_eq!(super::worst(half, &array(&[7.0; 16]), &array(&reference)), Err(1.0 / 16.0));
    }

    #[test]
    fn errors_are_relative_to_the_largest_value() {
        let half = DataType::CUDNN_DATA_HALF;
        assert_eq!(measure(half, &[1.0, 2.0], &[1.0, 2.0]), 0.0);
        assert_eq!(measure(half, &[1.0 + 2.0 / 1024.0, 2.0], &[1.0, 2.0]), 1.0);
        assert_eq!(measure(half, &[f64::NAN], &[1.0]), f64::MAX);
        assert_eq!(measure(half, &[f64::INFINITY, 1.0], &[1e6, 1.0]), 0.0);
        assert!(measure(half, &[f64::INFINITY], &[1.0]) > 1e6);
        assert_eq!(measure(half, &[f64::INFINITY, 1.0 + 1.0 / 1024.0], &[f64::INFINITY, 1.0]), 1.0);
        assert_eq!(measure(DataType::CUDNN_DATA_INT8, &[3.0, 127.0], &[1.0, 200.0]), 2.0);
        assert_eq!(measure(half, &[0.5], &[0.0]), 512.0);
    }

    #[test]
    fn the_worst_element_is_named() {
        let array = |values: &[f64]| Array { dims: vec![values.len()], values: values.to_vec() };
        let half = DataType::CUDNN_DATA_HALF;
        let found = worst(half, &array(&[1.0, 0.0, f64::INFINITY]), &array(&[2.0, -71424.7, 7e4])).unwrap();
        assert_eq!((found.error, found.index, found.value, found.expected), (1024.0, 1, 0.0, -71424.7));
        assert!(found.is_out_of_range);
        assert_eq!(worst(half, &array(&[]), &array(&[])), Err(0.0));
    }
}
