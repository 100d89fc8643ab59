//! Estimates how far rounding may move computed values.
//!
//! A value near a jump of a function, such as a comparison, has no reference, because a correct result of cuDNN may be
//! on the other side. The estimate is generous, because this only costs a few comparisons and avoids false errors.

use cudnn_graph::Graph;
use cudnn_loader::cudnnDataType_t as DataType;
use rayon::prelude::*;

use super::super::element;
use super::super::tensor::{ELEMENTS_AT_ONCE, Tensor};

/// The minimum error relative to the largest value, because engines may use TF32, which is as precise as half.
const MIN_PRECISION: f64 = 1.0 / 1024.0;
/// The factor for sums, which have larger errors than single numbers, and for successive operations.
const MARGIN: f64 = 8.0;

pub(super) fn precision(graph: &Graph) -> f64 {
    let types = graph.tensors().filter_map(|node| Tensor::new(node).ok()).map(|tensor| tensor.ty);
    let floating = types.filter(|ty| element::is_readable(*ty) && !element::is_integer(*ty));
    floating.map(element::precision).fold(MIN_PRECISION, f64::max)
}

/// Returns how far rounding to this precision may move the values of a tensor with this type.
///
/// The result is 0 if all values are multiples of a number, and the type has all multiples up to the largest value.
/// This applies to indices and to sums and products of small integers, and does not happen by chance.
pub(super) fn uncertainty(values: &[f64], ty: DataType, precision: f64) -> f64 {
    let nonzero = values.par_iter().with_min_len(ELEMENTS_AT_ONCE).filter(|value| value.is_finite() && **value != 0.0);
    let (largest, lowest) = nonzero
        .map(|value| (value.abs(), lowest_bit(*value)))
        .reduce(|| (0.0, f64::INFINITY), |a, b| (a.0.max(b.0), a.1.min(b.1)));
    // Computations in double may be less precise.
    let own = element::precision(ty).max(element::precision(DataType::CUDNN_DATA_FLOAT));
    let is_exact = element::is_integer(ty) || largest * own <= 2.0 * lowest;
    if is_exact { 0.0 } else { MARGIN * precision * largest }
}

/// Returns the largest power of two that divides a number.
fn lowest_bit(value: f64) -> f64 {
    const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = value.to_bits();
    let exponent = (bits >> MANTISSA & 0x7ff) as i32 - 1023;
    let zeros = bits.trailing_zeros().min(MANTISSA);
    libm::scalbn(1.0, exponent - (MANTISSA - zeros).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_of_a_number_are_exact() {
        for (value, bit) in [(1.0, 1.0), (-6.0, 2.0), (0.375, 0.125), (1024.0, 1024.0), (f64::EPSILON, f64::EPSILON)] {
            assert_eq!(lowest_bit(value), bit, "{value}");
        }
        let [half, float, double, int] = [
            DataType::CUDNN_DATA_HALF,
            DataType::CUDNN_DATA_FLOAT,
            DataType::CUDNN_DATA_DOUBLE,
            DataType::CUDNN_DATA_INT32,
        ];
        let distance = |values: &[f64], ty| uncertainty(values, ty, 1.0 / 1024.0);
        for exact in [&[][..], &[0.0], &[2048.0, 1.0], &[-256.0, 0.125, f64::NAN], &[f64::INFINITY, 3.0]] {
            assert_eq!(distance(exact, half), 0.0, "{exact:?}");
        }
        for rounded in [&[2049.0, 1.0][..], &[0.1], &[1.0, 1.0 / 4096.0]] {
            let largest = rounded.iter().copied().fold(0.0, f64::max);
            assert_eq!(distance(rounded, half), largest / 128.0, "{rounded:?}");
        }
        assert_eq!((distance(&[9999.0, 1.0], float), distance(&[1e9, 1.0], int)), (0.0, 0.0));
        assert!(distance(&[0.1], double) > 0.0 && distance(&[0.1], float) > 0.0);
    }
}
