//! Converts between float and half precision (IEEE 754 binary16), rounding to nearest, ties to even.

/// The smallest normal number of half precision, 2^-14.
const MIN_NORMAL: f32 = 1.0 / 16384.0;
/// From here on a float rounds to infinity.
const OVERFLOW: f32 = 65520.0;
/// The difference between the biases of the exponents, in the place of a float's exponent.
const REBIAS: u32 = (127 - 15) << 23;

/// Returns the bits of the number of half precision next to a float.
pub(super) fn from_float(value: f32) -> u16 {
    let magnitude = value.abs();
    let bits = if magnitude.is_nan() {
        0x7e00
    } else if magnitude >= OVERFLOW {
        0x7c00
    } else if magnitude < MIN_NORMAL {
        // Floats from 0.5 on are as far apart as the subnormal numbers of half precision: the addition rounds.
        (magnitude + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        let bits = magnitude.to_bits() - REBIAS;
        (bits + 0xfff + ((bits >> 13) & 1)) >> 13
    };
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    sign | bits as u16
}

/// Returns the float that is equal to a number of half precision.
pub(super) fn to_float(half: u16) -> f32 {
    let bits = u32::from(half & 0x7fff) << 13;
    let magnitude = match half & 0x7c00 {
        0x7c00 => f32::from_bits(bits | 0x7f80_0000),
        0 => f32::from(half & 0x3ff) * (MIN_NORMAL / 1024.0),
        _ => f32::from_bits(bits + REBIAS),
    };
    if half & 0x8000 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_survive_the_way_to_float_and_back() {
        for half in 0..=u16::MAX {
            let is_nan = half & 0x7fff > 0x7c00;
            assert_eq!(to_float(half).is_nan(), is_nan, "{half:#x}");
            if is_nan {
                assert!(to_float(from_float(to_float(half))).is_nan(), "{half:#x}");
            } else {
                assert_eq!(from_float(to_float(half)), half, "{half:#x}");
            }
        }
        for (half, float) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 2f32.powi(-24)), (0x7bff, 65504.0), (0x3555, 0.333_251_95)]
        {
            assert_eq!(to_float(half), float);
        }
    }

    #[test]
    fn floats_round_to_the_nearest_number_and_ties_to_even() {
        for half in 0..0x7bff {
            let (low, high) = (to_float(half), to_float(half + 1));
            let middle = low + (high - low) / 2.0;
            assert_eq!(from_float(middle), half + (half & 1), "{half:#x}");
            assert_eq!(from_float(middle.next_down()), half, "{half:#x}");
            assert_eq!(from_float(-middle.next_up()), 0x8000 | (half + 1), "{half:#x}");
        }
        assert_eq!(from_float(OVERFLOW.next_down()), 0x7bff);
        assert_eq!((from_float(OVERFLOW), from_float(f32::NEG_INFINITY)), (0x7c00, 0xfc00));
        assert_eq!((from_float(f32::MIN_POSITIVE), from_float(-0.0)), (0, 0x8000));
    }
}
